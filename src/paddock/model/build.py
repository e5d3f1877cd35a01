"""A build of a template as it is asked for, and as it is told."""

from __future__ import annotations

from dataclasses import dataclass, field

from paddock.model.network import Network


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedBase:
    name: str  # as the Dockerfile has it
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedStep:
    line: int
    does: str  # for people
    key: (
        str  # the sum of all that it is made from; what it made is not in here: a RUN may make something else each time
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LockInfo:
    """What a build was made of."""

    bases: tuple[LockedBase, ...] = ()
    steps: tuple[LockedStep, ...] = ()
    digest: str = ""  # of the whole, with how it is run


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildInfo:
    """A template that was built."""

    name: str
    tag: str
    digest: str  # the sum of what it was built from, and of how it is run
    layers: int
    steps: int
    lock: LockInfo = LockInfo()


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    name: str  # NAME or NAME:TAG
    directory: str
    dockerfile: str = ""  # a path; empty: the one in the directory
    target: str = ""  # a stage
    arguments: dict[str, str] = field(default_factory=dict)
    uses_cache: bool = True
    network: Network = field(default_factory=Network)  # of its RUN steps
    runtime: str = ""
    locked: LockInfo | None = None  # refuse what is not as this says
