"""The words of `network`, `policy` and `ports`, the network options of run and create, and which nouns there are."""

from __future__ import annotations

from paddock.cli import agentnouns, buildnouns, checkpointnouns, secretnouns, templatenouns, verbs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.cli.parser import Parser

    Setup = Callable[[Parser], None]


def network_options(sub: Parser) -> None:
    """What `run`, `create` and `network proxy` say of a box's network."""
    sub.add_argument("--policy", default="", metavar="WORD", help="what no rule decides: deny, allow or observe")
    for flag, value, what in _RULES:
        sub.add_argument(f"--{flag}", action="append", default=[], metavar=value, help=what)
    for flag, what in _REQUESTS:
        sub.add_argument(f"--{flag}", action="append", default=[], metavar="REQUEST", help=what)
    sub.add_argument("--preset", action="append", default=[], metavar="NAME", help="a set of rules that we keep")
    sub.add_argument("--on-deny", default="", metavar="WORD", help="deny, or ask: hold it while you decide")


_RULES = (
    ("allow-host", "HOST[:PORT]", "a host it may reach; *.example.com, localhost:PORT"),
    ("block-host", "HOST[:PORT]", "a host it may not reach"),
    ("allow-cidr", "CIDR", "addresses it may reach"),
    ("block-cidr", "CIDR", "addresses it may not reach"),
    ("bypass-host", "HOST[:PORT]", "a host it may reach by any protocol, unchecked"),
    ("bypass-cidr", "CIDR", "addresses it may reach by any protocol, unchecked"),
)


_REQUESTS = (
    ("allow-request", "of a host these only: 'GET api.test/v1/**'"),
    ("block-request", "of a host not these: 'DELETE api.test'"),
)


def publish_option(sub: Parser) -> None:
    sub.add_argument(
        "-p", "--publish", action="append", default=[], metavar="[IP:]HOST:BOX", help="a port of the box, on the host"
    )


def _where(sub: Parser, what: str) -> None:
    sub.add_argument("--box", default="", metavar="BOX", help=what)


def ports(sub: Parser) -> None:
    sub.usage = "paddock ports [--json] BOX"
    sub.description = "Show the ports of a box that answer on the host."
    sub.set_defaults(target=verbs.ports)
    sub.add_argument("box", metavar="BOX")
    sub.add_json_option()


# -- network -----------------------------------------------------------------------------------------------------------


def _proxy(sub: Parser) -> None:
    sub.usage = "paddock network proxy [OPTIONS] BOX"
    sub.description = (
        "Change what a box may reach. Adds to what is there; takes effect at once, and\n"
        "connections that are no longer allowed are closed."
    )
    sub.epilog = (
        "example:\n"
        "  paddock network proxy demo --policy deny --allow-host '*.example.com:443'\n"
        "      --block-cidr 192.168.0.0/16"
    )
    sub.set_defaults(target=verbs.network_proxy)
    sub.add_argument("box", metavar="BOX")
    network_options(sub)
    sub.add_json_option()


def _log(sub: Parser) -> None:
    sub.usage = "paddock network log [--json] [--follow] [--denied] [--limit N] [BOX]"
    sub.description = "Show which hosts boxes reached or tried to, and which rule decided."
    sub.set_defaults(target=verbs.network_log)
    sub.add_argument("box", nargs="?", default="", metavar="BOX", help="default: all boxes, those that are gone too")
    sub.add_argument("--denied", action="store_true", help="refusals only")
    sub.add_argument("-f", "--follow", action="store_true", help="print every decision as it is made")
    sub.add_argument("--limit", default="", metavar="N", help="the newest N lines")
    sub.add_argument("--json", action="store_true", help="every record, one a line")


# -- policy ------------------------------------------------------------------------------------------------------------


def _show(sub: Parser) -> None:
    sub.usage = "paddock policy show [--json] [BOX]"
    sub.description = "Show the rules of a box, or of every new box, and where each comes from."
    sub.set_defaults(target=verbs.policy_show)
    sub.add_argument("box", nargs="?", default="", metavar="BOX")
    sub.add_json_option()


def _check(sub: Parser) -> None:
    sub.usage = "paddock policy check [--box BOX] [--method WORD] HOST[:PORT]|URL..."
    sub.description = (
        "Say whether a box may reach a host, by the same code that the gateway runs.\n"
        "Port 443 if none is given. A URL or --method asks about a request; GET\n"
        "if no method is given. Exit code 77 when one is refused."
    )
    sub.set_defaults(target=verbs.policy_check)
    _where(sub, "its rules; default: those of a new box")
    _asked_method(sub)
    sub.add_argument("targets", nargs="+", metavar="HOST[:PORT]|URL")
    sub.add_json_option()


def _why(sub: Parser) -> None:
    sub.usage = "paddock policy why [--box BOX] [--method WORD] HOST[:PORT]|URL"
    sub.description = "Explain a decision: the rule, where it came from, and what would change it."
    sub.set_defaults(target=verbs.policy_why)
    _where(sub, "its rules; default: those of a new box")
    _asked_method(sub)
    sub.add_argument("target_host", metavar="HOST[:PORT]|URL")
    sub.add_json_option()


