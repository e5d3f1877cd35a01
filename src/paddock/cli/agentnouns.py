"""The words of `agent`."""

from __future__ import annotations

from paddock.cli import verbs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.cli.parser import Parser

    Setup = Callable[[Parser], None]


def _file(sub: Parser) -> None:
    sub.add_argument("--agent-file", default="", metavar="FILE", help="a definition of your own, in place of NAME")


def _ls(sub: Parser) -> None:
    sub.usage = "paddock agent ls [--json | -q]"
    sub.description = "List agents: where a box finds the program, and whether a key is there."
    sub.set_defaults(target=verbs.agent_ls)
    sub.add_argument("-q", "--quiet", action="store_true", help="names only")
    sub.add_json_option()


def _show(sub: Parser) -> None:
    sub.usage = "paddock agent show [--json] NAME\n       paddock agent show [--json] --agent-file FILE"
    sub.description = "Show what is known of an agent: its hosts, keys and state, and how it is run."
    sub.set_defaults(target=verbs.agent_show)
    sub.add_argument("name", nargs="?", default="", metavar="NAME")
    _file(sub)
    sub.add_json_option()


def _check(sub: Parser) -> None:
    sub.usage = "paddock agent check [--json] [--agent-file FILE] [NAME...]"
    sub.description = (
        "Ask each agent's program, in a box without network, for its version and its\n"
        "help, and say which flags that we use it does not have. Of installed ones all\n"
        "files are compared with what was installed. Exit code 1 when something is off."
    )
    sub.set_defaults(target=verbs.agent_check)
    sub.add_argument("names", nargs="*", default=[], metavar="NAME", help="default: all that are found")
    _file(sub)
    sub.add_json_option()


def _install(sub: Parser) -> None:
    sub.usage = "paddock agent install [--agent-file FILE] NAME[@VERSION]"
    sub.description = (
        "Install an agent's program for all its boxes, with npm or pip in a box that\n"
        "reaches the registry and nothing else. Scripts of packages do not run, and the\n"
        "host's own files stay as they are. Without a version it is the one that we\n"
        "tested; @latest is the newest. Nothing updates it but this command."
    )
    sub.epilog = "examples:\n  paddock agent install claude\n  paddock agent install codex@latest"
    sub.set_defaults(target=verbs.agent_install)
    sub.add_argument("name", nargs="?", default="", metavar="NAME[@VERSION]")
    _file(sub)


def _rm(sub: Parser) -> None:
    sub.usage = "paddock agent rm NAME[@VERSION]..."
    sub.description = (
        "Remove installed programs, all versions if none is named, but none that a box\n"
        "uses. The host's own programs are not touched."
    )
    sub.set_defaults(target=verbs.agent_rm)
    sub.add_argument("names", nargs="+", metavar="NAME[@VERSION]")


VERBS: dict[str, tuple[str, Setup]] = {
    "ls": ("list agents, their programs and keys", _ls),
    "show": ("show what is known of an agent", _show),
    "check": ("ask programs for their version and flags", _check),
    "install": ("install an agent's program for all its boxes", _install),
    "rm": ("remove installed programs", _rm),
}
