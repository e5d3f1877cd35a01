"""What `run` and `create` say of the engine and of the root that a box has."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paddock.cli.parser import Parser


def engine_options(sub: Parser) -> None:
    sub.add_argument("--engine", default="", help="process, or container: with a root of its own")
    sub.add_argument("-t", "--template", default="", metavar="DIR|FILE", help="that root: a directory or an image file")
    sub.add_argument("--runtime", default="", metavar="NAME", help="what starts a container: crun or runc")