def _asked_method(sub: Parser) -> None:
    sub.add_argument("--method", default="", metavar="WORD", help="of the request that is asked about")


def _change(word: str, what: str, target: Callable[..., int]) -> Setup:
    def setup(sub: Parser) -> None:
        sub.usage = f"paddock policy {word} --box BOX|--user [OPTIONS] PATTERN..."
        sub.description = what
        sub.set_defaults(target=target)
        sub.add_argument("patterns", nargs="+", metavar="PATTERN")
        _where(sub, "for this box")
        sub.add_argument("--user", action="store_true", help="for all your boxes, in your policy file")
        sub.add_argument("--method", action="append", default=[], metavar="WORD", help="requests with this method only")
        sub.add_argument("--path", action="append", default=[], metavar="GLOB", help="requests to this path only")
        sub.add_json_option()

    return setup


def _suggest(sub: Parser) -> None:
    sub.usage = "paddock policy suggest [--json] BOX"
    sub.description = "Print the narrowest rules that would allow what a box was refused."
    sub.set_defaults(target=verbs.policy_suggest)
    sub.add_argument("box", metavar="BOX")
    sub.add_json_option()


def _pending(sub: Parser) -> None:
    sub.usage = "paddock policy pending [--json]"
    sub.description = "List what waits for your word: connections of boxes that ask, and project files."
    sub.set_defaults(target=verbs.policy_pending)
    sub.add_json_option()


def _approve(sub: Parser) -> None:
    sub.usage = (
        "paddock policy approve ASK [--once | --for-box | --always | --no]\n       paddock policy approve --project BOX"
    )
    sub.description = (
        "Answer what `policy pending` lists. A connection is allowed once unless said\n"
        "otherwise; --project accepts what the box's paddock.toml asks for, as\n"
        "listed: BOX for the file the box goes by, BOX@DIGEST for one written since."
    )
    sub.set_defaults(target=verbs.policy_approve)
    sub.add_argument("what", metavar="ASK|BOX")
    sub.add_argument("--once", action="store_true", help="this connection (the default)")
    sub.add_argument("--for-box", action="store_true", help="this host and port, for this box")
    sub.add_argument("--always", action="store_true", help="this host and port, for all your boxes")
    sub.add_argument("--no", action="store_true", help="refuse it now")
    sub.add_argument("--project", action="store_true", help="the box's project file")


def _export(sub: Parser) -> None:
    sub.usage = "paddock policy export [--format NAME] [BOX]"
    sub.description = "Write the rules of a box, or of every new box, for another program."
    sub.set_defaults(target=verbs.policy_export)
    sub.add_argument("box", nargs="?", default="", metavar="BOX")
    sub.add_argument("--format", default="paddock", metavar="NAME", help="paddock, docker or agent-sandbox")


def _import(sub: Parser) -> None:
    sub.usage = "paddock policy import --box BOX|--user [--format NAME] FILE"
    sub.description = "Add the rules of a file to a box or to your policy file; - is standard input."
    sub.set_defaults(target=verbs.policy_import)
    sub.add_argument("file", metavar="FILE")
    sub.add_argument("--format", default="", metavar="NAME", help="paddock, docker or agent-sandbox; default: by name")
    _where(sub, "for this box")
    sub.add_argument("--user", action="store_true", help="for all your boxes, in your policy file")


_ALLOW = (
    "Allow hosts: example.com, example.com:443, *.example.com, *:443, localhost:5432,\n"
    "an address or a CIDR. The most specific rule decides. With --method or --path\n"
    "only such requests to them pass, and each is looked at:\n"
    "  paddock policy allow --box demo --method GET --path '/repos/me/**' api.test"
)
_DENY = (
    "Refuse hosts: the same patterns as `policy allow`. With --method or --path such\n"
    "requests to them are refused, and the hosts stay as they are."
)
_RM = (
    "Remove the rules with these patterns; preset:NAME takes a preset from a box.\n"
    "With --method or --path the rule about just those requests; without, all that\n"
    "is said of requests to the hosts goes too."
)

NOUNS: dict[str, dict[str, tuple[str, Setup]]] = {
    "agent": agentnouns.VERBS,
    "checkpoint": checkpointnouns.VERBS,
    "network": {
        "proxy": ("change what a box may reach", _proxy),
        "log": ("show what boxes reached, and what was refused", _log),
    },
    "policy": {
        "show": ("show rules and where they come from", _show),
        "check": ("say whether a box may reach a host", _check),
        "why": ("explain a decision", _why),
        "allow": ("allow hosts", _change("allow", _ALLOW, verbs.policy_allow)),
        "deny": ("refuse hosts", _change("deny", _DENY, verbs.policy_deny)),
        "rm": ("remove rules", _change("rm", _RM, verbs.policy_rm)),
        "suggest": ("print rules for what a box was refused", _suggest),
        "pending": ("list what waits for your word", _pending),
        "approve": ("answer it", _approve),
        "export": ("write rules for another program", _export),
        "import": ("read rules of another program", _import),
    },
    "secret": secretnouns.VERBS,
    "template": {
        "build": ("build one from a Dockerfile", buildnouns.build(network_options)),
        **templatenouns.VERBS,
    },
}
