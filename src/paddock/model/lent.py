"""What of its user's own a box may use: secrets, keys, MCP servers, and how much it may spend."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Literal

from paddock.errors import UserError
from paddock.model.checks import check_env, check_port

_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}\Z")
_SERVER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")
_BUDGET = ("picodollars", "tokens", "requests", "seconds")


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
        check_port(self.port)


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
