"""An agent of a test's own: a shell that is told its prompt, with state, settings and a list of MCP servers."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from tests.support.installation import Installation

DEFINITION = """
name = "{name}"
title = "Robot"
program = "sh"
[words]
prompt = ["{{}}"]
[interactive]
argv = ["{{args}}", "{{prompt}}"]
[headless]
argv = ["-c", "{{prompt}}"]
[state]
paths = [".robot", ".config/robot"]
[[seed]]
path = ".robot/settings.json"
json = '{{"seeded": true}}'
[settings]
paths = [{settings}]
[mcp]
file = ".robot/mcp.json"
key = "mcpServers"
shape = "claude"
"""


class Robot:
    def __init__(self, installation: Installation, name: str) -> None:
        self.installation = installation
        self.name = name
        self.box = f"{name}-{installation.workspace.name}"

    def does(self, script: str, *options: str) -> subprocess.CompletedProcess[bytes]:
        """A run of it, in the box of the workspace."""
        return self.installation.cli("run", *options, self.name, ".", "--", script)

    def says(self, script: str, *options: str) -> str:
        done = self.does(script, *options)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode()


@contextlib.contextmanager
def robot(installation: Installation, *settings: str, servers: str = "", name: str = "robot") -> Iterator[Robot]:
    """`settings` are paths of the caller's home, `servers` is an mcp.toml."""
    config = installation.home / "config"
    (config / "agents").mkdir(parents=True, exist_ok=True)
    config.chmod(0o700)
    named = ", ".join(f'"{path}"' for path in settings)
    files = {config / "agents" / f"{name}.toml": DEFINITION.format(name=name, settings=named)}
    if servers:
        files[config / "mcp.toml"] = servers
    for path, text in files.items():
        path.write_text(text)
    try:
        yield Robot(installation, name)
    finally:
        for path in files:
            path.unlink()
