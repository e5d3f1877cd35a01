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
    sub.usage = "paddock checkpoint create [--stop] [--json] BOX [NAME]"
    sub.description = (
        "Keep what a box is now: its root, its home, and its workspace if it is a review\n"
        "or a clone. A live workspace is your own directory, and not part of it. No\n"
        "command may run meanwhile. Prints BOX@NAME."
    )
    sub.epilog = "example:\n  paddock checkpoint create demo before-upgrade"
    sub.set_defaults(target=verbs.checkpoint_create)
    sub.add_argument("box", metavar="BOX")
    sub.add_argument("name", nargs="?", default="", metavar="NAME", help="default: c1, c2, ...")
    _stop_option(sub)
    sub.add_json_option()


def _ls(sub: Parser) -> None:
    sub.usage = "paddock checkpoint ls [--json] [BOX]"
    sub.description = "List checkpoints, oldest first."
    sub.set_defaults(target=verbs.checkpoint_ls)
    sub.add_argument("box", nargs="?", default="", metavar="BOX", help="default: of all boxes")
    sub.add_json_option()


def _restore(sub: Parser) -> None:
    sub.usage = "paddock checkpoint restore [--stop] BOX@NAME"
    sub.description = "Put a box back to a checkpoint. What it did since is gone."
    sub.set_defaults(target=verbs.checkpoint_restore)
    sub.add_argument("checkpoint", metavar="BOX@NAME")
    _stop_option(sub)


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
    sub.usage = "paddock checkpoint rm BOX@NAME..."
    sub.description = "Remove checkpoints. The box and its forks stay as they are."
    sub.set_defaults(target=verbs.checkpoint_rm)
    sub.add_argument("checkpoints", nargs="+", metavar="BOX@NAME")


def _prune(sub: Parser) -> None:
    sub.usage = "paddock checkpoint prune"
    sub.description = "Remove layers that no box and no checkpoint is made of."
    sub.set_defaults(target=verbs.checkpoint_prune)


def df(sub: Parser) -> None:
    sub.usage = "paddock df [--json]"
    sub.description = "Show what layers take of the disk, and which nobody uses: `prune` removes those."
    sub.set_defaults(target=verbs.df)
    sub.add_json_option()


VERBS: dict[str, tuple[str, Setup]] = {
    "create": ("keep what a box is now", _create),
    "ls": ("list checkpoints", _ls),
    "restore": ("put a box back to one", _restore),
    "fork": ("make boxes that begin as another is or was", _fork),
    "diff": ("list what differs between two", _diff),
    "rm": ("remove checkpoints", _rm),
    "prune": ("remove layers that nobody uses", _prune),
}
