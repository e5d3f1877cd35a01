"""The words of `secret` and `usage`, and what run and create say of secrets and budgets."""

from __future__ import annotations

from paddock.cli import verbs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.cli.parser import Parser

    Setup = Callable[[Parser], None]


def _set(sub: Parser) -> None:
    sub.usage = "paddock secret set [OPTIONS] NAME"
    sub.description = (
        "Keep a secret that boxes use and never see. Its value is read from standard\n"
        "input, or asked for, and kept in the keyring of your session, or where there is\n"
        "none in a file that only you can read. For a known service the name says where\n"
        "it may go: anthropic, claude, openai, google, github, gitlab, npm, pypi, ...\n"
        "Setting it again changes its value; where it may go stays unless you say more."
    )
    sub.epilog = (
        "examples:\n"
        "  paddock secret set anthropic < key.txt\n"
        "  paddock secret set github --from-command 'gh auth token' --repo me/project:ro\n"
        "  paddock secret set shop --host api.shop.example --header X-Api-Key"
    )
    sub.set_defaults(target=verbs.secret_set)
    sub.add_argument("name", metavar="NAME", help="a service, or a name of your own with --host")
    sub.add_argument("rest", nargs="*", default=[])  # a value, which is refused without being repeated
    sub.add_argument("--from-env", default="", metavar="VAR", help="read it from your environment at each run")
    sub.add_argument("--from-command", default="", metavar="CMD", help="read what a program prints, at each run")
    sub.add_argument("--file", default="", metavar="PATH", help="read it from a file, at each run")
    for flag, value, what in _BINDING:
        sub.add_argument(f"--{flag}", action="append", default=[], metavar=value, help=what)
    sub.add_argument("--in-query", action="store_true", help="also in the query of a request")
    sub.add_argument("--in-body", action="store_true", help="also in the body of a request")


def secret_options(sub: Parser) -> None:
    """Of run and create."""
    what = "a secret that the box uses and never sees"
    sub.add_argument("--secret", action="append", default=[], metavar="NAME[:ro]", help=what)
    what = "a key of your ssh-agent, to log in at HOST"
    sub.add_argument("--ssh-key", action="append", default=[], metavar="KEY@HOST[:PORT]", help=what)
    what = "let an agent log in in the box: claude, codex, ..."
    sub.add_argument("--allow-login", action="append", default=[], metavar="AGENT", help=what)
    what = "your own settings of the agent, but no tokens"
    sub.add_argument("--with-settings", action="store_true", help=what)
    what = "an MCP server of yours that the agent may use"
    sub.add_argument("--mcp", action="append", default=[], metavar="NAME", help=what)
    sub.add_argument("--max-cost", default="", metavar="DOLLARS", help="what it may spend on models, for example 5")
    sub.add_argument("--max-tokens", default="", metavar="N", help="tokens of models, for example 2M")
    sub.add_argument("--max-requests", default="", metavar="N", help="requests to models; then exit code 78")
    sub.add_argument("--max-time", default="", metavar="TIME", help="how long it may ask models, for example 30m")


def usage(sub: Parser) -> None:
    sub.usage = "paddock usage [--json] [BOX]"
    sub.description = (
        "Show what boxes spent on models, as read from the answers that passed: of boxes\n"
        "with a budget, or with a secret for a model's service. Prices are of a list."
    )
    sub.set_defaults(target=verbs.usage)
    sub.add_argument("box", nargs="?", default="", metavar="BOX", help="default: all")
    sub.add_json_option()


_BINDING = (
    ("host", "HOST[:PORT]", "where it may go; http://HOST for plain HTTP"),
    ("header", "NAME", "the header that carries it (default: any)"),
    ("env", "VAR", "the variable of a box with the placeholder"),
    ("repo", "OWNER/NAME[:ro]", "git may use it for this repository only"),
)


def _login(sub: Parser) -> None:
    sub.usage = "paddock secret login [--program PATH] claude"
    sub.description = (
        "Run `claude setup-token` on your terminal, outside of every box, and keep the\n"
        "long-lived token that it prints as the secret `claude`. The token is not shown."
    )
    sub.epilog = "example:\n  paddock secret login claude"
    sub.set_defaults(target=verbs.secret_login)
    sub.add_argument("name", metavar="AGENT", help="claude")
    sub.add_argument("--program", default="", metavar="PATH", help="its program (default: of your PATH)")


def _ls(sub: Parser) -> None:
    sub.usage = "paddock secret ls [--json | -q]"
    sub.description = "List secrets: where each may go and where its value comes from, not the values."
    sub.set_defaults(target=verbs.secret_ls)
    sub.add_argument("-q", "--quiet", action="store_true", help="names only")
    sub.add_json_option()


def _rm(sub: Parser) -> None:
    sub.usage = "paddock secret rm NAME..."
    sub.description = "Remove secrets and their values."
    sub.set_defaults(target=verbs.secret_rm)
    sub.add_argument("names", nargs="+", metavar="NAME")


def _check(sub: Parser) -> None:
    sub.usage = "paddock secret check [--json] [NAME...]"
    sub.description = (
        "Say whether the value of each secret can be had now: ask the keyring, run the\n"
        "command, read the file. Nothing is sent anywhere. Exit code 1 if one is missing."
    )
    sub.set_defaults(target=verbs.secret_check)
    sub.add_argument("names", nargs="*", default=[], metavar="NAME", help="default: all")
    sub.add_json_option()


VERBS: dict[str, tuple[str, Setup]] = {
    "set": ("keep a secret, or change it", _set),
    "login": ("get an agent's long-lived token, and keep it", _login),
    "ls": ("list secrets, without their values", _ls),
    "rm": ("remove secrets", _rm),
    "check": ("say whether their values can be had", _check),
}
