"""Every verb, its options and its help; those of nouns are in nouns.py and the files beside it."""

from __future__ import annotations

from paddock.cli import checkpointnouns, nouns, runnouns, secretnouns, templatenouns, verbs, viewnouns
from paddock.errors import UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.cli.nouns import Setup
    from paddock.cli.parser import Parser


def _choice(*words: str) -> Callable[[str], str]:
    def check(word: str) -> str:
        if word not in words:
            raise UserError(f"unknown word {word!r}", hint=f"one of: {', '.join(words)}", code="usage")
        return word

    return check


def _run(sub: Parser) -> None:
    sub.usage = (
        "paddock run [OPTIONS] -- COMMAND...\n"
        "       paddock run [OPTIONS] AGENT|BOX [WORKSPACE] [EXTRA[:ro]...] [-- ARGS...]"
    )
    sub.description = (
        "Run a command in a box of its own that is gone afterwards; or an agent in the\n"
        "box of a directory, which is made on first use and found again. ctrl-p ctrl-q\n"
        "leaves an agent running; the same `paddock run` returns to it."
    )
    sub.epilog = (
        "examples:\n"
        "  paddock run -- make test\n"
        "  paddock run -m 2g --timeout 10m -- ./build.sh\n"
        "  paddock run shell ~/project ~/library:ro\n"
        "  paddock run --review shell .    then `paddock diff` and `paddock apply`\n"
        "  paddock run --allow-host '*.github.com' --allow-host localhost:5432 shell .\n"
        "  paddock run --secret github --allow-host '*.github.com' shell .\n"
        "  paddock run -d -- ./server      prints the job; `paddock logs -f` follows it"
    )
    sub.advice = "; a command goes after `--`"
    sub.splits = "--"
    sub.set_defaults(target=verbs.run)
    sub.add_argument(
        "what", nargs="?", default="", metavar="AGENT|BOX", help="claude, codex, gemini, ..., shell; or a box"
    )
    _workspace(sub)
    _box_options(sub)
    runnouns.turn_options(sub)
    sub.add_argument("-d", "--detach", action="store_true", help="leave it running and print the job")
    sub.add_argument("--rm", action="store_true", help="remove the box when the command ends")
    sub.add_argument("-q", "--quiet", action="store_true", help="say nothing of our own")


def _create(sub: Parser) -> None:
    sub.usage = "paddock create [OPTIONS] AGENT|NAME [WORKSPACE] [EXTRA[:ro]...]"
    sub.description = "Make a box without starting it; its first command does. Prints its name."
    sub.set_defaults(target=verbs.create)
    sub.add_argument("what", metavar="AGENT|NAME", help="an agent, or a name for a box of --agent")
    _workspace(sub)
    sub.add_argument("--agent", default="", help="the agent, when the first word is a name")
    _box_options(sub)


def _workspace(sub: Parser) -> None:
    sub.add_argument("workspace", nargs="?", default="", metavar="WORKSPACE", help="default: the current directory")
    sub.add_argument("extra", nargs="*", default=[], metavar="EXTRA[:ro]", help="more directories, at their own paths")


def _box_options(sub: Parser) -> None:
    sub.add_argument("--name", default="", help="the box's name (default: AGENT-DIRECTORY)")
    templatenouns.engine_options(sub)
    _env_options(sub)
    viewnouns.view_options(sub)
    sub.add_argument("-v", "--volume", action="append", default=[], metavar="HOST:BOX[:ro]", help="one more mount")
    sub.add_argument("--cpus", default="", metavar="N", help="processors, for example 1.5")
    sub.add_argument("-m", "--memory", default="", metavar="SIZE", help="memory of the whole box, for example 2g")
    sub.add_argument("--pids", default="", metavar="N", help="processes and threads")
    sub.add_argument("--disk", default="", metavar="SIZE", help="what it may write outside the workspace")
    sub.add_argument("--timeout", default="", metavar="TIME", help="wall time: 90s, 10m, 2h; then exit code 124")
    sub.add_argument("-w", "--workdir", default="", metavar="DIR", help="where commands start")
    nouns.network_options(sub)
    nouns.publish_option(sub)
    secretnouns.secret_options(sub)


