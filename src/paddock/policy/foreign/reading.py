"""Which of the other tools a file belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock import limits
from paddock.errors import UserError
from paddock.policy.foreign.agent_sandbox import read_agent_sandbox
from paddock.policy.foreign.docker import read_docker
from paddock.text import neutralise

if TYPE_CHECKING:
    from paddock.policy.foreign.values import Imported


def read(text: str, path: str) -> Imported:
    """By the name of the file: `.json` is Docker's, `.yaml` and `.yml` are agent-sandbox's."""
    if len(text) > limits.POLICY_FILE_BYTES:
        raise UserError(f"{neutralise(path)} is over {limits.POLICY_FILE_BYTES >> 20} MiB", code="policy-size")
    if path.endswith(".json"):
        return read_docker(text, path)
    if path.endswith((".yaml", ".yml")):
        return read_agent_sandbox(text, path)
    hint = "a proxy-config.json of Docker or a .yaml of agent-sandbox"
    raise UserError(f"'{neutralise(path)}' is no policy file we know", hint=hint, code="bad-import")
