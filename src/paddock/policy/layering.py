"""From what the sources say to one policy: who may widen, who may only narrow.

    layer          default                         rules
    organisation   its own, deny if unsaid         its own
    project        deny if it says so, else allow  the project's, and the flags'
    box            flags, else user, else deny     flags, user, presets, and what the project asked for once approved

The first two exist only where there is an organisation's file, or a project that narrows. Every layer must agree
(rules.py), so a project narrows whatever the user's file allows, and can widen nothing on its own. What the user typed
for this very box stands in the project's layer too: a narrowed box is reopened by the command that the refusal names.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeVar

from paddock import limits
from paddock.errors import UserError
from paddock.policy import presets
from paddock.policy.pattern import LOCALHOST, Pattern
from paddock.policy.rules import Action, Default, Layer, OnDeny, Policy, Rule, Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

T = TypeVar("T")

ORGANISATION, PROJECT, BOX = "organisation", "project", "box"


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

    def __post_init__(self) -> None:
        if len(self.allow) + len(self.deny) + len(self.bypass) > limits.POLICY_PATTERNS_MAX:
            raise UserError(
                f"{self.source} has more than {limits.POLICY_PATTERNS_MAX} patterns",
                hint="use wildcards and ranges",
                code="policy-size",
            )
        for key in ("allow", "deny", "bypass"):
            object.__setattr__(self, key, tuple(dict.fromkeys(Pattern(text).text for text in getattr(self, key))))
        for name in self.presets:
            presets.find(name)

    def saying(self, key: Literal["allow", "deny", "bypass"], *patterns: str) -> Statement:
        """The same with these patterns under `key` and nowhere else: the last word counts."""
        rest = self.without(*patterns)
        match key:
            case "allow":
                return replace(rest, allow=(*rest.allow, *patterns))
            case "deny":
                return replace(rest, deny=(*rest.deny, *patterns))
            case "bypass":
                return replace(rest, bypass=(*rest.bypass, *patterns))

    def without(self, *patterns: str) -> Statement:
        """The same, silent about these patterns."""
        gone = {Pattern(text).text for text in patterns}
        allow, deny, bypass = (
            tuple(text for text in texts if text not in gone) for texts in (self.allow, self.deny, self.bypass)
        )
        return replace(self, allow=allow, deny=deny, bypass=bypass)

    def rules(self) -> Iterator[Rule]:
        """Its own rules, without those of its presets."""
        yield from (Rule(Action.DENY, text, self.source) for text in self.deny)
        yield from (Rule(Action.ALLOW, text, self.source) for text in self.allow)
        yield from (Rule(Action.ALLOW, text, self.source, bypass=True) for text in self.bypass)


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
    if project is not None and (project.deny or project.default is Default.DENY):
        layers.append(_layer(PROJECT, _narrowed(project, flags), [one for one in (flags, project) if one is not None]))
    asked = [replace(project, deny=())] if project is not None and approved else []
    layers.append(_layer(BOX, _first(one.default for one in said), [*said, *asked]))
    return Policy(layers=tuple(layers), on_deny=_on_deny(organisation, said))


def asks(project: Statement, policy: Policy) -> tuple[Rule, ...]:
    """What `project` wants that `policy`, composed without its approval, does not give."""
    box = policy.layers[-1] if policy.layers else Layer(BOX)
    wanted = [rule for rule in _expanded([project]) if rule.action is Action.ALLOW]
    return tuple(rule for rule in wanted if not _is_given(rule, box))


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
    return Layer(name, default or Default.DENY, tuple(dict.fromkeys(_expanded(statements))))


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
