"""Rules about requests: which methods and which paths of a host a box may use.

    {"pattern": "api.github.com", "methods": ["GET"], "paths": ["/repos/me/x/**"], "action": "allow"}

A host that no rule speaks of is not held to any. For every other host the most specific rule decides (its pattern, then
its path, then whether it names methods), deny wins a tie, and what no rule speaks of is denied. In a path, `*` stands
for characters of one part and a last `/**` for the path itself and everything below. Denials match letters of either
case, since many servers do; what is allowed is allowed as it is written. GET stands for HEAD too; a websocket has a
method of its own, WEBSOCKET.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from paddock import codec
from paddock.errors import UserError
from paddock.gateway.urlpath import Ambiguous, readings
from paddock.limits import REQUEST_RULES_PER_BOX
from paddock.policy import Action, Host, Pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.gateway.heads import Head

_METHOD: Final = re.compile(r"[A-Z][A-Z0-9_-]{0,31}")
_GLOB: Final = re.compile(r"(?:/[A-Za-z0-9_~!$&'()+,=:@.-]*\*?[A-Za-z0-9_~!$&'()+,=:@.-]*)*?(?:/\*\*)?")
_EVERYTHING: Final = "/**"
_OVERRIDES: Final = ("x-http-method-override", "x-http-method", "x-method-override")
WEBSOCKET: Final = "WEBSOCKET"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRule:
    """As the document has it. No methods: any; no paths: any."""

    pattern: str
    action: Action
    methods: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    source: str = ""

    def __str__(self) -> str:
        words = (self.action.value, ",".join(self.methods) or "*", self.pattern, " ".join(self.paths))
        shown = " ".join(filter(None, words))
        return f"{shown} ({self.source})" if self.source else shown


@dataclass(frozen=True, slots=True)
class RequestVerdict:
    """`rule` is the one that decided; None when none spoke of the request, or it could not be read."""

    allowed: bool
    rule: RequestRule | None
    reason: str


class _Glob:
    __slots__ = ("_parts", "_tail", "rank")

    def __init__(self, text: str) -> None:
        if not text or not _GLOB.fullmatch(text) or "//" in text or {".", ".."} & set(text.split("/")):
            hint = "a path begins with /, has at most one * in each part, and may end with /**"
            raise UserError(f"{text[:80]!r} is not a path of a request rule", hint=hint, code="bad-request-rule")
        self._tail = text.endswith(_EVERYTHING)
        parts = text.removesuffix(_EVERYTHING).split("/")[1:] if text != _EVERYTHING else []
        self._parts = tuple(part.partition("*") for part in parts)
        literal = text.partition("*")[0]
        self.rank = (len(literal), literal == text)

    def matches(self, path: str, *, folded: bool) -> bool:
        if folded and path != "/":
            path = path.removesuffix("/")
        parts = path.split("/")[1:] if path != "/" or not self._tail else []
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
    __slots__ = ("globs", "methods", "pattern", "rank", "rule")

    def __init__(self, rule: RequestRule) -> None:
        self.rule = rule
        self.pattern = Pattern(rule.pattern)
        if self.pattern.network is not None:
            raise UserError(f"a request rule is about names, not {rule.pattern[:80]!r}", code="bad-request-rule")
        if not all(map(_METHOD.fullmatch, rule.methods)):
            raise UserError(f"a request rule for {self.pattern.text} names no method", code="bad-request-rule")
        self.methods = frozenset(rule.methods) | ({"HEAD"} if "GET" in rule.methods else set())
        self.globs = tuple(map(_Glob, rule.paths))
        exact = bool(self.pattern.name) and not self.pattern.wildcard
        self.rank = (exact, len(self.pattern.name), self.pattern.port > 0)

    def weigh(self, method: str, path: str) -> tuple[object, ...] | None:
        """How specific it is about this request, the more the greater; None when it does not speak of it."""
        if self.methods and method not in self.methods:
            return None
        denies = self.rule.action is Action.DENY
        found = [glob.rank for glob in self.globs if glob.matches(path, folded=denies)]
        if self.globs and not found:
            return None
        return (self.rank, max(found, default=(0, False)), bool(self.methods), denies)


class HostRules:
    """The rules that speak of one host and port."""

    __slots__ = ("_by_method", "_by_path", "_compiled")

    def __init__(self, compiled: Sequence[_Compiled]) -> None:
        self._compiled = tuple(compiled)
        self._by_path = any(each.globs for each in compiled)
        self._by_method = any(each.methods for each in compiled)

    def __repr__(self) -> str:
        return f"<HostRules {len(self._compiled)}>"

    def decide(self, head: Head) -> RequestVerdict:
        """Every way in which a server may read the request must be allowed."""
        if self._by_method and not head.fields.keys().isdisjoint(_OVERRIDES):
            return RequestVerdict(False, None, "it asks the server to take it for another method")
        try:
            paths = readings(head.path.partition("?")[0]) if self._by_path else ("/",)
        except Ambiguous as error:
            return RequestVerdict(False, None, f"its path cannot be judged: {error}")
        method = WEBSOCKET if head.websocket else head.method
        verdicts = [self._verdict(method, path) for path in paths]
        return next((each for each in verdicts if not each.allowed), verdicts[0])

    def _verdict(self, method: str, path: str) -> RequestVerdict:
        weighed = [(weight, each.rule) for each in self._compiled if (weight := each.weigh(method, path)) is not None]
        if not weighed:
            return RequestVerdict(False, None, f"no request rule allows {method} here")
        rule = max(weighed, key=lambda pair: pair[0])[1]
        return RequestVerdict(rule.action is Action.ALLOW, rule, "a request rule says so")


class RequestRules:
    """All request rules of a box."""

    __slots__ = ("_compiled",)

    def __init__(self, rules: Sequence[RequestRule] = ()) -> None:
        """UserError for a rule that is none."""
        if len(rules) > REQUEST_RULES_PER_BOX:
            raise UserError(f"more than {REQUEST_RULES_PER_BOX} request rules", code="too-many")
        self._compiled = tuple(map(_Compiled, rules))

    def __repr__(self) -> str:
        return f"<RequestRules {len(self._compiled)}>"

    def __bool__(self) -> bool:
        return bool(self._compiled)

    def at(self, host: Host, port: int) -> HostRules | None:
        """None for a host that no rule speaks of."""
        found = [each for each in self._compiled if each.pattern.names(host, port)]
        return HostRules(found) if found else None


def parse(entries: object) -> RequestRules:
    if not isinstance(entries, list):
        raise UserError("requests must be a list", code="wrong-type")
    return RequestRules([codec.from_wire(RequestRule, entry) for entry in entries])
