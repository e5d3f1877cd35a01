"""The words of `checkpoint`, and of `df`."""

from __future__ import annotations

from paddock.cli import verbs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.cli.parser import Parser

    Setup = Callable[[Parser], None]


def _stop_option(sub: Parser) -> None:
    sub.add_argument("--stop", action="store_true", help="end what runs in the box first")


def _create(sub: Parser) -> None:
    sub.usage = "paddock checkpoint create [--stop] [--with-workspace] [--json] BOX [NAME]"
    sub.description = (
        "Keep what a box is now: its root, its home, and its workspace if it is a review\n"
        "or a clone. A live workspace is your own directory, and not part of it, unless\n"
        "you ask for a copy. No command may run meanwhile. Prints BOX@NAME."
    )
    sub.epilog = "example:\n  paddock checkpoint create demo before-upgrade"
    sub.set_defaults(target=verbs.checkpoint_create)
    sub.add_argument("box", metavar="BOX")
    sub.add_argument("name", nargs="?", default="", metavar="NAME", help="default: c1, c2, ...")
    _stop_option(sub)
    sub.add_argument("--with-workspace", action="store_true", help="keep a copy of a live workspace too")
    sub.add_json_option()


def _ls(sub: Parser) -> None:
    sub.usage = "paddock checkpoint ls [--json] [BOX]"
    sub.description = "List checkpoints, oldest first."
    sub.set_defaults(target=verbs.checkpoint_ls)
    sub.add_argument("box", nargs="?", default="", metavar="BOX", help="default: of all boxes")
    sub.add_json_option()


def _restore(sub: Parser) -> None:
    sub.usage = "paddock checkpoint restore [--stop] [--json] BOX@NAME"
    sub.description = "Put a box back to a checkpoint. What it did since is gone."
    sub.set_defaults(target=verbs.checkpoint_restore)
    sub.add_argument("checkpoint", metavar="BOX@NAME")
    _stop_option(sub)
    sub.add_json_option()


def _workspace(sub: Parser) -> None:
    sub.usage = "paddock checkpoint workspace [--json] BOX@NAME DIR"
    sub.description = (
        "Bring the copy of a live workspace out of a checkpoint, to a new directory.\n"
        "`checkpoint create --with-workspace` keeps one. Nothing is replaced."
    )
    sub.set_defaults(target=verbs.checkpoint_workspace)
    sub.add_argument("checkpoint", metavar="BOX@NAME")
    sub.add_argument("directory", metavar="DIR")
    sub.add_json_option()


def _fork(sub: Parser) -> None:
    sub.usage = "paddock checkpoint fork [-n N] [--stop] [--json] BOX[@NAME]"
    sub.description = (
        "Make boxes that begin as a box is now, or as it was at a checkpoint. None of\n"
        "them sees what another does, but for a live workspace, which all share. Prints\n"
        "their names."
    )
    sub.set_defaults(target=verbs.checkpoint_fork)
    sub.add_argument("source", metavar="BOX[@NAME]")
    sub.add_argument("-n", "--count", default="1", metavar="N", help="how many (default: 1)")
    _stop_option(sub)
    sub.add_json_option()


def _export(sub: Parser) -> None:
    sub.usage = "paddock checkpoint export [--json] BOX@NAME -o FILE"
    sub.description = (
        "Write a checkpoint to a file: the root and the home of its box. What ran, the\n"
        "workspace, mounts, rules, variables and secrets are not in it."
    )
    sub.set_defaults(target=verbs.checkpoint_export)
    sub.add_argument("checkpoint", metavar="BOX@NAME")
    sub.add_argument("-o", "--output", required=True, metavar="FILE", help="replaced when the new one is whole")
    sub.add_json_option()


def _import(sub: Parser) -> None:
    sub.usage = "paddock checkpoint import [--name NAME] [--json] FILE|- [WORKSPACE]"
    sub.description = (
        "Make a box with what a checkpoint in a file has of root and home; all else is as\n"
        "for any new box of yours. A file that is wrong in one place is refused whole."
    )
    sub.set_defaults(target=verbs.checkpoint_import)
    sub.add_argument("file", metavar="FILE")
    sub.add_argument("workspace", nargs="?", default="", metavar="WORKSPACE", help="default: the current directory")
    sub.add_argument("--name", default="", help="the box's name")
    sub.add_json_option()


def _diff(sub: Parser) -> None:
    sub.usage = "paddock checkpoint diff [--json] A B"
    sub.description = (
        "List the paths that differ from A to B, each BOX@NAME or BOX as it is now:\n"
        "+ added, - removed, ~ changed. Exit code 1 if there are any."
    )
    sub.set_defaults(target=verbs.checkpoint_diff)
    sub.add_argument("one", metavar="A")
    sub.add_argument("other", metavar="B")
    sub.add_json_option()


def _rm(sub: Parser) -> None:
    sub.usage = "paddock checkpoint rm [--json] BOX@NAME..."
    sub.description = "Remove checkpoints. The box and its forks stay as they are."
    sub.set_defaults(target=verbs.checkpoint_rm)
    sub.add_argument("checkpoints", nargs="+", metavar="BOX@NAME")
    sub.add_json_option()


def _prune(sub: Parser) -> None:
    sub.usage = "paddock checkpoint prune [--json]"
    sub.description = "Remove layers that nothing is made of, and old steps of builds."
    sub.set_defaults(target=verbs.checkpoint_prune)
    sub.add_json_option()


def df(sub: Parser) -> None:
    sub.usage = "paddock df [--json]"
    sub.description = (
        "Show what boxes, checkpoints, templates and tools take of the disk: what is\n"
        "their own, and what they share with others. `prune` removes what nobody uses."
    )
    sub.set_defaults(target=verbs.df)
    sub.add_json_option()


VERBS: dict[str, tuple[str, Setup]] = {
    "create": ("keep what a box is now", _create),
    "ls": ("list checkpoints", _ls),
    "restore": ("put a box back to one", _restore),
    "workspace": ("bring a copy of a live workspace out", _workspace),
    "fork": ("make boxes that begin as another is or was", _fork),
    "export": ("write one to a file", _export),
    "import": ("make a box of one in a file", _import),
    "diff": ("list what differs between two", _diff),
    "rm": ("remove checkpoints", _rm),
    "prune": ("remove layers that nobody uses", _prune),
}
