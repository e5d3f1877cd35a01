"""The command line is read as documented."""

from __future__ import annotations

import pytest

from paddock.cli import pages, parser
from paddock.errors import UserError


@pytest.mark.parametrize(
    ("words", "what", "workspace", "extra", "command"),
    [
        (["run", "--", "ls", "-l"], "", "", [], ["ls", "-l"]),
        (["run", "--", "sh", "--", "-c"], "", "", [], ["sh", "--", "-c"]),
        (["run", "shell"], "shell", "", [], []),
        (["run", "shell", "."], "shell", ".", [], []),
        (["run", "shell", ".", "a", "b:ro"], "shell", ".", ["a", "b:ro"], []),
        (["run", "shell", "--name", "x", ".", "-m", "1g", "a"], "shell", ".", ["a"], []),
        (["run", "--name=x", "-m1g", "shell", ".", "--", "-c", "ls"], "shell", ".", [], ["-c", "ls"]),
        (["run", "--"], "", "", [], []),
    ],
)
def test_options_of_run_stand_anywhere_before_the_command(
    words: list[str], what: str, workspace: str, extra: list[str], command: list[str]
) -> None:
    _, options = parser.parse(words)
    assert (options.what, options.workspace, options.extra, options.command) == (what, workspace, extra, command)


@pytest.mark.parametrize(
    ("words", "box", "command"),
    [
        (["exec", "box", "ls"], "box", ["ls"]),
        (["exec", "box", "ls", "-l", "--name", "-h"], "box", ["ls", "-l", "--name", "-h"]),
        (["exec", "box", "git", "checkout", "--", "file"], "box", ["git", "checkout", "--", "file"]),
        (["exec", "box", "--", "ls", "--"], "box", ["ls", "--"]),
        (["exec", "--", "box", "ls"], "box", ["ls"]),
        (["exec", "-it", "box", "sh"], "box", ["sh"]),
        (["exec", "-w", "/tmp", "box", "sh"], "box", ["sh"]),
        (["exec", "-w/tmp", "box", "sh"], "box", ["sh"]),
        (["exec", "-itw", "/tmp", "box", "sh"], "box", ["sh"]),
        (["exec", "-itw/tmp", "box", "sh"], "box", ["sh"]),
        (["exec", "--workdir", "/tmp", "box", "sh"], "box", ["sh"]),
        (["exec", "--workdir=/tmp", "box", "sh"], "box", ["sh"]),
        (["exec", "-e", "A=1", "-e", "B", "--env-file", "f", "box", "sh"], "box", ["sh"]),
        (["exec", "box"], "box", []),
        (["exec", "box", "--"], "box", []),
    ],
)
def test_the_command_of_exec_begins_after_the_box(words: list[str], box: str, command: list[str]) -> None:
    _, options = parser.parse(words)
    assert (options.box, options.command) == (box, command)


def test_the_options_of_exec_are_read() -> None:
    _, options = parser.parse(["exec", "-itdw", "/tmp", "-u", "agent", "--timeout", "5s", "-e", "A=1", "box", "sh"])
    given = (options.interactive, options.tty, options.detach, options.workdir, options.user, options.timeout)
    assert given == (True, True, True, "/tmp", "agent", "5s")
    assert options.env == ["A=1"]


@pytest.mark.parametrize("words", [[], ["-h"], ["--help"]])
def test_without_a_verb_the_overview_is_printed(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    action, options = parser.parse(words)
    assert action(options) == 0
    assert capsys.readouterr().out == parser.overview()


@pytest.mark.parametrize("words", [["--version"], ["version"]])
def test_the_version_is_printed(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    from paddock import __version__

    action, options = parser.parse(words)
    assert action(options) == 0
    assert capsys.readouterr().out == f"paddock {__version__}\n"


def test_a_file_that_begins_with_a_dash_is_named_after_two() -> None:
    _, options = parser.parse(["cp", "--", "-file", "box:/tmp"])
    assert (options.source, options.destination) == ("-file", "box:/tmp")


# -- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["inspct"], "unknown verb 'inspct'", "did you mean `paddock inspect`?"),
        (["zzz"], "unknown verb 'zzz'", "`paddock --help` lists the verbs"),
        (["--zzz"], "unknown option '--zzz'", "`paddock --help` lists the verbs"),
        (["ls", "--zzz"], "unknown option '--zzz'", "`paddock ls --help` shows the options"),
        (["ls", "zzz"], "unknown argument 'zzz'", "`paddock ls --help` shows the options"),
        (
            ["run", "sh", "-c", "ls"],
            "unknown option '-c'",
            "`paddock run --help` shows the options; a command goes after `--`",
        ),
        (["rm"], "the following arguments are required: BOX", "`paddock rm --help` shows the options"),
        (["exec"], "the following arguments are required: BOX", "`paddock exec --help` shows the options"),
        (["policy", "zzz"], "unknown verb 'zzz'", "`paddock policy --help` lists the verbs"),
        (["policy", "chek"], "unknown verb 'chek'", "did you mean `paddock policy check`?"),
        (["network", "--json"], "unknown option '--json'", "`paddock network --help` lists the verbs"),
        (["daemon", "zzz"], "unknown word 'zzz'", "one of: start, stop, status"),
        (
            ["exec", "box", "-it", "sh"],
            "'-it' stands where the command begins",
            "options stand before box; a command that begins with - goes after --",
        ),
    ],
)
def test_an_error_names_the_word_and_the_next_step(words: list[str], message: str, hint: str) -> None:
    with pytest.raises(UserError) as caught:
        parser.parse(words)
    assert (caught.value.message, caught.value.hint, caught.value.exit_code) == (message, hint, 2)


@pytest.mark.parametrize("verb", pages.VERBS)
def test_options_are_not_abbreviated(verb: str) -> None:
    for option in parser.build(verb).options():
        if option.startswith("--") and option not in {"--rm", "--env"}:
            with pytest.raises(UserError):
                parser.parse([verb, option[:-1], "x", "y"])