def _env_options(sub: Parser) -> None:
    sub.add_argument("-e", "--env", action="append", default=[], metavar="K[=V]", help="environment; K alone is copied")
    sub.add_argument("--env-file", action="append", default=[], metavar="FILE", help="a file of K=V lines")


def _exec(sub: Parser) -> None:
    sub.usage = "paddock exec [OPTIONS] BOX COMMAND..."
    sub.description = "Run a command in a box, which is started if it is not running."
    sub.epilog = "example:\n  paddock exec -it shell-project bash"
    sub.splits = "BOX"
    sub.set_defaults(target=verbs.exec_)
    sub.add_argument("box", metavar="BOX", help="its name, or the beginning of its id")
    sub.add_argument("-i", "--interactive", action="store_true", help="pass standard input")
    sub.add_argument("-t", "--tty", action="store_true", help="give the command a terminal")
    sub.add_argument("-d", "--detach", action="store_true", help="leave it running and print the job")
    sub.add_argument("-u", "--user", default="", metavar="USER", help="by name or number; a process box has one: agent")
    sub.add_argument("-w", "--workdir", default="", metavar="DIR", help="default: the box's own")
    sub.add_argument("--timeout", default="", metavar="TIME", help="ends it and all it started; exit code 124")
    _env_options(sub)


def _ls(sub: Parser) -> None:
    sub.usage = "paddock ls [--json | -q]"
    sub.description = "List boxes."
    sub.set_defaults(target=verbs.ls)
    sub.add_argument("--json", action="store_true", help="everything, for programs")
    sub.add_argument("-q", "--quiet", action="store_true", help="names only")


def _inspect(sub: Parser) -> None:
    sub.usage = "paddock inspect [--json | --plan] BOX..."
    sub.description = "Show what a box is, and who holds each of its limits."
    sub.set_defaults(target=verbs.inspect)
    sub.add_argument("boxes", nargs="+", metavar="BOX")
    sub.add_argument("--json", action="store_true", help="everything, for programs")
    sub.add_argument("--plan", action="store_true", help="every mount, limit and namespace, one a line")


def _stop(sub: Parser) -> None:
    sub.usage = "paddock stop [--grace TIME] BOX..."
    sub.description = "End all commands of a box. Its files stay; its next command starts it again."
    sub.set_defaults(target=verbs.stop)
    sub.add_argument("boxes", nargs="+", metavar="BOX")
    sub.add_argument("--grace", default="5s", metavar="TIME", help="how long they may take (default: 5s)")


def _rm(sub: Parser) -> None:
    sub.usage = "paddock rm [-f] [--keep-state] BOX..."
    sub.description = "Remove boxes and their private files. Workspaces are not touched."
    sub.set_defaults(target=verbs.rm)
    sub.add_argument("-f", "--force", action="store_true", help="also when it is running")
    sub.add_argument("--keep-state", action="store_true", help="keep the agent's conversations for its next box here")
    sub.add_argument("boxes", nargs="+", metavar="BOX")


def _reset(sub: Parser) -> None:
    sub.usage = "paddock reset [-f]"
    sub.description = (
        "Remove all boxes, their private files and what was kept of earlier ones.\nWorkspaces are not touched."
    )
    sub.set_defaults(target=verbs.reset)
    sub.add_argument("-f", "--force", action="store_true", help="do not ask")


def _prune(sub: Parser) -> None:
    sub.usage = "paddock prune [-f]"
    sub.description = "Remove all boxes that are stopped or failed, their private files, and layers\nthat nobody uses."
    sub.set_defaults(target=verbs.prune)
    sub.add_argument("-f", "--force", action="store_true", help="do not ask")


def _env(sub: Parser) -> None:
    sub.usage = "paddock env [-u K]... BOX [K=V...]"
    sub.description = "Show or change a box's environment for its next commands. Nothing restarts."
    sub.set_defaults(target=verbs.env)
    sub.add_argument("box", metavar="BOX")
    sub.add_argument("values", nargs="*", metavar="K=V", help="set; K alone is copied from yours")
    sub.add_argument("-u", "--unset", action="append", default=[], metavar="K", help="remove")


