"""The command line as words: which verb, which options, and where a command of the box begins.

argparse reads the words; what it says to people is ours, because its own usage, wrapping and errors differ from one
Python to the next. Only the parser of the verb in use is made.
"""

from __future__ import annotations

import argparse

from paddock.cli import nouns, verbs
from paddock.cli.pages import VERBS
from paddock.errors import UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

    from paddock.cli.nouns import Setup

    Action = Callable[[argparse.Namespace], int]

_HEAD = """\
usage: paddock VERB [OPTIONS] ...

Coding agents run free on your own machine, inside a fence.
"""
_TAIL = """\
examples:
  paddock run claude .         an agent, in the box of this directory
  paddock run -- make test     a command in a box that is gone afterwards
  paddock run shell .          a shell in the box of this directory
  paddock exec BOX COMMAND     a command in a box that exists

`paddock VERB --help` shows the options of a verb.
Exit codes: the command's own; 2 usage, 77 refused by policy, 78 budget spent,
79 stuck, 124 timeout, 125 box unavailable, 126/127 as shells, 128+n signal n.
"""
_COLUMN = 26


class _Formatter(argparse.HelpFormatter):
    """argparse makes one for every option; a given width keeps it from loading shutil to ask for the terminal's."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=80)


class Parser(argparse.ArgumentParser):
    """argparse with our help and our error lines."""

    def __init__(self, verb: str) -> None:
        super().__init__(prog=f"paddock {verb}", formatter_class=_Formatter, allow_abbrev=False, add_help=False)
        self.advice = ""
        self.splits = ""  # at which word the command begins: `--`, or after the box
        self.add_argument("-h", "--help", action="help", help="show this help")

    def error(self, message: str) -> NoReturn:
        raise self.refuse(message)

    def refuse(self, message: str) -> UserError:
        return UserError(message, hint=f"`{self.prog} --help` shows the options{self.advice}", code="usage")

    def format_help(self) -> str:
        named = [action for action in self._actions if action.option_strings]
        plain = [action for action in self._actions if not action.option_strings and action.help]
        lines = [f"usage: {self.usage}", "", str(self.description)]
        for title, actions in (("arguments", plain), ("options", [*named[1:], named[0]])):
            if actions:
                lines += ["", f"{title}:", *map(_help_line, actions)]
        return "\n".join(lines) + "\n" + (f"\n{self.epilog}\n" if self.epilog else "")

    def add_json_option(self) -> None:
        self.add_argument("--json", action="store_true", help="for programs")

    def options(self) -> list[str]:
        return sorted(self._option_string_actions)

    def first_plain(self, words: Sequence[str]) -> int:
        """Where the first word stands that is neither an option nor an option's value."""
        at = 0
        while at < len(words) and words[at].startswith("-") and words[at] not in {"-", "--"}:
            at += 1 + self._takes_next(words[at])
        return at

    def _takes_next(self, word: str) -> bool:
        """Whether the value of this option is the next word; -itu is -i -t -u."""
        if word.startswith("--"):
            action = self._option_string_actions.get(word)
            return action is not None and action.nargs is None
        for place, letter in enumerate(word[1:], 2):
            action = self._option_string_actions.get(f"-{letter}")
            if action is None or action.nargs is None:
                return action is not None and place == len(word)
        return False


def _help_line(action: argparse.Action) -> str:
    value = f" {action.metavar or action.dest.upper()}" if action.nargs is None and action.option_strings else ""
    name = ", ".join(action.option_strings) + value if action.option_strings else str(action.metavar)
    gap = f"\n{'':{_COLUMN}}" if len(name) > _COLUMN - 4 else f"{'':{_COLUMN - 2 - len(name)}}"
    return f"  {name}{gap}{action.help}"


