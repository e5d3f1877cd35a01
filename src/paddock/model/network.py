"""What a box's own flags say of its network, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from paddock import limits
from paddock.errors import UserError
from paddock.model.checks import check_port


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
        check_port(self.port)
        check_port(self.box_port)


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
