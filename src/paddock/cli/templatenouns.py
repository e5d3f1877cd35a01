"""The words of `template`, and what `run` and `create` say of the engine and of the root that a box has."""

from __future__ import annotations

from paddock.cli import verbs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.cli.parser import Parser

    Setup = Callable[[Parser], None]


def engine_options(sub: Parser) -> None:
    sub.add_argument("--engine", default="", help="process, or container: with a root of its own")
    words = "that root: a template's name, or ./DIR, or ./image.tar"
    sub.add_argument("-t", "--template", default="", metavar="NAME|PATH", help=words)
    sub.add_argument("--runtime", default="", metavar="NAME", help="what starts a container: crun, runc or runsc")
    local = "taken as docker's: every template here is local"
    sub.add_argument("--load-local-template", action="store_true", help=local)


def _ls(sub: Parser) -> None:
    sub.usage = "paddock template ls [--json] [-q]"
    sub.description = "List templates, and how many boxes are made of each."
    sub.set_defaults(target=verbs.template_ls)
    sub.add_argument("-q", "--quiet", action="store_true", help="names only")
    sub.add_json_option()


def _inspect(sub: Parser) -> None:
    sub.usage = "paddock template inspect [--json] NAME[:TAG]"
    sub.description = "Show what a template is made of, and what it runs."
    sub.set_defaults(target=verbs.template_inspect)
    sub.add_argument("template", metavar="NAME[:TAG]")
    sub.add_json_option()


def _rm(sub: Parser) -> None:
    sub.usage = "paddock template rm NAME[:TAG]..."
    sub.description = "Remove templates. Boxes that were made of them stay as they are."
    sub.set_defaults(target=verbs.template_rm)
    sub.add_argument("templates", nargs="+", metavar="NAME[:TAG]")


def _load(sub: Parser) -> None:
    sub.usage = "paddock template load [-t NAME[:TAG]] [--json] FILE|DIRECTORY|-"
    sub.description = (
        "Make a template of an image: a file that `docker save`, `podman save` or skopeo\n"
        "wrote, or an OCI layout. Without -t it gets the names that are in the file,\n"
        "unless a template has one of them; with -t it replaces what has that name."
    )
    sub.epilog = "example:\n  docker save my-team:v1 | paddock template load -"
    sub.set_defaults(target=verbs.template_load)
    sub.add_argument("file", metavar="FILE")
    sub.add_argument("-t", "--name", default="", metavar="NAME[:TAG]", help="its name here")
    sub.add_json_option()


def _save(sub: Parser) -> None:
    sub.usage = "paddock template save [--json] NAME[:TAG] -o FILE"
    sub.description = "Write a template to a file that docker load and podman load take, and `load`."
    sub.set_defaults(target=verbs.template_save)
    sub.add_argument("template", metavar="NAME[:TAG]")
    sub.add_argument("-o", "--output", required=True, metavar="FILE", help="replaced when the new one is whole")
    sub.add_json_option()


def save_box(sub: Parser) -> None:
    sub.usage = "paddock save [--stop] [--json] BOX NAME[:TAG] [-o FILE]"
    sub.description = (
        "Make a template of a container box: its root, with all that was installed or\n"
        "changed in it. Its home (/home/agent), its workspace, your variables and your\n"
        "secrets are no part of it. With -o it is written to that file, which docker\n"
        "load, podman load and `template load` take, and no template is made."
    )
    sub.epilog = "example:\n  paddock save demo my-team:v2"
    sub.set_defaults(target=verbs.save)
    sub.add_argument("box", metavar="BOX")
    sub.add_argument("name", metavar="NAME[:TAG]", help="replaced when there is such a template")
    sub.add_argument("-o", "--output", default="", metavar="FILE", help="into a file")
    sub.add_argument("--stop", action="store_true", help="end what runs in the box first")
    sub.add_json_option()


def _errand(sub: Parser) -> None:
    from paddock.cli.nouns import network_options  # which lists us

    sub.add_argument("--user", default="", metavar="NAME", help="who logs in there")
    sub.add_argument("--secret", default="", metavar="NAME", help="a secret, bound to its hosts: the password")
    network_options(sub)
    sub.add_json_option()


def _pull(sub: Parser) -> None:
    sub.usage = "paddock template pull [-t NAME[:TAG]] [OPTIONS] IMAGE[:TAG][@sha256:SUM]"
    sub.description = (
        "Make a template of an image in a registry: skopeo fetches it, in a box that\n"
        "reaches that registry and what the options allow. Its sums are checked; with\n"
        "@sha256:SUM it is that image or none."
    )
    sub.epilog = "example:\n  paddock template pull --preset containers ghcr.io/team/tool:v1"
    sub.set_defaults(target=verbs.template_pull)
    sub.add_argument("image", metavar="IMAGE")
    sub.add_argument("-t", "--name", default="", metavar="NAME[:TAG]", help="its name here (default: its own)")
    _errand(sub)


def _push(sub: Parser) -> None:
    sub.usage = "paddock template push [OPTIONS] NAME[:TAG] [HOST/]NAME[:TAG]"
    sub.description = "Send a template to a registry, as `pull` fetches one. Prints its sum there."
    sub.set_defaults(target=verbs.template_push)
    sub.add_argument("template", metavar="NAME[:TAG]")
    sub.add_argument("image", metavar="IMAGE")
    _errand(sub)


VERBS: dict[str, tuple[str, Setup]] = {
    "ls": ("list templates", _ls),
    "inspect": ("show one", _inspect),
    "rm": ("remove templates", _rm),
    "load": ("make one of an image in a file", _load),
    "save": ("write one to a file", _save),
    "pull": ("make one of an image in a registry", _pull),
    "push": ("send one to a registry", _push),
}
