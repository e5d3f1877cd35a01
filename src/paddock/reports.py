"""Policies and decisions as people and programs see them. Apart from model/, which every command loads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleInfo:
    action: str
    pattern: str
    source: str  # organisation, user, flag, project or preset
    detail: str  # the file and line, the command, the preset's name
    bypass: bool = False
    methods: tuple[str, ...] = ()  # with these or a path it is about requests; none: any
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerInfo:
    """Every layer must allow a connection."""

    name: str
    default: str
    rules: tuple[RuleInfo, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceInfo:
    """One place rules come from, and whether it could be read."""

    kind: str
    place: str
    state: Literal["ok", "missing", "broken", "unapproved", "changed"]
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyInfo:
    box: str  # empty: every new box
    network: str
    on_deny: str
    layers: tuple[LayerInfo, ...]
    sources: tuple[SourceInfo, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictInfo:
    host: str
    port: int
    allowed: bool
    observed: bool
    bypass: bool
    reason: str
    rule: RuleInfo | None
    command: str  # what would allow it; empty when it is allowed
    method: str = ""  # of the request that was asked about, if one was
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingInfo:
    """Something that waits for its user's word: a connection, or what a project file asks for."""

    id: str
    box: str
    kind: Literal["connection", "project"]
    host: str = ""
    port: int = 0
    protocol: str = ""
    time: str = ""
    held: bool = False  # the connection still waits
    asks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkLog:
    """Where the decisions about a box are written down; the files take turns."""

    box: str
    id: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedInfo:
    """A file that something on the host obeys without asking."""

    path: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalInfo:
    """A branch of a box that came home."""

    ref: str  # on the host
    branch: str  # in the box
    oid: str
    old: str  # what the reference was before; empty if it is new


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchInfo:
    arrived: tuple[ArrivalInfo, ...] = ()
    skipped: tuple[TrustedInfo, ...] = ()  # a name of the box's, and why it did not come


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveReport:
    """What a box left behind that its user should know before they touch the project."""

    trusted: tuple[TrustedInfo, ...] = ()  # new or changed
    nested: tuple[str, ...] = ()  # repositories that are new or changed
    complete: bool = True  # False: the workspace is too large to look at all of it
    arrived: tuple[ArrivalInfo, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalInfo:
    """What became of a box that was to be removed."""

    box: str
    left: LeaveReport = LeaveReport()  # what it left that nobody had been told
    lost: tuple[str, ...] = ()  # went with it
    kept: str = ""  # why it is still there
    state: Literal["", "kept", "none"] = ""  # of its agent, where it was to be kept


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentInfo:
    """An agent as `agent ls` shows it."""

    name: str
    title: str
    origin: Literal["tool", "host", ""]  # empty: its program is not there
    version: str  # of a tool, or of a program that was asked; else empty
    program: str  # as a box has it
    why: str  # a box does not see the one that is there
    key: str  # of its user's, that it would work with
    keys: tuple[str, ...]
    verified: str
    stand_in: bool
    source: str  # its file, if it does not come with Paddock


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCheck:
    """What does not match between an agent's definition and its program."""

    name: str
    origin: Literal["tool", "host", ""] = ""
    program: str = ""
    version: str = ""
    verified: str = ""
    missing: tuple[str, ...] = ()  # flags
    problems: tuple[str, ...] = ()
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedInfo:
    """Files of a workspace that changed while a run was on; others than the box may have changed them too."""

    count: int = 0
    names: tuple[str, ...] = ()  # the first of them, neutralised
    complete: bool = True  # False: not all of the workspace was looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCount:
    host: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficInfo:
    """What a box's network did while a run was on."""

    connections: int = 0  # that were let through
    requests: int = 0  # that were let through, on connections in which requests are seen
    refused: tuple[HostCount, ...] = ()
    telemetry: tuple[HostCount, ...] = ()  # refused too, of which the agent's definition says that it needs none
    complete: bool = True  # False: some of the log was overwritten or lost


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUse:
    """What was used of one model while a run was on."""

    provider: str
    model: str
    requests: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    picodollars: int = 0


RunReason = Literal["running", "done", "failed", "auth", "denied", "budget", "timeout", "stuck", "killed"]
RunMode = Literal["headless", "interactive"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """One run of an agent. It never has the prompt, and of the output only the agent's last message."""

    id: str  # also its job: `paddock logs BOX/ID`
    box: str
    box_id: str
    agent: str
    version: str = ""
    mode: RunMode
    prompt_sha256: str = ""  # empty: it was started without one
    started: str  # UTC, ISO 8601
    ended: str = ""
    exit_code: int | None = None
    reason: RunReason = "running"
    why: str = ""  # a sentence, where the reason alone does not tell
    session: str = ""  # as the agent calls it, to resume
    final: str = ""  # its last message: bounded, lines neutralised one by one
    changed: ChangedInfo = ChangedInfo()
    network: TrafficInfo = TrafficInfo()
    metered: bool = False  # whether usage and cost are counted in this box
    usage: tuple[ModelUse, ...] = ()
    cost_picodollars: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointInfo:
    """A state of a box that it can be put back to, and that others can start from."""

    box: str
    name: str
    id: str
    created_at: str
    parts: tuple[str, ...]  # what it holds: root, home, review, git, workspace, memory
    disk_bytes: int = 0  # of what it froze itself; forks may share it
    is_measured: bool = True  # whether that is all of it


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateInfo:
    """A template; what its image says of itself is somebody else's words."""

    name: str  # NAME:TAG
    source: str  # what it was made of: file, registry, box, build
    digest: str  # the sum of that, where it has one
    created_at: str
    layers: tuple[str, ...]  # lowest first
    boxes: tuple[str, ...]  # made of it; it can go without them
    architecture: str = ""
    user: str = ""
    workdir: str = ""
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env_names: tuple[str, ...] = ()
    disk_bytes: int = 0  # of its layers, which others may share; 0 where nobody asked


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceInfo:
    kind: str  # added, removed or changed
    path: str  # agent-written: neutralise before it is shown


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceInfo:
    """What something takes of the disk."""

    kind: Literal["box", "checkpoint", "template", "layer", "tools", "build cache"]
    name: str
    own_bytes: int
    shared_bytes: int = 0  # layers that others are made of too
    is_whole: bool = True  # whether all of it was measured
    is_used: bool = True
