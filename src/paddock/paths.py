"""Where this installation keeps its state, configuration and sockets. PADDOCK_HOME moves all of it."""

from __future__ import annotations

import os
import pwd

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class Paths:
    """Directories of one installation; nothing is created here."""

    __slots__ = ("config", "home", "state")

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        given = environ.get("PADDOCK_HOME", "")
        self.home = os.path.abspath(given) if given else ""
        if self.home:
            self.state, self.config = f"{self.home}/state", f"{self.home}/config"
            return
        self.state = _xdg(environ, "XDG_STATE_HOME", ".local/state")
        self.config = _xdg(environ, "XDG_CONFIG_HOME", ".config")

    def __repr__(self) -> str:
        return f"<Paths {self.state}>"

    @property
    def run(self) -> str:
        return f"{self.state}/run"

    @property
    def boxes(self) -> str:
        return f"{self.state}/boxes"

    @property
    def trash(self) -> str:
        return f"{self.state}/trash"

    @property
    def database(self) -> str:
        return f"{self.state}/paddock.db"

    @property
    def daemon_log(self) -> str:
        return f"{self.state}/daemon.log"

    @property
    def daemon_lock(self) -> str:
        return f"{self.state}/daemon.lock"

    @property
    def apply_lock(self) -> str:
        """Boxes bring their changes home one after another."""
        return f"{self.state}/apply.lock"

    @property
    def network(self) -> str:
        """Logs of what the gateway decided."""
        return f"{self.state}/network"

    @property
    def approvals(self) -> str:
        return f"{self.state}/approvals.json"

    @property
    def secrets(self) -> str:
        """Not below the configuration: people keep that in repositories."""
        return f"{self.state}/secrets"

    @property
    def usage(self) -> str:
        """What boxes spent on models."""
        return f"{self.state}/usage"

    @property
    def tools(self) -> str:
        """Programs of agents, installed for all boxes."""
        return f"{self.state}/tools"

    @property
    def probes(self) -> str:
        """What programs of agents said of themselves."""
        return f"{self.state}/probes.json"

    @property
    def runs(self) -> str:
        """Records of what agents did."""
        return f"{self.state}/runs"

    @property
    def kept(self) -> str:
        """The state of agents whose boxes are gone."""
        return f"{self.state}/kept"

    @property
    def layers(self) -> str:
        """What the roots of container boxes are made of."""
        return f"{self.state}/layers"

    @property
    def templates(self) -> str:
        """The list of templates, for the day on which the database is lost."""
        return f"{self.state}/templates.json"

    @property
    def gateway_log(self) -> str:
        return f"{self.state}/gateway.log"

    @property
    def policy(self) -> str:
        """The user's own rules."""
        return f"{self.config}/policy.toml"

    @property
    def storage(self) -> str:
        """The user's own quotas."""
        return f"{self.config}/storage.toml"

    @property
    def private(self) -> tuple[str, ...]:
        """What no box may ever see, nor write: policy, agents and MCP servers are the user's word.

        All but the first two may be links, into someone's repository of dotfiles.
        """
        agents = f"{self.config}/agents"
        return (self.state, self.config, self.policy, f"{self.config}/mcp.toml", agents, *_links(agents))


SOCKET = "daemon.sock"
GATEWAY_SOCKET = "gateway.sock"
ORGANISATION_POLICY = "/etc/paddock/policy.toml"


def _links(directory: str) -> tuple[str, ...]:
    """What is listed there and lies elsewhere."""
    try:
        with os.scandir(directory) as entries:
            return tuple(sorted(entry.path for entry in entries if entry.is_symlink()))
    except OSError:
        return ()


def home_directory(environ: Mapping[str, str] = os.environ) -> str:
    """The account's home; $HOME only where the account has none, because $HOME is easily somebody else's."""
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return environ.get("HOME", "/nonexistent")


def _xdg(environ: Mapping[str, str], variable: str, default: str) -> str:
    base = environ.get(variable, "")
    if not base.startswith("/"):
        base = f"{environ.get('HOME') or home_directory(environ)}/{default}"
    return f"{base}/paddock"