def _logs(sub: Parser) -> None:
    sub.usage = "paddock logs [-f | --list] BOX[/JOB]"
    sub.description = "Print what a detached command or an agent wrote; the newest if no job is named."
    sub.set_defaults(target=verbs.logs)
    sub.add_argument("-f", "--follow", action="store_true", help="go on until the command ends")
    sub.add_argument("--list", action="store_true", help="list the box's journalled commands")
    sub.add_argument("box", metavar="BOX[/JOB]")


def _cp(sub: Parser) -> None:
    sub.usage = "paddock cp SRC DST"
    sub.description = (
        "Copy a file or a directory into or out of a box: one side is BOX:PATH.\n"
        "Links that lead out of a copied directory, devices and sockets are left out,\n"
        "and named; the exit code is then 1."
    )
    sub.epilog = "examples:\n  paddock cp shell-project:/tmp/report.html .\n  paddock cp data/ shell-project:/tmp/"
    sub.set_defaults(target=verbs.cp)
    sub.add_argument("source", metavar="SRC")
    sub.add_argument("destination", metavar="DST")


def _doctor(sub: Parser) -> None:
    sub.usage = "paddock doctor [--json | --rebuild]"
    sub.description = "Try what boxes need on this machine, and say how to fix what does not work."
    sub.set_defaults(target=verbs.doctor)
    sub.add_json_option()
    sub.add_argument("--rebuild", action="store_true", help="rebuild a damaged database from the boxes")


def _daemon(sub: Parser) -> None:
    sub.usage = "paddock daemon start|stop|status [--json]"
    sub.description = (
        "This user's daemon. It starts by itself when it is needed; boxes outlive it.\n"
        "`status` has exit code 1 when it is not running."
    )
    sub.set_defaults(target=verbs.daemon)
    sub.add_argument("what", metavar="start|stop|status", type=_choice("start", "stop", "status"))
    sub.add_json_option()


def _noun(_sub: Parser) -> None:
    """Its verbs have parsers of their own."""


def _version(sub: Parser) -> None:
    sub.usage = "paddock version"
    sub.description = "Print the version."
    sub.set_defaults(target=verbs.version)


def _completion(sub: Parser) -> None:
    sub.usage = "paddock completion bash|zsh|fish"
    sub.description = "Print a completion script for your shell."
    sub.epilog = "example:\n  source <(paddock completion bash)"
    sub.set_defaults(target=verbs.completion)
    sub.add_argument("shell", metavar="bash|zsh|fish", type=_choice("bash", "zsh", "fish"))


VERBS: dict[str, tuple[str, Setup]] = {
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
    "runs": ("list what agents did, and show one run", runnouns.runs),
    "cp": ("copy files into or out of a box", _cp),
    "diff": ("show what a review box changed", viewnouns.diff),
    "apply": ("bring changes of a review box home", viewnouns.apply),
    "discard": ("drop changes of a review box", viewnouns.discard),
    "git": ("bring a box's commits home, list them", viewnouns.git),
    "agent": ("list, install and check agents", _noun),
    "checkpoint": ("keep states of a box, go back to them, fork them", _noun),
    "df": ("show what layers take of the disk", checkpointnouns.df),
    "network": ("change what a box may reach, show what it did", _noun),
    "policy": ("show, explain and change the rules", _noun),
    "secret": ("keep keys that boxes use and never see", _noun),
    "save": ("make a template of a container box", templatenouns.save_box),
    "template": ("keep roots for container boxes: load, save, remove", _noun),
    "usage": ("show what boxes spent on models", secretnouns.usage),
    "ports": ("show the ports of a box that answer on the host", nouns.ports),
    "doctor": ("say what this machine can hold, and how to fix what it cannot", _doctor),
    "daemon": ("start, stop or show this user's daemon", _daemon),
    "version": ("print the version", _version),
    "completion": ("print a completion script for your shell", _completion),
}
