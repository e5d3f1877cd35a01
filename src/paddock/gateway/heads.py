"""HTTP/1.1 message heads: the strict grammar of this project, and the model that headwriting.py writes them from.

A head is refused whenever two programs could read it differently (RFC 9112 §11.2): what is forwarded is then what was
judged. Kept fast by asking whole heads at once (translate, count, split) instead of walking their bytes.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from typing import Final, Literal

from paddock.errors import PaddockError, UserError
from paddock.limits import HTTP_HEADERS_MAX
from paddock.policy import Host, parse_authority

Headers = tuple[tuple[str, str], ...]
Form = Literal["origin", "absolute", "authority", "asterisk"]

_REQUEST_LINE: Final = re.compile(r"([A-Z][A-Z0-9_-]{0,31}) ([!-~]+) HTTP/1\.([01])")
_METHOD: Final = re.compile(r"[A-Z][A-Z0-9_-]{0,31} ")
_METHOD_BEGUN: Final = re.compile(rb"[A-Z][A-Z0-9_-]{0,31}(?: |\Z)")
_STATUS_BEGUN: Final = b"HTTP/1."
_STATUS_LINE: Final = re.compile(r"HTTP/1\.([01]) ([1-9][0-9][0-9])(?: ([^\r\n]*))?")
_OTHER_VERSION: Final = re.compile(r"[!-~]+ [!-~]+ HTTP/(?!1\.[01])[0-9]\.[0-9]")
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_LENGTH: Final = re.compile(r"0|[1-9][0-9]{0,17}")
_PLAIN: Final = bytes((*b"\t\r\n", *range(0x20, 0x7F), *range(0x80, 0x100)))

# A second one of these could be the one the next program obeys.
_FRAMING: Final = frozenset({"content-length", "transfer-encoding"})
_SINGLE: Final = _FRAMING | {"host", "content-type", "authorization", "expect", "upgrade", "range"}
# Connection may not declare these to be for the next hop only, and so have them removed (RFC 9110 §7.6.1).
_KEPT: Final = _SINGLE - {"upgrade"} | {"cookie", "set-cookie", "content-encoding", "content-range", "location"}
HOP_BY_HOP: Final = frozenset(
    {"connection", "keep-alive", "te", "upgrade", "http2-settings", "transfer-encoding", "forwarded"}
)
NOT_FORWARDED: Final = ("proxy-", "x-forwarded-")


class BadRequest(PaddockError):
    """A request that is refused as it is written. `status` and `reason` are what the client is told."""

    kind = "bad-request"

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class BadResponse(PaddockError):
    """The server's answer cannot be passed on; the client gets a 502 if it has got nothing yet."""

    kind = "bad-response"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.status = 502
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A request's head. `raw` is what arrived; what is sent on is `serialise(head, forward=True)`."""

    method: str
    target: str
    version: str
    headers: Headers  # names as they were spelled, values without the spaces around them
    raw: bytes
    host: Host
    port: int | None  # None: none was named, so the scheme's own
    form: Form
    path: str  # the target as the origin server is asked for it; empty for CONNECT
    length: int | None  # bytes of the body; None when it comes in chunks
    keep_alive: bool
    expects_continue: bool
    websocket: bool  # asks to leave HTTP; every other Upgrade is ignored, and removed when forwarded
    fields: dict[str, str] = field(repr=False, compare=False)  # by lower-case name; repeated ones joined by a comma

    @property
    def leaves_http(self) -> bool:
        """Whether what follows may be no HTTP: CONNECT or a websocket, if the answer says so."""
        return self.websocket or self.form == "authority"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseHead:
    status: int
    reason: str
    version: str
    headers: Headers
    raw: bytes
    length: int | None  # bytes of the body; None when it comes in chunks or ends with the connection
    chunked: bool
    keep_alive: bool
    fields: dict[str, str] = field(repr=False, compare=False)

    @property
    def interim(self) -> bool:
        """Another head follows for the same request."""
        return self.status < 200 and self.status != 101


