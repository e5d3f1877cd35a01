"""Message heads written from their model, for the next hop: no byte of what came in is passed on unread."""

from __future__ import annotations

from paddock.gateway.heads import HOP_BY_HOP, NOT_FORWARDED, Head, Headers, ResponseHead, connection_options


def serialise(head: Head | ResponseHead, *, forward: bool = False) -> bytes:
    """The head from the model. `forward` writes it for the next hop: origin-form, without what was for us only."""
    if isinstance(head, Head):
        if forward:
            return write_request(head)
        start = f"{head.method} {head.target} {head.version}"
    else:
        if forward:
            return write_response(head)
        start = f"{head.version} {head.status} {head.reason}"
    return _written([start, *(f"{name}: {value}" for name, value in head.headers)])


def write_request(head: Head, *, path: str = "", headers: Headers | None = None, chunked: bool | None = None) -> bytes:
    """A request for the next hop; what is given here stands in place of what the head says."""
    lines = [f"{head.method} {path or head.path or head.target} {head.version}"]
    if "host" not in head.fields:
        lines.append(f"Host: {head.target[7:].partition('/')[0].partition('?')[0]}")
    chunked = head.length is None if chunked is None else chunked
    _write_fields(lines, head, head.headers if headers is None else headers, chunked=chunked)
    _write_connection(lines, head, upgrade=head.websocket)
    return _written(lines)


def write_response(head: ResponseHead) -> bytes:
    """An answer for the client."""
    lines = [f"{head.version} {head.status} {head.reason}"]
    _write_fields(lines, head, head.headers, chunked=head.chunked)
    _write_connection(lines, head, upgrade=head.status == 101)
    return _written(lines)


def _write_fields(lines: list[str], head: Head | ResponseHead, headers: Headers, *, chunked: bool) -> None:
    options = connection_options(head.fields)
    for name, value in headers:
        key = name.lower()
        if (
            key not in HOP_BY_HOP
            and key not in options
            and not key.startswith(NOT_FORWARDED)
            and not (chunked and key == "content-length")
        ):
            lines.append(f"{name}: {value}")
    if chunked:
        lines.append("Transfer-Encoding: chunked")


def _write_connection(lines: list[str], head: Head | ResponseHead, *, upgrade: bool) -> None:
    if upgrade:
        lines += ["Connection: Upgrade", "Upgrade: websocket"]
    elif not head.keep_alive:
        lines.append("Connection: close")
    elif head.version == "HTTP/1.0":
        lines.append("Connection: keep-alive")


def _written(lines: list[str]) -> bytes:
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
