"""Placeholders become secrets: in requests to the hosts they are bound to, and nowhere else.

Theory. A box holds placeholders, which are worth nothing. A request that has one is for a host the secret is bound to,
with its port and scheme, and then the value stands in its place; or it is refused, for then something in the box sends
credentials where they do not belong. The same holds for a value itself, should a box ever have learned it. Only what a
program puts there itself is swapped: header values, Basic authorisation, and the query where the user asked for that.

A value has no control characters (`credentials`), so a swapped head has the same lines as before.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from paddock.gateway.heads import Headers
from paddock.gateway.refusal import Refusal
from paddock.limits import HTTP_HEAD_BYTES, SECRET_BYTES
from paddock.policy.requests import is_disguised, is_rewritten

if TYPE_CHECKING:
    from collections.abc import Iterable

    from paddock.gateway.credentials import Credential
    from paddock.gateway.gitscope import GitScope
    from paddock.gateway.heads import Head, ResponseHead
    from paddock.gateway.inspection import Inspection, Place

MISDIRECTED: Final = "secret-misdirected"
MISSING: Final = "secret-missing"
OUT_OF_SCOPE: Final = "secret-out-of-scope"
TOO_LARGE: Final = "secret-too-often"
_SWAPPED_BYTES: Final = HTTP_HEAD_BYTES + 4 * SECRET_BYTES  # a head of placeholders would grow to megabytes that wait
_BASIC: Final = re.compile(r"basic +([A-Za-z0-9+/]+={0,2})", re.IGNORECASE)
_BASIC_CHARS: Final = 16_384
_HIDDEN: Final = "***"
_NOT_FOR_CLIENTS: Final = "alt-svc"  # leads to protocols and ports that nobody inspects


@dataclass(frozen=True, slots=True)
class Swapped:
    """A head's parts with the secrets in them; `names` are those that were used."""

    headers: Headers = field(repr=False)
    path: str = field(repr=False)
    names: tuple[str, ...]


def swap(head: Head, place: Place, inspection: Inspection) -> Swapped | Refusal:
    """What goes to the server in place of `head`, or why it does not."""
    basic = _decoded(head.fields.get("authorization"))
    seen = head.raw + b"\n" + basic if basic else head.raw
    refusal = _leaked(seen, place, inspection)
    if refusal is not None:
        return refusal
    found = [each for each in inspection.secrets if each.needle in seen]
    if not found:
        return Swapped(head.headers, head.path, ())
    for each in found:
        refusal = _refused(each, head, place)
        if refusal is not None:
            return refusal
    used: dict[str, None] = {}
    headers = tuple((name, _value(name.lower(), value, found, used)) for name, value in head.headers)
    path = _path(head.path, found, used)
    if len(path) + sum(len(value) for _, value in headers) > _SWAPPED_BYTES:
        return _no(431, TOO_LARGE, "the request has placeholders in so many places that it is too large", "")
    return Swapped(headers, path, tuple(used))


def redact(head: ResponseHead, inspection: Inspection) -> ResponseHead:
    """An answer's head without the secrets a server sent back."""
    found = _returned(head.raw, inspection)
    if not found and _NOT_FOR_CLIENTS not in head.fields:
        return head
    kept = tuple((name, value) for name, value in head.headers if name.lower() != _NOT_FOR_CLIENTS)
    return replace(head, reason=_without(head.reason, found), headers=_fields_without(kept, found))


def redact_trailers(trailers: Headers, inspection: Inspection) -> Headers:
    if not trailers:
        return trailers
    return _fields_without(trailers, _returned("\n".join(map(": ".join, trailers)).encode("latin-1"), inspection))


def body_words(place: Place, content_type: str) -> dict[bytes, bytes]:
    """What is replaced in a body: placeholders of secrets bound here and wanted there; values as it spells them."""
    kind = content_type.partition(";")[0].strip().lower()
    wanted = (each for each in place.bound if each.binding.body and not each.binding.missing and not each.binding.git)
    return {each.needle: _escaped(each.reveal(), kind).encode("ascii") for each in wanted}


def masks(place: Place) -> dict[bytes, bytes]:
    """What stands in an answer in place of the secrets that are bound here; as long as they are."""
    found = {leak: each.needle for each in place.bound for leak in each.leaks}
    return {leak: needle if len(needle) == len(leak) else b"*" * len(leak) for leak, needle in found.items()}


