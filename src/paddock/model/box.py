"""A box as it is asked for, as it is, and as it is told."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import NewType

from paddock import limits
from paddock.errors import UserError
from paddock.model.checks import check_env, check_name
from paddock.model.image import ImageRun
from paddock.model.lent import Budget, McpServer, SecretUse, SshUse
from paddock.model.network import Network, Publish

BoxId = NewType("BoxId", str)


class BoxState(enum.Enum):
    CREATED = "created"
    RUNNING = "running"
    STOPPED = "stopped"
    FAILED = "failed"


class EngineName(enum.Enum):
    PROCESS = "process"
    CONTAINER = "container"


class WorkspaceMode(enum.Enum):
    """How a box has the user's project; in each of them at its own path."""

    LIVE = "live"  # the directory itself
    REVIEW = "review"  # a layer of the box's own over it: the host sees nothing until it is applied
    CLONE = "clone"  # a clone of its repository, in the box's storage


class Enforcement(enum.Enum):
    """Who holds a limit, weakest word last."""

    KERNEL = "kernel"  # the whole box, by the kernel
    PER_PROCESS = "per-process"  # each process by the kernel, the sum watched
    WATCHED = "watched"  # by the daemon: the box is stopped when it goes over
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A host directory or file shown in the box; `source` is already resolved."""

    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """None means the default of limits.py, never 'unlimited'."""

    memory_bytes: int | None = None
    cpus: float | None = None
    pids: int | None = None
    disk_bytes: int | None = None
    wall_s: float | None = None

    def __post_init__(self) -> None:
        for key in ("memory_bytes", "cpus", "pids", "disk_bytes", "wall_s"):
            value = getattr(self, key)
            if value is not None and not 0 < value < float(1 << 60):
                raise UserError(f"{key} must be a positive number, not {value!r}", code="bad-limit")


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """How a box has its workspace: the project itself, a layer over it, or a clone of its own."""

    mode: WorkspaceMode = WorkspaceMode.LIVE
    branch: str = ""  # of a clone
    masks: tuple[str, ...] = ()  # hidden, relative to the workspace
    writable: tuple[str, ...] = ()  # not guarded, relative to the workspace


def check_view(spec: BoxSpec) -> None:
    """What a box is to see of its workspace, beyond whether the paths are good ones."""
    if spec.branch and spec.mode is not WorkspaceMode.CLONE:
        hint = "--branch goes with --clone; in other modes the box makes branches itself"
        raise UserError(f"a {spec.mode.value} box has no branch of its own", hint=hint, code="bad-mode")
    if spec.writable and spec.mode is not WorkspaceMode.LIVE:
        hint = "leave --writable out: nothing of the host's is written, so nothing is read-only"
        raise UserError(f"a {spec.mode.value} box may write everywhere in its workspace", hint=hint, code="bad-mode")
    for paths in (spec.masks, spec.writable):
        if len(paths) > limits.MASKS_PER_BOX:
            raise UserError(f"{len(paths)} paths, at most {limits.MASKS_PER_BOX}", code="bad-path")


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxSpec:
    """What a box is, whatever way it was asked for. After this nothing adds a mount, a host or a capability."""

    name: str
    agent: str
    definition: str = ""  # of an agent that does not come with Paddock: the text of its file
    engine: EngineName = EngineName.PROCESS
    workspace: str
    mounts: tuple[Mount, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    workdir: str = ""
    ephemeral: bool = False
    caller_path: str = ""  # the caller's PATH: its toolchains appear in the box, read-only
    caller_home: str = ""
    network: Network = field(default_factory=Network)
    mode: WorkspaceMode = WorkspaceMode.LIVE
    branch: str = ""  # of a clone
    masks: tuple[str, ...] = ()  # hidden, relative to the workspace
    writable: tuple[str, ...] = ()  # not guarded, relative to the workspace
    secrets: tuple[SecretUse, ...] = ()
    budget: Budget = field(default_factory=Budget)
    ssh_keys: tuple[SshUse, ...] = ()
    ssh_socket: str = ""  # of the user's own agent
    logins: tuple[str, ...] = ()  # agents that may log in in it: then a token is inside
    tools: tuple[str, ...] = ()  # agents whose installed programs it has, besides its own
    with_settings: bool = False  # the user's own settings of the agent are in it, read-only
    mcp: tuple[McpServer, ...] = ()
    template: str = ""  # what its root was made of: a directory, or a file with an image
    template_id: tuple[int, ...] = ()  # which directory that was: device and inode
    base: str = ""  # the uppermost layer of its template: what lies above is the box's own
    layers: tuple[str, ...] = ()  # its root, lowest first: directories of the host, or layers of the store
    home_layers: tuple[str, ...] = ()  # below its home, lowest first: what checkpoints froze of it
    runtime: str = ""  # what starts a container; empty: whichever is there
    image: ImageRun = field(default_factory=ImageRun)  # how its template is run
    bare: bool = False  # a step of a build: its root is all that it has, and no home or workspace

    def __post_init__(self) -> None:
        check_name(self.name)
        check_env(self.env)
        check_view(self)
        if len(self.mounts) > limits.MOUNTS_PER_BOX:
            raise UserError(f"{len(self.mounts)} mounts, at most {limits.MOUNTS_PER_BOX}", code="bad-mount")
        if len(self.secrets) > limits.SECRETS_PER_BOX:
            raise UserError(f"{len(self.secrets)} secrets, at most {limits.SECRETS_PER_BOX}", code="bad-secret")
        if len(self.ssh_keys) > limits.SSH_KEYS_PER_BOX:
            raise UserError(f"{len(self.ssh_keys)} keys, at most {limits.SSH_KEYS_PER_BOX}", code="bad-ssh-key")
        if len(self.mcp) > limits.MCP_SERVERS_PER_BOX:
            raise UserError(f"{len(self.mcp)} MCP servers, at most {limits.MCP_SERVERS_PER_BOX}", code="bad-mcp")


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitReport:
    """What one limit is and who holds it, for inspect."""

    name: str
    value: str
    enforcement: Enforcement
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxInfo:
    """A box as `ls` and `inspect` show it; environment values are left out on purpose."""

    id: str
    name: str
    agent: str
    engine: EngineName
    state: BoxState
    reason: str
    workspace: str
    mounts: tuple[Mount, ...]
    env_names: tuple[str, ...]
    workdir: str
    ephemeral: bool
    created_at: str
    pid: int | None
    limits: tuple[LimitReport, ...] = ()
    network: str = "none"  # one word: none, deny, rules, ask, allow, observe; or down while the gateway is
    ports: tuple[Publish, ...] = ()
    mode: WorkspaceMode = WorkspaceMode.LIVE
    branch: str = ""
    masks: tuple[str, ...] = ()
    secrets: tuple[SecretUse, ...] = ()
    budget: Budget = field(default_factory=Budget)
    ssh_keys: tuple[SshUse, ...] = ()
    logins: tuple[str, ...] = ()  # not empty: a token may be inside
    definition: str = ""  # of an agent that does not come with Paddock
    runtime: str = ""  # what starts a container, where one was asked for
    doing: str = ""  # what its agent does now, in a few words; empty if it does not run
    with_settings: bool = False
    mcp: tuple[str, ...] = ()
    untold: int = 0  # things that it left, or that came home, and nobody was told: Box.pending() has them


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxRequest:
    """What a caller asks for, before defaults and checks; every entry point produces one of these."""

    agent: str = "shell"
    definition: str = ""
    name: str = ""
    workspace: str
    mounts: tuple[Mount, ...] = ()
    engine: EngineName = EngineName.PROCESS
    env: dict[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    workdir: str = ""
    ephemeral: bool = False
    caller_path: str = ""
    caller_home: str = ""
    network: Network = field(default_factory=Network)
    mode: WorkspaceMode = WorkspaceMode.LIVE
    branch: str = ""
    masks: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    secrets: tuple[SecretUse, ...] = ()
    budget: Budget = field(default_factory=Budget)
    ssh_keys: tuple[SshUse, ...] = ()
    ssh_socket: str = ""
    logins: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    with_settings: bool = False
    mcp: tuple[str, ...] = ()  # names of servers
    template: str = ""
    runtime: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What identifies a box's first process for good: a pid alone may be somebody else's tomorrow."""

    pid: int
    start_ticks: int
    boot_id: str
