"""The values everything else passes around. Built once at the edge, frozen, checked in their own constructors."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field, replace
from typing import Literal, NewType

from paddock import limits
from paddock.errors import UserError

BoxId = NewType("BoxId", str)

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9_.-]{0,62}[a-z0-9])?\Z")
_ENV_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PORT_MAX = 65535
_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}\Z")
_BUDGET = ("picodollars", "tokens", "requests", "seconds")
_SERVER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")
_WINSIZE_MAX = 65535  # the kernel's struct winsize holds unsigned shorts


class BoxState(enum.Enum):
    CREATED = "created"
    RUNNING = "running"
    STOPPED = "stopped"
    FAILED = "failed"


class EngineName(enum.Enum):
    PROCESS = "process"


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


def check_name(name: str) -> str:
    """A box name is lower-case ASCII, so it is safe in a path, a table, a host name and a branch name."""
    if not _NAME.match(name) or ".." in name or name.endswith(".lock"):  # git refuses a ref that ends in .lock
        raise UserError(
            f"{name[:80]!r} is not a box name",
            hint=f"use 1 to {limits.NAME_CHARS} of a-z 0-9 _ . - with a letter or digit at both ends, not .. or .lock",
            code="bad-name",
        )
    return name


def check_env(env: dict[str, str]) -> dict[str, str]:
    total_bytes = 0
    for key, value in env.items():
        size_bytes = _size_bytes(value)
        if not _ENV_KEY.match(key) or size_bytes is None:
            raise UserError(f"{key[:80]!r} is not an environment variable", hint="use NAME=value", code="bad-env")
        total_bytes += len(key) + size_bytes
    if len(env) > limits.ENV_ENTRIES or total_bytes > limits.ENV_BYTES:
        hint = f"at most {limits.ENV_ENTRIES} variables and {limits.ENV_BYTES // 1024} KiB"
        raise UserError("the environment is too large", hint=hint, code="bad-env")
    return env


def _size_bytes(text: str) -> int | None:
    """How many bytes execve would see; None if it cannot: a NUL byte, or a surrogate that stands for no byte."""
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return None
    return None if b"\0" in data else len(data)


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
class NetworkRule:
    """One rule as a person wrote it; policy parses the pattern before a box exists."""

    action: Literal["allow", "deny"]
    pattern: str
    bypass: bool = False
    methods: tuple[str, ...] = ()  # with these or a path it is about requests
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """A port of the box that answers on the host; on its loopback unless another address is given."""

    address: str = "127.0.0.1"
    port: int
    box_port: int

    def __post_init__(self) -> None:
        for port in (self.port, self.box_port):
            if not 0 < port <= _PORT_MAX:
                raise UserError(f"{port} is not a port", hint="use 1 to 65535", code="bad-port")


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """What a box's own flags say of its network. Empty words leave it to the user's file; without one: deny."""

    default: Literal["", "deny", "allow", "observe"] = ""
    rules: tuple[NetworkRule, ...] = ()
    presets: tuple[str, ...] = ()
    on_deny: Literal["", "deny", "ask"] = ""
    publish: tuple[Publish, ...] = ()
    project: str = ""  # the workspace's paddock.toml as the box last took it

    def __post_init__(self) -> None:
        if len(self.rules) > limits.RULES_PER_BOX:
            raise UserError(f"{len(self.rules)} rules, at most {limits.RULES_PER_BOX}", code="bad-policy")
        if len(self.publish) > limits.PUBLISHED_PER_BOX:
            raise UserError(f"{len(self.publish)} ports, at most {limits.PUBLISHED_PER_BOX}", code="bad-port")
        if len(self.project) > limits.PROJECT_FILE_BYTES:
            raise UserError("the project file is too long", code="bad-policy")


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretUse:
    """A secret that a box may use, by its name; what it is bound to and its value are looked up on the host."""

    name: str
    read_only: bool = False  # of one that is scoped to repositories
    variable: str = ""  # a variable of the caller's shell, for a known service without a secret of that name


@dataclass(frozen=True, slots=True, kw_only=True)
class SshUse:
    """A key of the user's ssh-agent, and a host where a box may log in with it."""

    key: str  # its fingerprint
    host: str
    port: int = 22

    def __post_init__(self) -> None:
        if not _FINGERPRINT.match(self.key):
            raise UserError("that is not the fingerprint of a key", hint="as `ssh-add -l` shows it", code="bad-ssh-key")
        if not 0 < self.port <= _PORT_MAX:
            raise UserError(f"{self.port} is not a port", hint="use 1 to 65535", code="bad-port")


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServer:
    """A server that an agent may use: a command, which gets a box of its own, or a URL."""

    name: str
    command: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()  # lent to the command's box, or of a URL to the agent's own
    allow: tuple[str, ...] = ()  # hosts that the command may reach
    workspace: Literal["none", "ro"] = "none"
    mounts: tuple[str, ...] = ()  # directories and files of the host that the command sees, read-only
    url: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not _SERVER.match(self.name):
            hint = "1 to 64 of a-z A-Z 0-9 _ -, with a letter or digit first"
            raise UserError(f"{self.name[:80]!r} is not a name of an MCP server", hint=hint, code="bad-mcp")
        if bool(self.command) == bool(self.url):
            message = f"the MCP server {self.name!r} needs a command or a url, and not both"
            raise UserError(message, hint='command = ["program", "argument"] or url = "https://..."', code="bad-mcp")
        for_command = bool(self.allow or self.env or self.mounts or self.workspace != "none")
        if (self.url and for_command) or (self.command and self.headers):
            hint = "a url has secrets and headers; a command has env, secrets, allow, mounts and workspace"
            raise UserError(f"the MCP server {self.name!r} says what does not go together", hint=hint, code="bad-mcp")
        check_env(self.env)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lent:
    """Secrets for a box, as their user said them."""

    uses: tuple[SecretUse, ...] = ()
    given: dict[str, str] = field(default_factory=dict, repr=False)  # values by name, of the caller's environment
    said: tuple[str, ...] = ()  # what a person should know


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a box may spend in its life. None is no limit; zero is nothing."""

    picodollars: int | None = None
    tokens: int | None = None
    requests: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for key in _BUDGET:
            value = getattr(self, key)
            if value is not None and not 0 <= value < float(1 << 62):
                raise UserError(f"a budget of {key} cannot be {value!r}", code="bad-budget")

    def over(self, before: Budget) -> Budget:
        """This one, and what `before` says of what it leaves open."""
        said = {key: value for key in _BUDGET if (value := getattr(self, key)) is not None}
        return replace(before, **said)

    @property
    def needs_usage(self) -> bool:
        """Whether a request that does not tell what it cost would go past it."""
        return self.picodollars is not None or self.tokens is not None


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
class TtySize:
    rows: int
    cols: int

    def __post_init__(self) -> None:
        if not (0 < self.rows <= _WINSIZE_MAX and 0 < self.cols <= _WINSIZE_MAX):
            raise UserError(f"terminal size {self.rows}x{self.cols} is out of range", code="bad-tty")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecSpec:
    """One command in a box."""

    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    cwd: str = ""
    user: str = ""
    tty: TtySize | None = None
    stdin: bool = False
    detach: bool = False  # journalled, outlives the caller
    keep: bool = False  # outlives the caller's connection, as an interactive session does
    journal: bool = False  # its output is kept on disk too, whoever has it; keep and detach do so anyway
    main: bool = False  # the box ends with this command
    timeout_s: float | None = None

    def __post_init__(self) -> None:
        if not self.argv or not self.argv[0]:
            raise UserError("no command given", hint="put the command after the box or after --", code="no-command")
        total_bytes = 0
        for word in self.argv:
            size_bytes = _size_bytes(word)
            if size_bytes is None:
                raise UserError(f"{word[:80]!r} cannot be a word of a command", hint="no NUL bytes", code="bad-command")
            total_bytes += size_bytes
        if total_bytes > limits.ARGV_BYTES:
            raise UserError(f"the command line is over {limits.ARGV_BYTES // 1024} KiB", code="bad-command")
        if self.timeout_s is not None and not 0 < self.timeout_s < float(1 << 60):
            raise UserError(f"timeout_s must be a positive number, not {self.timeout_s!r}", code="bad-timeout")
        check_env(self.env)


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
    doing: str = ""  # what its agent does now, in a few words; empty if it does not run
    with_settings: bool = False
    mcp: tuple[str, ...] = ()
    untold: int = 0  # things that it left, or that came home, and nobody was told: Box.pending() has them


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInfo:
    """A detached or kept command and where it stands."""

    id: str
    box: str
    argv: tuple[str, ...]
    started_at: str
    running: bool
    exit_code: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecResult:
    """How a command ended. `exit_code` follows the shells: 128+n for signal n, 124 for a timeout."""

    exit_code: int
    signal: int | None = None
    timed_out: bool = False
    stdout: bytes = b""
    stderr: bytes = b""

    @property
    def ok(self) -> bool:
        return self.exit_code == 0


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What identifies a box's first process for good: a pid alone may be somebody else's tomorrow."""

    pid: int
    start_ticks: int
    boot_id: str
