"""From what the sources say to one policy: who may widen, who may only narrow.

    layer          default                         rules
    organisation   its own, deny if unsaid         its own
    project        deny if it says so, else allow  the project's, and the flags'
    box            flags, else user, else deny     flags, user, presets, and what the project asked for once approved

The first two exist only where there is an organisation's file, or a project that narrows. Every layer must agree
(rules.py), so a project narrows whatever the user's file allows, and can widen nothing on its own. What the user typed
for this very box stands in the project's layer too: a narrowed box is reopened by the command that the refusal names.
Rules about requests go with the others; one that allows requests also allows the host they are for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from paddock import limits
from paddock.errors import UserError
from paddock.policy import presets
from paddock.policy.pattern import LOCALHOST, Pattern
from paddock.policy.requests import Request, is_request
from paddock.policy.rules import Action, Default, Layer, OnDeny, Policy, RequestRule, Rule, Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

T = TypeVar("T")

ORGANISATION, PROJECT, BOX = "organisation", "project", "box"
Hosts = Literal["allow", "deny", "bypass"]
Requests = Literal["allow_requests", "deny_requests"]
HOSTS: Final[tuple[Hosts, ...]] = ("allow", "deny", "bypass")
REQUESTS: Final[tuple[Requests, ...]] = ("allow_requests", "deny_requests")


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What one source says; its patterns become canonical here, or it is refused."""

    source: Source
    default: Default | None = None
    on_deny: OnDeny | None = None
    presets: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    bypass: tuple[str, ...] = ()  # allowed, and opaque
    allow_requests: tuple[str, ...] = ()
    deny_requests: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._check_size()
        for key in HOSTS:
            object.__setattr__(self, key, tuple(dict.fromkeys(Pattern(text).text for text in getattr(self, key))))
        for said in REQUESTS:
            object.__setattr__(self, said, tuple(dict.fromkeys(Request(text).text for text in getattr(self, said))))
        for name in self.presets:
            presets.find(name)
        self._check_bypass()

    def _check_size(self) -> None:
        many = {
            limits.POLICY_PATTERNS_MAX: (sum(len(getattr(self, key)) for key in HOSTS), "patterns"),
            limits.REQUEST_RULES_MAX: (sum(len(getattr(self, key)) for key in REQUESTS), "rules about requests"),
        }
        for most, (count, what) in many.items():
            if count > most:
                hint = "use wildcards and ranges"
                raise UserError(f"{self.source} has more than {most} {what}", hint=hint, code="policy-size")

    def _check_bypass(self) -> None:
        limited = {Request(text).pattern.text for key in REQUESTS for text in getattr(self, key)}
        for text in self.bypass:
            if text in limited:
                raise UserError(
                    f"{text} is bypassed and has rules about requests",
                    hint="what is bypassed is not looked into: remove one of the two",
                    code="bad-policy",
                )

    def saying(self, key: Hosts, *patterns: str) -> Statement:
        """The same with these patterns under `key` and in no other list of hosts: the last word counts."""
        rest = self._without_hosts(patterns)
        match key:
            case "allow":
                return replace(rest, allow=(*rest.allow, *patterns))
            case "deny":
                return replace(rest, deny=(*rest.deny, *patterns))
            case "bypass":
                return replace(rest, bypass=(*rest.bypass, *patterns))

    def saying_request(self, key: Requests, text: str) -> Statement:
        """The same with this rule about requests; its host is no longer bypassed, nor denied if it is to be allowed."""
        request = Request(text)
        rest = self.without(request.text)
        open_ = replace(rest, bypass=tuple(one for one in rest.bypass if one != request.pattern.text))
        if key == "deny_requests":
            return replace(open_, deny_requests=(*open_.deny_requests, text))
        deny = tuple(one for one in open_.deny if one != request.pattern.text)
        return replace(open_, deny=deny, allow_requests=(*open_.allow_requests, text))

    def without(self, *words: str) -> Statement:
        """The same, silent about these: a pattern with all that is said of its requests, or one rule about requests."""
        requests = {Request(word).text for word in words if is_request(word)}
        patterns = {Pattern(word).text for word in words if not is_request(word)}

        def kept(texts: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(one for one in texts if one not in requests and Request(one).pattern.text not in patterns)

        return replace(
            self._without_hosts(tuple(patterns)),
            allow_requests=kept(self.allow_requests),
            deny_requests=kept(self.deny_requests),
        )

    def _without_hosts(self, patterns: tuple[str, ...]) -> Statement:
        gone = {Pattern(text).text for text in patterns}
        allow, deny, bypass = (tuple(text for text in getattr(self, key) if text not in gone) for key in HOSTS)
        return replace(self, allow=allow, deny=deny, bypass=bypass)

    def rules(self) -> Iterator[Rule]:
        """Its own rules, without those of its presets."""
        yield from (Rule(Action.DENY, text, self.source) for text in self.deny)
        yield from (Rule(Action.ALLOW, text, self.source) for text in self.allow)
        yield from (Rule(Action.ALLOW, text, self.source, bypass=True) for text in self.bypass)
        for text in dict.fromkeys(Request(text).pattern.text for text in self.allow_requests):
            yield Rule(Action.ALLOW, text, self.source, limited=True)

    def requests(self) -> Iterator[RequestRule]:
        yield from (RequestRule(Action.DENY, text, self.source) for text in self.deny_requests)
        yield from (RequestRule(Action.ALLOW, text, self.source) for text in self.allow_requests)


def compose(
    *,
    organisation: Statement | None = None,
    user: Statement | None = None,
    flags: Statement | None = None,
    project: Statement | None = None,
    approved: bool = False,
) -> Policy:
    """One policy of all sources; `approved`: the user agreed to what this very project file asks for."""
    said = [one for one in (flags, user) if one is not None]
    layers = []
    if organisation is not None:
        layers.append(_layer(ORGANISATION, organisation.default, [organisation]))
    if project is not None and _narrows(project):
        layers.append(_layer(PROJECT, _narrowed(project, flags), [one for one in (flags, project) if one is not None]))
    asked = [replace(project, deny=(), deny_requests=())] if project is not None and approved else []
    layers.append(_layer(BOX, _first(one.default for one in said), [*said, *asked]))
    return Policy(layers=tuple(layers), on_deny=_on_deny(organisation, said))


def asks(project: Statement, policy: Policy) -> tuple[str, ...]:
    """What `project` wants that `policy`, composed without its approval, does not give; for people."""
    box = policy.layers[-1] if policy.layers else Layer(BOX)
    rules = [rule for rule in _expanded([project]) if rule.action is Action.ALLOW and not _is_given(rule, box)]
    hosts = [f"{rule.pattern} (bypass)" if rule.bypass else rule.pattern for rule in rules if not rule.limited]
    closed = {rule.pattern for rule in rules}
    requests = map(Request, project.allow_requests)
    return (*hosts, *(one.text for one in requests if one.pattern.text in closed or not _passes(one, box)))


def _passes(wanted: Request, box: Layer) -> bool:
    """Whether a box that reaches the host may make these requests; when in doubt it may not."""
    met = [rule for rule in box.requests if Request(rule.request).pattern.meets(wanted.pattern)]
    denied = any(rule.action is Action.DENY for rule in met)
    return not met or (not denied and any(rule.request == wanted.text for rule in met))


def _narrows(project: Statement) -> bool:
    asked = project.deny or project.allow_requests or project.deny_requests
    return bool(asked) or project.default is Default.DENY


def _is_given(wanted: Rule, box: Layer) -> bool:
    """Whether a box allows all of it already, so that nobody need hear of it; when in doubt it does not.

    A rule for less is more specific and so is heard first: over denials around it, and as a bypass. What `*` and
    a default do not open, the host's own ports and reserved addresses, is given only by a rule for just that.
    """
    pattern = Pattern(wanted.pattern)
    rules = [(Pattern(rule.pattern), rule) for rule in box.rules]
    if any(rule.action is Action.DENY and one.meets(pattern) for one, rule in rules):
        return False
    plain = pattern.network is None and pattern.name != LOCALHOST and not wanted.bypass
    if plain and box.default is not Default.DENY:
        return True
    return any(
        rule.action is Action.ALLOW
        and (rule.bypass or not wanted.bypass)
        and (one.covers(pattern) if plain else one.text == pattern.text)
        for one, rule in rules
    )


def _layer(name: str, default: Default | None, statements: list[Statement]) -> Layer:
    requests = dict.fromkeys(rule for statement in statements for rule in statement.requests())
    return Layer(name, default or Default.DENY, tuple(dict.fromkeys(_expanded(statements))), tuple(requests))


def _expanded(statements: Iterable[Statement]) -> Iterator[Rule]:
    for statement in statements:
        yield from statement.rules()
        for name in statement.presets:
            yield from presets.find(name).rules


def _narrowed(project: Statement, flags: Statement | None) -> Default:
    opened = flags is not None and flags.default in {Default.ALLOW, Default.OBSERVE}
    return Default.DENY if project.default is Default.DENY and not opened else Default.ALLOW


def _on_deny(organisation: Statement | None, said: list[Statement]) -> OnDeny:
    if organisation is not None and organisation.on_deny is OnDeny.DENY:
        return OnDeny.DENY
    return _first(one.on_deny for one in said) or OnDeny.DENY


def _first(values: Iterable[T | None]) -> T | None:
    return next((value for value in values if value is not None), None)
