"""Words of the command line become a box's network: rules, presets, published ports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeVar

from paddock.errors import UserError
from paddock.model import Network, NetworkRule, Publish

if TYPE_CHECKING:
    import argparse

_RULES: tuple[tuple[str, Literal["allow", "deny"], bool], ...] = (
    ("allow", "allow", False),
    ("block", "deny", False),
    ("bypass", "allow", True),
)
_REQUESTS: tuple[tuple[str, Literal["allow", "deny"]], ...] = (("allow_request", "allow"), ("block_request", "deny"))
_DEFAULTS: tuple[Literal["deny", "allow", "observe"], ...] = ("deny", "allow", "observe")
_ON_DENY: tuple[Literal["deny", "ask"], ...] = ("deny", "ask")
Word = TypeVar("Word", bound=str)


def network(options: argparse.Namespace) -> Network:
    return Network(
        default=_one_of(_DEFAULTS, options.policy, "--policy"),
        rules=rules(options),
        presets=tuple(options.preset),
        on_deny=_one_of(_ON_DENY, options.on_deny, "--on-deny"),
        publish=tuple(map(publish, getattr(options, "publish", ()))),
    )


def rules(options: argparse.Namespace) -> tuple[NetworkRule, ...]:
    found = []
    for word, action, bypass in _RULES:
        for kind in ("host", "cidr"):
            for pattern in getattr(options, f"{word}_{kind}"):
                if kind == "cidr":
                    _check_cidr(pattern, f"--{word}-cidr")
                found.append(NetworkRule(action=action, pattern=pattern, bypass=bypass))
    for flag, action in _REQUESTS:
        found += [_request(word, action) for word in getattr(options, flag)]
    return tuple(found)


def methods(words: list[str]) -> tuple[str, ...]:
    """Of `--method GET --method POST,PUT`."""
    return tuple(method for word in words for method in word.split(","))


def _request(word: str, action: Literal["allow", "deny"]) -> NetworkRule:
    from paddock.policy.requests import Request  # with all of policy 20 ms, which few runs need

    request = Request(word)
    return NetworkRule(
        action=action, pattern=request.pattern.text, methods=request.methods or ("*",), path=request.path
    )


def publish(word: str) -> Publish:
    """`[IP:]HOST:BOX`; an IPv6 address stands in brackets."""
    front, _, box_port = word.rpartition(":")
    address, _, port = front.rpartition(":")
    if not (port.isascii() and port.isdecimal() and box_port.isascii() and box_port.isdecimal()) or len(word) > 80:
        raise UserError(f"{word[:80]!r} is not a port to publish", hint="use HOST:BOX or IP:HOST:BOX", code="bad-port")
    return Publish(address=address.strip("[]") or "127.0.0.1", port=int(port), box_port=int(box_port))


def _check_cidr(word: str, flag: str) -> None:
    import ipaddress

    try:
        ipaddress.ip_network(word)
    except ValueError as error:
        hint = "use an address and a length, such as 192.168.0.0/16"
        raise UserError(f"{word[:80]!r} for {flag} is no address range: {error}", hint=hint, code="bad-cidr") from None


def _one_of(known: tuple[Word, ...], word: str, flag: str) -> Word | Literal[""]:
    for one in known:
        if one == word:
            return one
    if word:
        raise UserError(f"unknown word {word[:40]!r} for {flag}", hint=f"one of: {', '.join(known)}", code="usage")
    return ""
