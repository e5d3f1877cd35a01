"""run, as most people say it: an agent, perhaps a directory, and words for the agent.

The daemon starts such a run by one request, and what is needed to attach to it is loaded while it does: that takes
longer than to start a box. Every other run, and each of these in which something is missing or wrong, goes step by
step; running.py has the steps. So what is carried here are values of options, and nothing is decided.
"""

from __future__ import annotations

import os

from paddock import paths
from paddock.cli import environment, terminal
from paddock.cli.hostpaths import place
from paddock.client.transport import Transport
from paddock.errors import UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from paddock.frames import Message

_CARRIED = frozenset(("target", "what", "workspace", "name", "engine", "command", "ask", "model", "json", "quiet"))
_WORDS_BYTES = 100_000  # more may fit no message, and is refused in words of its own


def run(options: argparse.Namespace) -> int:
    where = paths.Paths()
    args = asked(options, where)
    if args is not None:
        transport = Transport(where)
        try:
            result, fds = transport.call("start", args, _load)
        finally:
            transport.close()
        if result is not None:
            from paddock.cli import attending

            return attending.answered(options, result, fds)
    from paddock.cli import running

    return running.run(options)


def asked(options: argparse.Namespace, where: paths.Paths) -> Message | None:
    """What is sent; None of a run that says more than this can."""
    more = any(value for key, value in vars(options).items() if key not in _CARRIED)
    if more or not options.what or options.engine not in {"", "process"} or _is_own(options.what, where):
        return None
    if sum(map(len, options.command)) > _WORDS_BYTES:
        return None
    try:
        workspace = place(options.workspace or ".")
    except UserError:
        return None
    is_tty = terminal.is_terminal()
    rows, cols = terminal.size()
    return {
        "request": {
            "agent": options.what,
            "name": options.name,
            "workspace": workspace,
            "caller_path": os.environ.get("PATH", ""),
            "caller_home": paths.home_directory(),
        },
        "exec": {
            "argv": ["agent"],
            "env": environment.of_terminal(is_tty=is_tty),
            "tty": {"rows": rows, "cols": cols} if is_tty else None,
            "stdin": True,
        },
        "words": options.command,
        "ask": options.ask,
        "model": options.model,
        "json": options.json,
    }


def _is_own(name: str, where: paths.Paths) -> bool:
    """Whether its user has a definition of that name. Our environment says where to look; the daemon's may differ."""
    return os.path.lexists(f"{where.config}/agents/{name}.toml")


def _load() -> None:
    from paddock.cli import attending, leaving

    del attending, leaving