def _escaped(value: str, kind: str) -> str:
    if kind == "application/x-www-form-urlencoded":
        return quote(value, safe="")
    if kind == "application/json" or kind.endswith("+json"):
        return value.replace("\\", "\\\\").replace('"', '\\"')
    return value


def _leaked(seen: bytes, place: Place, inspection: Inspection) -> Refusal | None:
    for value in inspection.retired:
        if value in seen:
            return _no(403, MISDIRECTED, "the request has a secret that was replaced and is no longer valid", "")
    for each in inspection.secrets:
        if each not in place.bound and any(leak in seen for leak in each.leaks):
            return _no(403, MISDIRECTED, f"the request has the value of secret '{each.name}'", _bound_to(each))
    return None


def _refused(each: Credential, head: Head, place: Place) -> Refusal | None:
    binding = each.binding
    if each not in place.bound:
        what = f"the request to {place.scheme}://{place.host.with_port(place.port)} has the placeholder of"
        return _no(403, MISDIRECTED, f"{what} secret '{each.name}'", _bound_to(each))
    if binding.missing:
        what = f"secret '{each.name}' has no value on the host"
        return _no(424, MISSING, what, f"run outside the box: paddock secret set {each.name}")
    if binding.git is not None and not _in_scope(binding.git, head, place):
        access = "read and write" if binding.git.write else "read only"
        scope = f"it is limited to {', '.join(binding.git.repos)} ({access})"
        return _no(403, OUT_OF_SCOPE, f"secret '{each.name}' is not for this request", scope)
    return None


def _in_scope(scope: GitScope, head: Head, place: Place) -> bool:
    if is_disguised(head.fields) or is_rewritten(head.fields):
        return False
    return scope.covers(place.host.text, head.method, head.path)


def _bound_to(each: Credential) -> str:
    binding = each.binding
    return f"it goes to {binding.scheme} port {binding.port} of {', '.join(binding.hosts)} and nowhere else"


def _no(status: int, word: str, what: str, more: str) -> Refusal:
    lines = [f"paddock: {what}", *([more] if more else [])]
    return Refusal(status=status, reason=f"{word}: {what}", text="\n".join(lines) + "\n")


def _decoded(authorization: str | None) -> bytes:
    """What Basic authorisation says in the clear; nothing when it is something else."""
    match = _BASIC.fullmatch(authorization) if authorization and len(authorization) <= _BASIC_CHARS else None
    if match is None:
        return b""
    try:
        return base64.b64decode(match[1], validate=True)
    except ValueError:
        return b""


def _value(key: str, value: str, found: Iterable[Credential], used: dict[str, None]) -> str:
    basic = _decoded(value).decode("latin-1") if key == "authorization" else ""
    for each in found:
        if each.binding.headers and key not in each.binding.headers:
            continue
        if each.placeholder in value:
            value = value.replace(each.placeholder, each.reveal())
            used[each.name] = None
        elif basic and each.placeholder in basic:
            basic = basic.replace(each.placeholder, each.reveal())
            value = "Basic " + base64.b64encode(basic.encode("latin-1")).decode("ascii")
            used[each.name] = None
    return value


def _path(path: str, found: Iterable[Credential], used: dict[str, None]) -> str:
    start, mark, query = path.partition("?")
    for each in found:
        if each.binding.query and each.placeholder in query:
            query = query.replace(each.placeholder, quote(each.reveal(), safe=""))
            used[each.name] = None
    return start + mark + query


def _returned(seen: bytes, inspection: Inspection) -> dict[str, str]:
    """The values in what a server sent, also those that a request took with it just before they were replaced."""
    now = {leak: each.placeholder for each in inspection.secrets for leak in each.leaks if leak in seen}
    found = now | {old: _HIDDEN for old in inspection.retired if old in seen}
    return {leak.decode("ascii"): shown for leak, shown in found.items()}


def _fields_without(headers: Headers, found: dict[str, str]) -> Headers:
    return tuple(
        (name, _without(value, found)) for name, value in headers if not any(secret in name for secret in found)
    )


def _without(text: str, found: dict[str, str]) -> str:
    for secret, shown in found.items():
        text = text.replace(secret, shown)
    return text
