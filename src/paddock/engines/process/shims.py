"""What a box finds at /run/paddock: programs, first on its PATH, that cannot work there and say so, and what would;
and the one that leads to MCP servers.

Beside them lie empty files, over which a box with a gateway gets its own mounted.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Final

from paddock.engines.process import connector, generations

if TYPE_CHECKING:
    from collections.abc import Mapping

# Each program and the status it is known to fail with.
PROGRAMS: Final = {
    "sudo": 1,
    "su": 1,
    "doas": 1,
    "apt": 100,
    "apt-get": 100,
    "dnf": 1,
    "yum": 1,
    "apk": 1,
    "pacman": 1,
    "zypper": 1,
    "snap": 1,
}
FILES: Final = ("ca-bundle.pem", "denials.jsonl")
_SCRIPT: Final = """\
#!/bin/sh
echo "error: {name} is not available in a process box" >&2
echo "hint: a template has it: paddock run -t base ..." >&2
exit {status}
"""


def prepare(directory: str, programs: Mapping[str, int] = PROGRAMS, places: tuple[str, ...] = ()) -> str:
    """The directory to bind read-only at /run/paddock; written at the first call of a boot, then only looked up.

    `places` are empty directories in it, over which more is mounted.
    """
    scripts = {name: _SCRIPT.format(name=name, status=status).encode() for name, status in programs.items()}
    scripts[connector.NAME] = connector.script().encode()
    digest = hashlib.sha256(repr((scripts, FILES, places)).encode()).hexdigest()
    return generations.publish(directory, digest, lambda target: _fill(target, scripts, places))


def _fill(target: str, scripts: dict[str, bytes], places: tuple[str, ...]) -> None:
    for name in places:
        os.mkdir(os.path.join(target, name), 0o755)
    for name in FILES:
        generations.write(os.path.join(target, name), b"")
    bin_directory = os.path.join(target, "bin")
    os.mkdir(bin_directory)
    for name, script in scripts.items():
        generations.write(os.path.join(bin_directory, name), script, 0o755)
    os.chmod(bin_directory, 0o755)