# -- requests ----------------------------------------------------------------------------------------------------------
def parse_request(raw: bytes) -> Head:
    """`raw` up to and with its empty line. Raises BadRequest."""
    lines = raw.decode("latin-1").split("\r\n")
    line = _match_request_line(lines[0])
    headers, fields = _parse_fields(raw, lines, _SINGLE)
    method, target, minor = line.groups()
    form, host, port, path = _destination(method, target, minor, fields.get("host"))
    length = _body_length(fields, minor)
    options = connection_options(fields)
    if method == "CONNECT" and length != 0:
        raise BadRequest(400, "CONNECT with a body")
    expects = _expectation(fields, minor)
    websocket = (
        fields.get("upgrade", "").lower() == "websocket"
        and "upgrade" in options
        and (method, minor, length) == ("GET", "1", 0)
    )
    return Head(
        method=method,
        target=target,
        version="HTTP/1." + minor,
        headers=headers,
        raw=raw,
        host=host,
        port=port,
        form=form,
        path=path,
        length=length,
        keep_alive="close" not in options and (minor == "1" or "keep-alive" in options),
        expects_continue=expects,
        websocket=websocket,
        fields=fields,
    )


def look_at_request(begun: bytes) -> bool:
    """Refuse the beginning of a head that no rest could make one, for the same reason as the whole.

    Says whether the first line was there, for then there is nothing more to see.
    """
    if not _METHOD_BEGUN.match(begun):
        raise BadRequest(400, "not an HTTP request")
    line, end, _ = begun.partition(b"\n")
    if end:
        _match_request_line((line[:-1] if line.endswith(b"\r") else line + end).decode("latin-1"))
    return bool(end)


def _match_request_line(line: str) -> re.Match[str]:
    match = _REQUEST_LINE.fullmatch(line)
    if match is not None:
        if match[1] in {"TRACE", "TRACK"}:  # they send a request's secrets back to whoever asked
            raise BadRequest(405, f"{match[1]} is not forwarded")
        return match
    if not _METHOD.match(line):
        raise BadRequest(400, "not an HTTP request")
    if _OTHER_VERSION.fullmatch(line):
        raise BadRequest(505, "only HTTP/1.0 and HTTP/1.1 are spoken here")
    raise BadRequest(400, "a malformed request line")


def _parse_fields(raw: bytes, lines: list[str], single: frozenset[str]) -> tuple[Headers, dict[str, str]]:
    """`lines` are those of `raw`: the start line, the fields, and two empty ones for the end."""
    if raw.translate(None, _PLAIN) or not raw.count(b"\r\n") == raw.count(b"\n") == raw.count(b"\r"):
        raise BadRequest(400, "a control character in the head")
    if len(lines) - 3 > HTTP_HEADERS_MAX:
        raise BadRequest(431, f"more than {HTTP_HEADERS_MAX} headers")
    headers: list[tuple[str, str]] = []
    fields: dict[str, str] = {}
    for line in lines[1:-2]:
        name, colon, value = line.partition(":")
        if not colon:
            raise BadRequest(400, "a header without a colon")
        key = _lowered(name)
        value = value.strip(" \t")
        headers.append((name, value))
        if key not in fields:
            fields[key] = value
        elif key in single:
            raise BadRequest(400, f"two {key} headers")
        else:
            fields[key] += ", " + value
    return tuple(headers), fields


@functools.lru_cache(maxsize=1024)
def _lowered(name: str) -> str:
    if not _TOKEN.fullmatch(name):
        raise BadRequest(400, "a malformed header name")
    key = name.lower()
    if "_" in key and key.replace("_", "-") in _SINGLE | HOP_BY_HOP:  # CGI reads them as the same
        raise BadRequest(400, "a malformed header name")
    return key


@functools.lru_cache(maxsize=1024)
def _authority(text: str) -> tuple[Host, int | None]:
    """Raises UserError, for which BadRequest is raised by those who know what it was."""
    if len(text) > 300:
        raise UserError("too long", code="bad-host")
    host, port = parse_authority(text, 0)
    return host, port or None


def _destination(method: str, target: str, minor: str, named: str | None) -> tuple[Form, Host, int | None, str]:
    """What the request is for. The target and Host must agree on it (RFC 9112 §3.2)."""
    form, authority, path = _split(method, target)
    if named is None and not (minor == "0" and authority):
        raise BadRequest(400, "no Host header")
    try:
        host, port = _authority(named if named is not None else authority)
        if not authority:
            return form, host, port, path
        target_host, target_port = _authority(authority)
    except UserError as error:
        raise BadRequest(400, f"a malformed host: {error.message}") from error
    if form == "authority":
        if target_port is None:
            raise BadRequest(400, "CONNECT without a port")
        same = port in {None, target_port}
    else:
        target_port = target_port or 80
        same = (port or 80) == target_port
    if host != target_host or not same:
        raise BadRequest(400, "Host is not the host of the target")
    return form, host, target_port, path


