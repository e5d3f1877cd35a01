"""The policy as values that paddock.codec carries: rules with where they came from, in layers that must all agree."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Action(enum.Enum):
    ALLOW = "allow"
    DENY = "deny"


class Default(enum.Enum):
    """What a layer does with a connection no rule of it speaks of."""

    DENY = "deny"
    ALLOW = "allow"
    OBSERVE = "observe"  # let it pass and say so: for learning what a box needs


class OnDeny(enum.Enum):
    DENY = "deny"
    ASK = "ask"


class SourceKind(enum.Enum):
    """Who said it. Where two say it of the same pattern in one layer, the one named first here is heard."""

    ORGANISATION = "organisation"
    FLAG = "flag"
    USER = "user"
    PROJECT = "project"
    PRESET = "preset"


RANK = {kind: rank for rank, kind in enumerate(SourceKind)}


@dataclass(frozen=True, slots=True)
class Source:
    kind: SourceKind
    detail: str = ""  # the file, the preset, the command

    def __str__(self) -> str:
        return f"{self.kind.value} {self.detail}".rstrip()


@dataclass(frozen=True, slots=True)
class Rule:
    """`bypass`: what passes is opaque; neither SNI nor Host is compared. `limited`: it stands for request rules."""

    action: Action
    pattern: str  # canonical: Pattern.text
    source: Source
    bypass: bool = False
    limited: bool = False

    def __str__(self) -> str:
        return f"{'bypass' if self.bypass else self.action.value} {self.pattern} ({self.source})"


@dataclass(frozen=True, slots=True)
class RequestRule:
    """About requests to a host that may be reached; a host that any speaks of is inspected."""

    action: Action
    request: str  # canonical: Request.text
    source: Source

    def __str__(self) -> str:
        return f"{self.action.value} {self.request} ({self.source})"


@dataclass(frozen=True, slots=True)
class Layer:
    name: str
    default: Default = Default.DENY
    rules: tuple[Rule, ...] = ()
    requests: tuple[RequestRule, ...] = ()


@dataclass(frozen=True, slots=True)
class Policy:
    """A connection must be allowed by every layer; without layers nothing is."""

    layers: tuple[Layer, ...] = ()
    on_deny: OnDeny = OnDeny.DENY


@dataclass(frozen=True, slots=True)
class Verdict:
    """`rule` is the one that decided, None for a default or a built-in reason.

    Of a refusal, `layer` says whose it is, `address` where the name led when that was the reason, and `final` that no
    rule could allow it.
    """

    allowed: bool
    rule: Rule | None
    reason: str
    bypass: bool = False
    observed: bool = False
    layer: str = ""
    address: str = ""
    final: bool = False
