"""Lines of a Dockerfile are joined as its own parser joins them."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.images import dockerlines
from paddock.limits import DOCKERFILE_BYTES

if TYPE_CHECKING:
    from paddock.images.dockerlines import Line


def lines(text: str) -> list[tuple[int, str]]:
    return [(line.number, line.text) for line in dockerlines.read(text.encode()).lines]


def one(text: str) -> Line:
    (line,) = dockerlines.read(text.encode()).lines
    return line


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("# only a comment\n\n", []),
        ("FROM a\nRUN b\n", [(1, "FROM a"), (2, "RUN b")]),
        ("FROM a\r\nRUN b\r\n", [(1, "FROM a"), (2, "RUN b")]),
        ("\ufeffFROM a", [(1, "FROM a")]),
        ("   FROM a  ", [(1, "FROM a")]),
        ("RUN a \\\n  b \\\n  c\nRUN d", [(1, "RUN a   b   c"), (4, "RUN d")]),
        ("RUN a \\  \n b", [(1, "RUN a  b")]),
        ("RUN a \\\n# a comment\n  # another\n b", [(1, "RUN a  b")]),
        ("RUN a \\\n\n\n b", [(1, "RUN a  b")]),
        ("RUN a \\\\\nRUN b", [(1, "RUN a \\\\"), (2, "RUN b")]),
        ("RUN a \\", [(1, "RUN a")]),
        ("RUN echo '# no comment'", [(1, "RUN echo '# no comment'")]),
        ("RUN a # no comment either", [(1, "RUN a # no comment either")]),
        ("# escape=`\nRUN a `\n b\nCOPY c:\\ d:\\", [(2, "RUN a  b"), (4, "COPY c:\\ d:\\")]),
        ("\\\nRUN a", [(1, "RUN a")]),
    ],
)
def test_lines_are_joined(text: str, found: list[tuple[int, str]]) -> None:
    assert lines(text) == found


@pytest.mark.parametrize(
    ("text", "escape", "syntax"),
    [
        ("FROM a", "\\", ""),
        ("# escape=`\nFROM a", "`", ""),
        ("#ESCAPE = `  \nFROM a", "`", ""),
        ("# syntax=docker/dockerfile:1\n# escape=`\n", "`", "docker/dockerfile:1"),
        ("# a comment\n# escape=`\n", "\\", ""),
        ("\n# escape=`\n", "\\", ""),
        ("# unknown=x\n# escape=`\n", "\\", ""),
        ("FROM a\n# escape=`\n", "\\", ""),
    ],
)
def test_directives_stand_at_the_top_alone(text: str, escape: str, syntax: str) -> None:
    found = dockerlines.read(text.encode())
    assert (found.escape, found.syntax) == (escape, syntax)


@pytest.mark.parametrize(
    ("text", "name", "content", "is_expanded"),
    [
        ("RUN <<EOF\na\n  b\nEOF\n", "EOF", "a\n  b\n", True),
        ("RUN <<'EOF'\n$a\nEOF\n", "EOF", "$a\n", False),
        ('RUN <<"END OF"\n', "", "", False),
        ('RUN python3 <<"E"\nprint(1)\nE\n', "E", "print(1)\n", False),
        ("RUN cat 3<<EOF | sh\na\nEOF\n", "EOF", "a\n", True),
        ("COPY <<EOF /x\nEOF\n", "EOF", "", True),
        ("copy <<robots.txt /x/\n# no comment \\\nrobots.txt\n", "robots.txt", "# no comment \\\n", True),
        ("RUN a \\\n <<EOF\nb\nEOF\n", "EOF", "b\n", True),
        ("RUN <<EOF && true\nb\nEOF\n", "EOF", "b\n", True),
        ("RUN [ -f x ] && cat <<EOF\nb\nEOF\n", "EOF", "b\n", True),
    ],
)
def test_a_here_document_follows_its_line(text: str, name: str, content: str, is_expanded: bool) -> None:
    line = one(text) if name else None
    if line is None:
        assert one(text).heredocs == ()
        return
    (heredoc,) = line.heredocs
    assert (heredoc.name, heredoc.content, heredoc.is_expanded) == (name, content, is_expanded)


def test_tabs_are_stripped_where_a_dash_says_so() -> None:
    (heredoc,) = one("RUN <<-EOF\n\t\ta\n\t\tEOF\n").heredocs
    assert (heredoc.content, heredoc.text) == ("\t\ta\n", "a\n")


def test_several_here_documents_follow_in_their_order() -> None:
    line = one("COPY <<a <<b /x/\n1\na\n2\nb\n")
    assert [(item.name, item.content) for item in line.heredocs] == [("a", "1\n"), ("b", "2\n")]


@pytest.mark.parametrize(
    "text",
    [
        "RUN cat <<<EOF\nRUN b",
        'RUN echo "<<EOF"\nRUN b',
        "RUN echo 'x <<EOF'\nRUN b",
        "RUN echo $((1<<4))\nRUN b",
        'RUN ["cat", "<<EOF"]\nRUN b',
        "ENV a=<<EOF\nRUN b",
        "CMD cat <<EOF\nRUN b",
    ],
)
def test_what_is_no_here_document_takes_no_lines(text: str) -> None:
    found = dockerlines.read(text.encode()).lines
    assert len(found) == 2
    assert found[0].heredocs == ()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"FROM a\nRUN <<EOF\nx\n", "line 2: the here-document EOF has no end"),
        (b"# escape=x\n", "line 1: escape must be"),
        (b"# escape=`\n# escape=`\n", "line 2: the directive escape is given twice"),
        (b"FROM a\n\xff\n", "line 2: it is not UTF-8"),
        (b"FROM a\nRUN \0\n", "line 2: it has a zero byte"),
        (b"#" * (DOCKERFILE_BYTES + 1), "bytes, at most"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(data: bytes, said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        dockerlines.read(data)
    assert caught.value.code == "dockerfile"


@pytest.mark.parametrize(
    "text",
    [
        "FROM a\nRUN " + '\\"' * 500_000,
        "FROM a\nRUN " + "'" + '\\"' * 400_000,
        "# syntax=x" + " " * 1_000_000 + "y\nFROM a",
        "FROM a\n" * 140_000,
    ],
    ids=["quotes", "both quotes", "directive", "instructions"],
)
def test_no_line_costs_more_than_its_length(text: str) -> None:
    """Of each the old way took hours, in which nobody else in the process did anything."""
    begun = time.process_time()
    with contextlib.suppress(UserError):
        dockerlines.read(text.encode()[: 1 << 20])
    assert time.process_time() - begun < 60


def test_a_quote_without_an_end_hides_nothing_after_it() -> None:
    assert [line.text for line in dockerlines.read(b'RUN it\'s "a <<X b"\nRUN "\\" <<EOF\nbody\nEOF').lines] == [
        'RUN it\'s "a <<X b"',
        'RUN "\\" <<EOF',
    ]


def test_instructions_are_counted() -> None:
    with pytest.raises(UserError, match="line 2001: it has more than 2000 instructions"):
        dockerlines.read(b"RUN x\n" * 2001)
    assert len(dockerlines.read(b"RUN x\n" * 2000).lines) == 2000
