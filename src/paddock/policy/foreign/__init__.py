"""Policy files of other tools, read and written: Docker's `proxy-config.json` and the YAML of agent-sandbox.

What the other tool would refuse and we could not is an error, never a wider rule; what is lost on the way without
widening anything is told in notes. Reading YAML needs PyYAML; nothing else does.
"""

from __future__ import annotations

from paddock.policy.foreign.agent_sandbox import read_agent_sandbox, write_agent_sandbox
from paddock.policy.foreign.docker import read_docker, write_docker
from paddock.policy.foreign.reading import read
from paddock.policy.foreign.values import Exported, Imported

__all__ = ["Exported", "Imported", "read", "read_agent_sandbox", "read_docker", "write_agent_sandbox", "write_docker"]