def parse(words: Sequence[str]) -> tuple[Action, argparse.Namespace]:
    """The function that runs the verb, and its options."""
    first = words[0] if words else "--help"
    if first in {"-h", "--help"}:
        return verbs.help_, argparse.Namespace()
    if first == "--version":
        return verbs.version, argparse.Namespace()
    if first not in VERBS:
        raise _unknown(first)
    page, rest = _page(first, list(words[1:]))
    if page in nouns.NOUNS:
        return verbs.noun_help, argparse.Namespace(noun=page)
    parser = build(page)
    own, command = _divide(parser, rest)
    # Options may stand between words, but not both that and `--` at once: argparse would forget where it was.
    options, unknown = parser.parse_known_args(own) if "--" in own else parser.parse_known_intermixed_args(own)
    if unknown:
        kind = "option" if unknown[0].startswith("-") else "argument"
        word = unknown[0].partition("=")[0] if kind == "option" else unknown[0]  # its value is nobody's to repeat
        raise parser.refuse(f"unknown {kind} {word!r}")
    options.command = command
    return options.target, options


def _page(first: str, rest: list[str]) -> tuple[str, list[str]]:
    """A noun takes its verb from the next word; alone it explains itself."""
    if first not in nouns.NOUNS:
        return first, rest
    if not rest or rest[0] in {"-h", "--help"}:
        return first, []
    if rest[0] not in nouns.NOUNS[first]:
        raise _unknown(rest[0], first)
    return f"{first} {rest[0]}", rest[1:]


def _unknown(word: str, noun: str = "") -> UserError:
    known = nouns.NOUNS[noun] if noun else VERBS
    asked = f"paddock {noun}" if noun else "paddock"
    usual = f"`{asked} --help` lists the verbs"
    if word.startswith("-"):
        return UserError(f"unknown option {word!r}", hint=usual, code="usage")
    import difflib

    near = difflib.get_close_matches(word, known, 1)
    return UserError(
        f"unknown verb {word!r}", hint=f"did you mean `{asked} {near[0]}`?" if near else usual, code="usage"
    )


def _divide(parser: Parser, words: list[str]) -> tuple[list[str], list[str]]:
    """Our own words, and those of the command: they are never read as options of ours."""
    if parser.splits == "--" and "--" in words:
        at = words.index("--")
        return words[:at], words[at + 1 :]
    if parser.splits != "BOX":
        return words, []
    at = parser.first_plain(words)
    if words[at : at + 1] == ["--"]:
        del words[at]
    own, command = words[: at + 1], words[at + 1 :]
    if command and command[0].startswith("-") and command[0] != "--":
        hint = f"options stand before {words[at]}; a command that begins with - goes after --"
        raise UserError(f"{command[0]!r} stands where the command begins", hint=hint, code="usage")
    return own, command[1:] if command[:1] == ["--"] else command


def build(page: str) -> Parser:
    """The parser of a verb, or of a noun and its verb."""
    noun, _, verb = page.rpartition(" ")
    parser = Parser(page)
    (nouns.NOUNS[noun] if noun else VERBS)[verb][1](parser)
    return parser


def pages() -> list[str]:
    """Everything that has options, as people write it."""
    verbs_of_nouns = [f"{noun} {verb}" for noun, table in nouns.NOUNS.items() for verb in table]
    return [verb for verb in VERBS if verb not in nouns.NOUNS] + verbs_of_nouns


def overview() -> str:
    """What `paddock` alone prints."""
    return f"{_HEAD}\nverbs:\n{_listed(VERBS)}\n{_TAIL}"


def noun_overview(noun: str) -> str:
    """What a noun alone prints."""
    return (
        f"usage: paddock {noun} VERB [OPTIONS] ...\n\nverbs:\n{_listed(nouns.NOUNS[noun])}\n"
        f"`paddock {noun} VERB --help` shows the options of a verb.\n"
    )


def _listed(table: dict[str, tuple[str, Setup]]) -> str:
    width = max(map(len, table)) + 2
    return "".join(f"  {verb:{width}}{summary}\n" for verb, (summary, _) in table.items())
