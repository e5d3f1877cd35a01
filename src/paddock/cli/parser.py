"""Every verb, its options and its help, in one place."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, NoReturn

from paddock.cli import verbs
from paddock.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Action = Callable[[argparse.Namespace], int]

_EPILOG = "Exit codes: the command's own; 2 usage, 124 timeout, 125 box unavailable, 126/127 as shells, 128+n signal."


class Parser(argparse.ArgumentParser):
    """argparse with our error lines."""

    def error(self, message: str) -> NoReturn:
        raise UserError(message, hint=f"`{self.prog} --help` shows the options", code="usage")


def parse(words: Sequence[str]) -> tuple[Action, argparse.Namespace]:
    """The function that runs the verb, and its options. Words after `--` belong to the command."""
    own, command = _split(words)
    parser = build(own[0] if own else "")
    options = parser.parse_args(own)
    if getattr(options, "target", None) is None:
        parser.print_help()
        raise SystemExit(0 if not own else 2)
    if command is not None and not getattr(options, "takes_command", False):
        raise UserError(f"{own[0]} takes no command", hint=f"`paddock {own[0]} --help`", code="usage")
    options.command = command
    return options.target, options


def _split(words: Sequence[str]) -> tuple[list[str], list[str] | None]:
    if "--" not in words:
        return list(words), None
    at = list(words).index("--")
    return list(words[:at]), list(words[at + 1 :])


def build(verb: str = "") -> argparse.ArgumentParser:
    """All parsers, or only the one in use: making all of them would cost every command a few milliseconds."""
    parser = Parser(
        prog="paddock",
        description="Coding agents run free on your own machine, inside a fence.",
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_const", const=verbs.version, dest="target", help="print the version")
    commands = parser.add_subparsers(metavar="VERB", parser_class=Parser)
    for name, (summary, setup) in VERBS.items():
        if verb in VERBS and verb != name:
            continue
        sub = commands.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        setup(sub)
    return parser


def _run(sub: argparse.ArgumentParser) -> None:
    sub.usage = (
        "paddock run [options] -- COMMAND...\n"
        "       paddock run [options] AGENT|BOX [WORKSPACE] [EXTRA[:ro]...] [-- ARGS...]"
    )
    sub.set_defaults(target=verbs.run, takes_command=True)
    sub.add_argument("what", nargs="?", default="", metavar="AGENT|BOX")
    _workspace(sub)
    _box_options(sub)
    sub.add_argument("-d", "--detach", action="store_true", help="leave it running and print the job")
    sub.add_argument("--rm", action="store_true", help="remove the box when the command ends")
    sub.add_argument("-q", "--quiet", action="store_true", help="say nothing of our own")


def _create(sub: argparse.ArgumentParser) -> None:
    sub.set_defaults(target=verbs.create)
    sub.add_argument("what", metavar="AGENT|NAME")
    _workspace(sub)
    sub.add_argument("--agent", default="", help="the agent, when the first word is the box's name")
    _box_options(sub)


def _workspace(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("workspace", nargs="?", default="", metavar="WORKSPACE", help="default: the current directory")
    sub.add_argument("extra", nargs="*", default=[], metavar="EXTRA[:ro]", help="more directories, at their own paths")


def _box_options(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--name", default="", help="the box's name (default: AGENT-DIRECTORY)")
    sub.add_argument("--engine", default="process", help="process")
    _env_options(sub)
    sub.add_argument("-v", "--volume", action="append", default=[], metavar="HOST:BOX[:ro]", help="one more mount")
    sub.add_argument("--cpus", metavar="N", help="processors, for example 1.5")
    sub.add_argument("-m", "--memory", metavar="SIZE", help="memory of the whole box, for example 2g")
    sub.add_argument("--pids", metavar="N", help="processes and threads")
    sub.add_argument("--disk", metavar="SIZE", help="what the box may write outside the workspace")
    sub.add_argument("--timeout", metavar="TIME", help="wall time, for example 90s, 10m, 2h; exit code 124")
    sub.add_argument("-w", "--workdir", default="", metavar="DIR", help="where commands start")


def _env_options(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("-e", "--env", action="append", default=[], metavar="K[=V]", help="environment; K alone is copied")
    sub.add_argument("--env-file", action="append", default=[], metavar="FILE", help="K=V lines")


def _exec(sub: argparse.ArgumentParser) -> None:
    sub.set_defaults(target=verbs.exec_, takes_command=True)
    sub.add_argument("-i", "--interactive", action="store_true", help="pass standard input")
    sub.add_argument("-t", "--tty", action="store_true", help="give the command a terminal")
    sub.add_argument("-d", "--detach", action="store_true", help="leave it running and print the job")
    sub.add_argument("-u", "--user", default="", metavar="USER")
    sub.add_argument("-w", "--workdir", default="", metavar="DIR")
    sub.add_argument("--timeout", metavar="TIME", help="ends the command and all it started; exit code 124")
    _env_options(sub)
    sub.add_argument("box", metavar="BOX")
    sub.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND")


def _ls(sub: argparse.ArgumentParser) -> None:
    sub.set_defaults(target=verbs.ls)
    sub.add_argument("--json", action="store_true")
    sub.add_argument("-q", "--quiet", action="store_true", help="names only")


def _inspect(sub: argparse.ArgumentParser) -> None:
    sub.set_defaults(target=verbs.inspect)
    sub.add_argument("boxes", nargs="+", metavar="BOX")
    sub.add_argument("--json", action="store_true")
    sub.add_argument("--plan", action="store_true", help="every mount, limit and namespace, one a line")


def _stop(sub: argparse.ArgumentParser) -> None:
    sub.set_defaults(target=verbs.stop)
    sub.add_argument("boxes", nargs="+", metavar="BOX")
    sub.add_argument("--grace", default="5", metavar="TIME", help="how long commands may take to end")


def _rm(sub: argparse.ArgumentParser) -> None:
    sub.set_defaults(target=verbs.rm)
    sub.add_argument("-f", "--force", action="store_true", help="also when it is running")
    sub.add_argument("boxes", nargs="+", metavar="BOX")


def _reset(sub: argparse.ArgumentParser) -> None:
    sub.set_defaults(target=verbs.reset)
    sub.add_argument("-f", "--force", action="store_true", help="do not ask")


def _prune(sub: argparse.ArgumentParser) -> None:
    sub.set_defaults(target=verbs.prune)


def _env(sub: argparse.ArgumentParser) -> None:
    sub.set_defaults(target=verbs.env)
    sub.add_argument("box", metavar="BOX")
    sub.add_argument("values", nargs="*", metavar="K=V", help="set for the next commands; nothing restarts")
    sub.add_argument("-u", "--unset", action="append", default=[], metavar="K")


def _logs(sub: argparse.ArgumentParser) -> None:
    sub.set_defaults(target=verbs.logs)
    sub.add_argument("-f", "--follow", action="store_true", help="go on until the command ends")
    sub.add_argument("--list", action="store_true", help="list the box's journalled commands")
    sub.add_argument("box", metavar="BOX[/JOB]")


def _cp(sub: argparse.ArgumentParser) -> None:
    sub.set_defaults(target=verbs.cp)
    sub.add_argument("source", metavar="SRC", help="a host path, or BOX:PATH")
    sub.add_argument("destination", metavar="DST")


def _doctor(sub: argparse.ArgumentParser) -> None:
    sub.set_defaults(target=verbs.doctor)
    sub.add_argument("--json", action="store_true")
    sub.add_argument("--rebuild", action="store_true", help="rebuild a damaged database from the boxes on disk")


def _daemon(sub: argparse.ArgumentParser) -> None:
    sub.set_defaults(target=verbs.daemon)
    sub.add_argument("what", choices=("start", "stop", "status"))
    sub.add_argument("--json", action="store_true")


def _version(sub: argparse.ArgumentParser) -> None:
    sub.set_defaults(target=verbs.version)


def _completion(sub: argparse.ArgumentParser) -> None:
    sub.set_defaults(target=verbs.completion)
    sub.add_argument("shell", choices=("bash", "zsh", "fish"))


VERBS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None]]] = {
    "run": ("run a command in a box of its own, or an agent in its box", _run),
    "create": ("make a box without starting it", _create),
    "exec": ("run a command in a box", _exec),
    "ls": ("list boxes", _ls),
    "inspect": ("show what a box is and what holds it", _inspect),
    "env": ("show or change a box's environment", _env),
    "stop": ("end a box's commands; its files stay", _stop),
    "rm": ("remove boxes and their files", _rm),
    "reset": ("remove all boxes", _reset),
    "prune": ("remove boxes that are stopped or failed", _prune),
    "logs": ("print what a detached command wrote", _logs),
    "cp": ("copy files into or out of a box", _cp),
    "doctor": ("say what this machine can hold, and how to fix what it cannot", _doctor),
    "daemon": ("start, stop or show this user's daemon", _daemon),
    "version": ("print the version", _version),
    "completion": ("print a completion script for your shell", _completion),
}
