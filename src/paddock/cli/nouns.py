"""The words of `network`, `policy`, `secret` and `ports`, and the network options of run and create."""

from __future__ import annotations

from paddock.cli import agentnouns, verbs

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


def view_options(sub: Parser) -> None:
    """What `run` and `create` say of the workspace."""
    sub.add_argument("--review", action="store_true", help="the host sees no change until you `paddock apply` it")
    sub.add_argument("--clone", action="store_true", help="a clone of its own, on a branch of its own")
    sub.add_argument("--branch", default="", metavar="NAME", help="the branch of --clone (default: paddock/BOX)")
    sub.add_argument("--mask", action="append", default=[], metavar="PATH", help="hide a file or directory, like .env")
    sub.add_argument(
        "--writable", action="append", default=[], metavar="PATH", help="let it change .vscode, .envrc and the like"
    )


def turn_options(sub: Parser) -> None:
    """Of a run of an agent."""
    sub.add_argument("--agent-file", default="", metavar="FILE", help="an agent of your own, in place of AGENT")
    sub.add_argument("--prompt-file", default="", metavar="FILE", help="what the agent is to do; - is standard input")
    sub.add_argument("--model", default="", metavar="NAME", help="the agent's model")
    sub.add_argument("--ask", action="store_true", help="the agent asks before it acts")
    sub.add_argument("--json", action="store_true", help="the agent's machine output; without a terminal")


def diff(sub: Parser) -> None:
    sub.usage = "paddock diff [--stat | --names | --json] BOX [PATH...]"
    sub.description = "Show what a review box changed, and what of it the host would run or obey."
    sub.set_defaults(target=verbs.diff)
    _box_paths(sub)
    sub.add_argument("--stat", action="store_true", help="lines added and removed, by file")
    sub.add_argument("--names", action="store_true", help="names only; ! marks what `apply` asks about")
    _json(sub)


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
    _json(sub)


def _box_paths(sub: Parser) -> None:
    sub.add_argument("box", metavar="BOX")
    sub.add_argument("paths", nargs="*", default=[], metavar="PATH", help="files and directories of the workspace")


def _json(sub: Parser) -> None:
    sub.add_argument("--json", action="store_true", help="for programs")


def _where(sub: Parser, what: str) -> None:
    sub.add_argument("--box", default="", metavar="BOX", help=what)


def ports(sub: Parser) -> None:
    sub.usage = "paddock ports [--json] BOX"
    sub.description = "Show the ports of a box that answer on the host."
    sub.set_defaults(target=verbs.ports)
    sub.add_argument("box", metavar="BOX")
    _json(sub)


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
    _json(sub)


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
    _json(sub)


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
    _json(sub)


def _why(sub: Parser) -> None:
    sub.usage = "paddock policy why [--box BOX] [--method WORD] HOST[:PORT]|URL"
    sub.description = "Explain a decision: the rule, where it came from, and what would change it."
    sub.set_defaults(target=verbs.policy_why)
    _where(sub, "its rules; default: those of a new box")
    _asked_method(sub)
    sub.add_argument("target_host", metavar="HOST[:PORT]|URL")
    _json(sub)


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
        _json(sub)

    return setup


def _suggest(sub: Parser) -> None:
    sub.usage = "paddock policy suggest [--json] BOX"
    sub.description = "Print the narrowest rules that would allow what a box was refused."
    sub.set_defaults(target=verbs.policy_suggest)
    sub.add_argument("box", metavar="BOX")
    _json(sub)


def _pending(sub: Parser) -> None:
    sub.usage = "paddock policy pending [--json]"
    sub.description = "List what waits for your word: connections of boxes that ask, and project files."
    sub.set_defaults(target=verbs.policy_pending)
    _json(sub)


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


# -- secret ------------------------------------------------------------------------------------------------------------


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
    _json(sub)


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


def _secret_ls(sub: Parser) -> None:
    sub.usage = "paddock secret ls [--json | -q]"
    sub.description = "List secrets: where each may go and where its value comes from, not the values."
    sub.set_defaults(target=verbs.secret_ls)
    sub.add_argument("-q", "--quiet", action="store_true", help="names only")
    _json(sub)


def _secret_rm(sub: Parser) -> None:
    sub.usage = "paddock secret rm NAME..."
    sub.description = "Remove secrets and their values."
    sub.set_defaults(target=verbs.secret_rm)
    sub.add_argument("names", nargs="+", metavar="NAME")


def _secret_check(sub: Parser) -> None:
    sub.usage = "paddock secret check [--json] [NAME...]"
    sub.description = (
        "Say whether the value of each secret can be had now: ask the keyring, run the\n"
        "command, read the file. Nothing is sent anywhere. Exit code 1 if one is missing."
    )
    sub.set_defaults(target=verbs.secret_check)
    sub.add_argument("names", nargs="*", default=[], metavar="NAME", help="default: all")
    _json(sub)


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
    "secret": {
        "set": ("keep a secret, or change it", _set),
        "login": ("get an agent's long-lived token, and keep it", _login),
        "ls": ("list secrets, without their values", _secret_ls),
        "rm": ("remove secrets", _secret_rm),
        "check": ("say whether their values can be had", _secret_check),
    },
}
