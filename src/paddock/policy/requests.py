"""Rules about requests: which methods and which paths of a host a box may use.

    GET api.github.com    GET,POST api.github.com/repos/me/x/**    * api.github.com:443/v1/*/logs

A host that no rule of a layer speaks of is not held to any by that layer. On every other host the most specific rule
decides (its pattern, then its path, then whether it names methods); of equals the source's rank decides, then deny.
What none speaks of is denied where a rule allows something, and allowed where rules only deny. Every layer must agree.

In a path, `*` stands for characters of one part and a last `/**` for the path itself and everything below. Denials
match letters of either case, since many servers do; what is allowed is allowed as it is written. GET stands for HEAD
too; a websocket has a method of its own, WEBSOCKET.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from paddock.errors import UserError
from paddock.limits import PLACES_PER_BOX, REQUEST_RULE_CHARS
from paddock.policy.host import Host
from paddock.policy.pattern import HOST_ALIAS, LOCALHOST, Pattern
from paddock.policy.rules import RANK, Action, RequestRule
from paddock.policy.urlpath import Ambiguous, readings
from paddock.text import neutralise

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from paddock.policy.rules import Layer

_METHOD: Final = re.compile(r"[A-Z][A-Z0-9_-]{0,31}")
_PART: Final = r"[A-Za-z0-9_~!$&'()+,=:@.-]*"
_PATH: Final = re.compile(rf"(?:/{_PART}(?:\*{_PART})?)*?(?:/\*\*)?")
_EVERYTHING: Final = "/**"
_ANY: Final = "*"
_SHOWN_CHARS: Final = 80
_LOCALHOST: Final = Host(LOCALHOST)
_OVERRIDES: Final = frozenset({"x-http-method-override", "x-http-method", "x-method-override"})
_REWRITES: Final = frozenset({"x-original-url", "x-rewrite-url"})
WEBSOCKET: Final = "WEBSOCKET"


@dataclass(frozen=True, slots=True, init=False)
class Request:
    """What a rule about requests speaks of: methods (none: any) and a path (empty: any) of the hosts of a pattern."""

    text: str
    pattern: Pattern = field(compare=False)
    methods: tuple[str, ...] = field(compare=False)
    path: str = field(compare=False)

    def __init__(self, text: str) -> None:
        """UserError `bad-request-rule`."""
        words, _, rest = text.partition(" ")
        host, slash, below = rest.partition("/")
        if len(text) > REQUEST_RULE_CHARS or not rest:
            raise _refused(text, "write METHODS HOST[/PATH], as in `GET,POST api.example.com/v1/**`")
        methods = () if words == _ANY else tuple(sorted(set(words.split(","))))
        if not all(map(_METHOD.fullmatch, methods)):
            raise _refused(text, "methods are written in capitals: GET or GET,POST; * for any")
        pattern = Pattern(host)
        if pattern.network is not None:
            raise _refused(text, "it is about names, not addresses")
        path = _checked(slash + below, text)
        values = {"pattern": pattern, "methods": methods, "path": path}
        values["text"] = f"{','.join(methods) or _ANY} {pattern.text}{path}"
        for key, value in values.items():
            object.__setattr__(self, key, value)

    @classmethod
    def of(cls, pattern: str, methods: Sequence[str] = (), path: str = "") -> Request:
        if (path and not path.startswith("/")) or "/" in pattern or any(set(method) & set(", ") for method in methods):
            raise _refused(f"{','.join(methods)} {pattern} {path}", "a path begins with /, and a host has none")
        return cls(f"{','.join(methods) or _ANY} {pattern}{path}")

    def __str__(self) -> str:
        return self.text


def is_disguised(headers: Iterable[str]) -> bool:
    """Whether a request with headers of these lower-case names asks the server to take it for another method."""
    return any(name.replace("_", "-") in _OVERRIDES for name in headers)  # CGI reads them as the same


def is_rewritten(headers: Iterable[str]) -> bool:
    """The same, for another path."""
    return any(name.replace("_", "-") in _REWRITES for name in headers)


def is_request(text: str) -> bool:
    """Whether a word speaks of requests, and not of hosts: no pattern has a blank."""
    return " " in text


@dataclass(frozen=True, slots=True)
class RequestVerdict:
    """`rule` is the one that decided; None when none spoke of the request, or it could not be read.

    Of a refusal, `layer` says whose it is, and `final` that no rule could allow it.
    """

    allowed: bool
    rule: RequestRule | None
    reason: str
    layer: str = ""
    final: bool = False


class _Glob:
    __slots__ = ("_parts", "_tail", "rank")

    def __init__(self, text: str) -> None:
        self._tail = text.endswith(_EVERYTHING)
        parts = text.removesuffix(_EVERYTHING).split("/")[1:]
        self._parts = tuple(part.partition(_ANY) for part in parts)
        literal = text.partition(_ANY)[0]
        self.rank = (len(literal), literal == text)

    def matches(self, path: str, *, folded: bool) -> bool:
        if folded and path != "/":
            path = path.removesuffix("/")
        parts = path.split("/")[1:]
        if len(parts) < len(self._parts) or (len(parts) > len(self._parts) and not self._tail):
            return False
        return all(_fits(*wanted, part, folded=folded) for wanted, part in zip(self._parts, parts, strict=False))


def _fits(before: str, star: str, after: str, part: str, *, folded: bool) -> bool:
    if folded:
        before, after, part = before.lower(), after.lower(), part.lower()
    if not star:
        return before == part
    return len(part) >= len(before) + len(after) and part.startswith(before) and part.endswith(after)


class _Compiled:
    __slots__ = ("_rank", "_source", "denies", "glob", "methods", "pattern", "rule")

    def __init__(self, rule: RequestRule) -> None:
        request = Request(rule.request)
        self.rule = rule
        self.pattern = request.pattern
        self.methods = frozenset(request.methods) | ({"HEAD"} if "GET" in request.methods else set())
        self.glob = _Glob(request.path) if request.path else None
        self.denies = rule.action is Action.DENY
        exact = bool(self.pattern.name) and not self.pattern.wildcard
        self._rank = (exact, len(self.pattern.name), self.pattern.port > 0)
        self._source = -RANK[rule.source.kind]

    def weigh(self, method: str, path: str) -> tuple[object, ...] | None:
        """How specific it is about this request, the more the greater; None when it does not speak of it."""
        if self.methods and method not in self.methods:
            return None
        if self.glob is not None and not self.glob.matches(path, folded=self.denies):
            return None
        specific = self.glob.rank if self.glob is not None else (0, False)
        return (self._rank, specific, bool(self.methods), self._source, self.denies)


class HostRules:
    """The rules that speak of one host and port, by layer."""

    __slots__ = ("_by_method", "_by_path", "_layers")

    def __init__(self, layers: Sequence[tuple[str, Sequence[_Compiled]]]) -> None:
        self._layers = tuple(layers)
        rules = [each for _, compiled in layers for each in compiled]
        self._by_path = any(each.glob is not None for each in rules)
        self._by_method = any(each.methods for each in rules)

    def __repr__(self) -> str:
        return f"<HostRules {len(self.rules)}>"

    @property
    def rules(self) -> tuple[RequestRule, ...]:
        return tuple(each.rule for _, compiled in self._layers for each in compiled)

    def decide(self, method: str, path: str, headers: Iterable[str] = ()) -> RequestVerdict:
        """Every way in which a server may read the request must be allowed. `path` comes without a query, names of
        headers in lower case."""
        names = tuple(headers)
        if self._by_method and is_disguised(names):
            return RequestVerdict(False, None, "it asks the server to take it for another method", final=True)
        if self._by_path and is_rewritten(names):
            return RequestVerdict(False, None, "it asks the server to take it for another path", final=True)
        try:
            paths = readings(path) if self._by_path else ("/",)
        except Ambiguous as error:
            return RequestVerdict(False, None, f"its path cannot be judged: {error}", final=True)
        verdicts = [self._verdict(*layer, method, each) for layer in self._layers for each in paths]
        return next((each for each in verdicts if not each.allowed), verdicts[-1])

    @staticmethod
    def _verdict(layer: str, rules: Sequence[_Compiled], method: str, path: str) -> RequestVerdict:
        weighed = [(weight, each.rule) for each in rules if (weight := each.weigh(method, path)) is not None]
        if not weighed and all(each.denies for each in rules):
            return RequestVerdict(True, None, "no request rule denies it")
        if not weighed:
            return RequestVerdict(False, None, f"no request rule of the {layer} policy allows {method} here", layer)
        rule = max(weighed, key=lambda pair: pair[0])[1]
        return RequestVerdict(rule.action is Action.ALLOW, rule, f"by the request rule {rule}", layer)


class RequestRules:
    """All request rules of a policy. What speaks of a host is remembered within bounds."""

    __slots__ = ("_known", "_layers", "_size")

    def __init__(self, layers: Sequence[Layer] = ()) -> None:
        """UserError for a rule that is none."""
        self._layers = tuple((layer.name, tuple(map(_Compiled, layer.requests))) for layer in layers if layer.requests)
        self._size = sum(len(compiled) for _, compiled in self._layers)
        self._known: dict[tuple[str, int], HostRules | None] = {}

    def __repr__(self) -> str:
        return f"<RequestRules {self._size}>"

    def __bool__(self) -> bool:
        return bool(self._layers)

    def at(self, host: Host, port: int) -> HostRules | None:
        """None for a host that no rule speaks of, and for every address."""
        if not self._layers:
            return None
        key = host.text, port
        if key not in self._known:
            while len(self._known) >= PLACES_PER_BOX:
                del self._known[next(iter(self._known))]
            self._known[key] = self._find(_LOCALHOST if host.text == HOST_ALIAS else host, port)
        return self._known[key]

    def _find(self, host: Host, port: int) -> HostRules | None:
        speaking = [
            (name, found)
            for name, compiled in self._layers
            if (found := [each for each in compiled if each.pattern.names(host, port)])
        ]
        return HostRules(speaking) if speaking else None


def _checked(path: str, text: str) -> str:
    """The path in its one spelling; empty for every path."""
    if not _PATH.fullmatch(path) or "//" in path or {".", ".."} & set(path.split("/")):
        raise _refused(text, "a path begins with /, has at most one * in each part, and may end with /**")
    return "" if path == _EVERYTHING else path


def _refused(text: str, hint: str) -> UserError:
    shown = neutralise(text, _SHOWN_CHARS)
    return UserError(f"'{shown}' is not a rule about requests", hint=hint, code="bad-request-rule")
