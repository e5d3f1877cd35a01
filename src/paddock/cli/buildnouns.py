"""The words of `template build`."""

from __future__ import annotations

from paddock.cli import verbs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.cli.parser import Parser


def build(network_options: Callable[[Parser], None]) -> Callable[[Parser], None]:
    """`network_options` are those of `run`."""

    def setup(sub: Parser) -> None:
        sub.usage = "paddock template build -t NAME[:TAG] [OPTIONS] DIR"
        sub.description = (
            "Build a template from the Dockerfile of a directory, without Docker. Each RUN is\n"
            "a box on the layers below it, and reaches nothing that these options do not\n"
            "allow. What was built stays in the cache: a build that ended goes on from\n"
            "there. FROM names a template, debian or ubuntu with a suite, scratch, or\n"
            "./FILE or ./DIRECTORY of DIR. Prints NAME:TAG."
        )
        sub.epilog = "example:\n  paddock template build -t my-team:v1 --preset debian --preset node ."
        sub.set_defaults(target=verbs.template_build)
        sub.add_argument("directory", metavar="DIR")
        sub.add_argument("-t", "--tag", required=True, metavar="NAME[:TAG]", help="what it is called")
        sub.add_argument("-f", "--file", default="", metavar="FILE", help="the Dockerfile (default: DIR/Dockerfile)")
        sub.add_argument("--target", dest="stage", default="", metavar="STAGE", help="a stage to end with")
        sub.add_argument(
            "--build-arg", action="append", default=[], metavar="K[=V]", help="an ARG; without a value, yours"
        )
        sub.add_argument("--no-cache", action="store_true", help="make every step anew")
        sub.add_argument("--lock", default="", metavar="FILE", help="write down what it is made of")
        sub.add_argument("--locked", action="store_true", help="refuse what differs from that (default: FILE.lock)")
        sub.add_argument("--runtime", default="", metavar="NAME", help="what starts the boxes: crun or runc")
        network_options(sub)
        sub.add_json_option()

    return setup
