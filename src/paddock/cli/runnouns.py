"""The words of `runs`, and those of a run of an agent."""

from __future__ import annotations

from paddock.cli import verbs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paddock.cli.parser import Parser


def runs(sub: Parser) -> None:
    sub.usage = "paddock runs [--json] [--limit N] [BOX]\n       paddock runs show [--json] ID"
    sub.description = (
        "List what agents did: how each run ended, what changed, what it cost. `show`\n"
        "tells all of one run; the beginning of its id is enough."
    )
    sub.epilog = "examples:\n  paddock runs --limit 5\n  paddock runs show 3f2a"
    sub.set_defaults(target=verbs.runs)
    sub.add_argument("what", nargs="?", default="", metavar="BOX|show", help="default: all boxes, also those gone")
    sub.add_argument("run", nargs="?", default="", metavar="ID", help="of `show`")
    sub.add_argument("--limit", default="", metavar="N", help="the newest N (default: 20)")
    sub.add_json_option()


def turn_options(sub: Parser) -> None:
    """Of a run of an agent."""
    sub.add_argument("--agent-file", default="", metavar="FILE", help="an agent of your own, in place of AGENT")
    sub.add_argument("--prompt-file", default="", metavar="FILE", help="what the agent is to do; - is standard input")
    sub.add_argument("--model", default="", metavar="NAME", help="the agent's model")
    sub.add_argument("--ask", action="store_true", help="the agent asks before it acts")
    sub.add_argument("--json", action="store_true", help="the agent's machine output; without a terminal")
    what = "end a headless run silent for so long; or never"
    sub.add_argument("--stuck-after", default="", metavar="TIME", help=what)