def _split(method: str, target: str) -> tuple[Form, str, str]:
    """(form, authority, path for the origin server)"""
    if "#" in target:
        raise BadRequest(400, "a fragment in the target")
    if method == "CONNECT":
        return "authority", target, ""
    if target[0] == "/":
        return "origin", "", target
    if target == "*" and method == "OPTIONS":
        return "asterisk", "", target
    if target[:7].lower() != "http://":
        raise BadRequest(400, "a malformed target")
    rest = target[7:]
    end = min((at for at in (rest.find("/"), rest.find("?")) if at >= 0), default=len(rest))
    path = rest[end:]
    if not path and method == "OPTIONS":
        path = "*"
    elif not path.startswith("/"):
        path = "/" + path
    if not rest[:end]:
        raise BadRequest(400, "a malformed target")
    return "absolute", rest[:end], path


def _body_length(fields: dict[str, str], minor: str) -> int | None:
    """Bytes that follow, None for chunks, 0 when nothing is said."""
    length = fields.get("content-length")
    coding = fields.get("transfer-encoding")
    if coding is not None:
        if length is not None:
            raise BadRequest(400, "both Content-Length and Transfer-Encoding")
        if minor == "0" or coding.lower() != "chunked":
            raise BadRequest(400, "a Transfer-Encoding other than chunked")
        return None
    if length is None:
        return 0
    if not _LENGTH.fullmatch(length):
        raise BadRequest(400, "a malformed Content-Length")
    return int(length)


def connection_options(fields: dict[str, str]) -> frozenset[str]:
    text = fields.get("connection")
    return _options(text) if text is not None else frozenset()


@functools.lru_cache(maxsize=256)
def _options(text: str) -> frozenset[str]:
    if len(text) > 1024:
        raise BadRequest(400, "a long Connection header")
    options = frozenset(filter(None, (option.strip(" \t").lower() for option in text.split(","))))
    if not options.isdisjoint(_KEPT) or not all(map(_TOKEN.fullmatch, options)):
        raise BadRequest(400, "a malformed Connection header")
    return options


def _expectation(fields: dict[str, str], minor: str) -> bool:
    expected = fields.get("expect")
    if expected is None:
        return False
    if expected.lower() != "100-continue":
        raise BadRequest(417, "an Expect other than 100-continue")
    return minor == "1"


def parse_trailers(raw: bytes) -> Headers:
    """What follows the last chunk, with its empty line. Raises BadRequest."""
    headers, fields = _parse_fields(b"\r\n" + raw, ["", *raw.decode("latin-1").split("\r\n")], _SINGLE)
    if any(name in _SINGLE or name in HOP_BY_HOP or name.startswith(NOT_FORWARDED) for name in fields):
        raise BadRequest(400, "a trailer that belongs into the head")
    return headers


# -- responses ---------------------------------------------------------------------------------------------------------
def parse_response(raw: bytes, *, bodiless: bool) -> ResponseHead:
    """`raw` up to and with its empty line; `bodiless` when HEAD was asked. Raises BadRequest, which ResponseParser
    turns into BadResponse: the grammar is the same on both sides."""
    lines = raw.decode("latin-1").split("\r\n")
    match = _match_status_line(lines[0])
    headers, fields = _parse_fields(raw, lines, _FRAMING)
    options = connection_options(fields)
    length = _body_length(fields, match[1])
    status = int(match[2])
    chunked = length is None
    if status < 200 or status == 204:
        if length != 0:
            raise BadRequest(502, f"a {status} with a body")
    elif bodiless or status == 304:
        length, chunked = 0, False
    elif "content-length" not in fields:
        length = None
    return ResponseHead(
        status=status,
        reason=match[3] or "",
        version="HTTP/1." + match[1],
        headers=headers,
        raw=raw,
        length=length,
        chunked=chunked,
        keep_alive="close" not in options
        and (match[1] == "1" or "keep-alive" in options)
        and (length is not None or chunked),
        fields=fields,
    )


def look_at_response(begun: bytes) -> bool:
    """As look_at_request."""
    if not _STATUS_BEGUN.startswith(begun[: len(_STATUS_BEGUN)]):
        raise BadRequest(502, "a malformed status line")
    line, end, _ = begun.partition(b"\n")
    if end:
        _match_status_line((line[:-1] if line.endswith(b"\r") else line + end).decode("latin-1"))
    return bool(end)


def _match_status_line(line: str) -> re.Match[str]:
    match = _STATUS_LINE.fullmatch(line)
    if match is None:
        raise BadRequest(502, "a malformed status line")
    return match
