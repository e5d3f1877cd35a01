"""What a scripted model does, whatever service it speaks through: steps, and the tools that agents offer for them.

A script is a list of steps: ["run", COMMAND], ["write", PATH, TEXT], and as the last one ["say", TEXT].
"""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

Script = list[list[str]]

ANSWER: Final = "The scripted model has seen 4217 lambs."
COMMAND: Final = "echo kept > proof.txt"
DEFAULT: Final[Script] = [["run", COMMAND], ["say", ANSWER]]
_WHY: Final = "Keep a proof"


def patch(path: str, text: str) -> str:
    """A new file, as Codex and its likes have it written."""
    lines = "".join(f"+{line}\n" for line in text.splitlines())
    return f"*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch\n"


# What a tool of this name takes: words, or a string as it is. `exec` is Codex's, and runs JavaScript.
_SHELLS: Final[dict[str, Callable[[str], dict[str, Any] | str]]] = {
    "Bash": lambda command: {"command": command, "description": _WHY},
    "bash": lambda command: {"command": command, "description": _WHY},
    "run_shell_command": lambda command: {"command": command, "description": _WHY},
    "exec_command": lambda command: {"cmd": command},
    "shell_command": lambda command: {"command": command},
    "shell": lambda command: {"command": ["bash", "-c", command]},
    "exec": lambda command: f"text(await tools.exec_command({json.dumps({'cmd': command})}))",
}
_WRITERS: Final[dict[str, Callable[[str, str], dict[str, Any] | str]]] = {
    "Write": lambda path, text: {"file_path": path, "content": text},
    "write": lambda path, text: {"filePath": path, "content": text},
    "write_file": lambda path, text: {"file_path": path, "content": text},
    "create": lambda path, text: {"path": path, "file_text": text},
    "apply_patch": patch,
    "exec": lambda path, text: f"text(await tools.apply_patch({json.dumps(patch(path, text))}))",
}


def load(directory: Path) -> Script:
    """What a test wants done, or the default."""
    file = directory / "script.json"
    if not file.exists():
        return DEFAULT
    script: Script = json.loads(file.read_text())
    return script


def act(script: Script, done: int, tools: Sequence[str]) -> tuple[str, dict[str, Any] | str] | str:
    """The next tool to use and its words, or what is said. Requests without tools are for titles and the like."""
    match script[min(done, len(script) - 1)]:
        case ["write", path, text]:
            for tool in tools:
                if tool in _WRITERS:
                    return tool, _WRITERS[tool](path, text)
            return act([["run", f"printf %s {shlex.quote(text)} > {shlex.quote(path)}"], *script[-1:]], 0, tools)
        case ["run", command]:
            for tool in tools:
                if tool in _SHELLS:
                    return tool, _SHELLS[tool](command)
        case _:
            pass
    return script[-1][1]
