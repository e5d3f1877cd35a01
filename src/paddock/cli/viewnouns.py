"""The words of the workspace: what run and create say of it, and how its changes and commits come home."""

from __future__ import annotations

from paddock.cli import verbs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paddock.cli.parser import Parser


def view_options(sub: Parser) -> None:
    """What `run` and `create` say of the workspace."""
    sub.add_argument("--review", action="store_true", help="the host sees no change until you `paddock apply` it")
    sub.add_argument("--clone", action="store_true", help="a clone of its own, on a branch of its own")
    sub.add_argument("--branch", default="", metavar="NAME", help="the branch of --clone (default: paddock/BOX)")
    sub.add_argument("--mask", action="append", default=[], metavar="PATH", help="hide a file or directory, like .env")
    sub.add_argument(
        "--writable", action="append", default=[], metavar="PATH", help="let it change .vscode, .envrc and the like"
    )


def diff(sub: Parser) -> None:
    sub.usage = "paddock diff [--stat | --names | --json] BOX [PATH...]"
    sub.description = "Show what a review box changed, and what of it the host would run or obey."
    sub.set_defaults(target=verbs.diff)
    _box_paths(sub)
    sub.add_argument("--stat", action="store_true", help="lines added and removed, by file")
    sub.add_argument("--names", action="store_true", help="names only; ! marks what `apply` asks about")
    sub.add_json_option()


def apply(sub: Parser) -> None:
    sub.usage = "paddock apply [--all] [--merge] [--dry-run] BOX [PATH...]\n       paddock apply --undo BOX"
    sub.description = (
        "Bring changes of a review box home, each file whole or not at all. What changed\n"
        "on the host meanwhile stays as it is. What the host would run or obey is asked\n"
        "about one by one, or must be named by its own path: --all does not include it.\n"
        "Exit code 1 when something that was asked for did not come home."
    )
    sub.set_defaults(target=verbs.apply)
    _box_paths(sub)
    sub.add_argument("--all", action="store_true", help="everything that is not dangerous")
    sub.add_argument("--merge", action="store_true", help="keep both sides' lines where they do not touch")
    sub.add_argument("--dry-run", action="store_true", help="only say what would happen")
    sub.add_argument("--undo", action="store_true", help="take the last apply back")


def discard(sub: Parser) -> None:
    sub.usage = "paddock discard [-f] BOX [PATH...]"
    sub.description = "Drop changes of a review box: it has the workspace's files again."
    sub.set_defaults(target=verbs.discard)
    _box_paths(sub)
    sub.add_argument("-f", "--force", action="store_true", help="do not ask, also when no PATH is given")


def git(sub: Parser) -> None:
    sub.usage = "paddock git BOX log|fetch"
    sub.description = (
        "fetch: bring a box's commits home, as refs/paddock/BOX/BRANCH of the repository.\n"
        "log: list those that came home."
    )
    sub.epilog = "example:\n  paddock git demo fetch && git merge refs/paddock/demo/main"
    sub.set_defaults(target=verbs.git)
    sub.add_argument("box", metavar="BOX")
    sub.add_argument("what", metavar="log|fetch")
    sub.add_json_option()


def _box_paths(sub: Parser) -> None:
    sub.add_argument("box", metavar="BOX")
    sub.add_argument("paths", nargs="*", default=[], metavar="PATH", help="files and directories of the workspace")
