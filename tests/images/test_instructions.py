"""Each instruction of a Dockerfile as a value, and what is said of those that are wrong."""

from __future__ import annotations

import pytest

from paddock.errors import UserError
from paddock.images import dockerlines, instructions
from paddock.images.instructions import (
    Arg,
    Command,
    Copy,
    Env,
    From,
    Instruction,
    Label,
    Listing,
    Run,
    Setting,
    Start,
    expanded,
)


def parse(text: str) -> Instruction:
    (line,) = dockerlines.read(text.encode()).lines
    return instructions.parse(line, "\\")


def shell(text: str) -> Command:
    return Command(words=(text,), is_shell=True)


def words(*argv: str) -> Command:
    return Command(words=argv, is_shell=False)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("FROM debian", From(line=1, image="debian")),
        ("from debian:12 as Base", From(line=1, image="debian:12", name="base")),
        ("FROM --platform=$BUILDPLATFORM a", From(line=1, image="a", platform="$BUILDPLATFORM")),
        ("FROM\tdebian", From(line=1, image="debian")),
        ("FROM a@sha256:0 AS b.c-d_e", From(line=1, image="a@sha256:0", name="b.c-d_e")),
        ("RUN apt-get update && x", Run(line=1, command=shell("apt-get update && x"))),
        ('RUN ["a", "b c"]', Run(line=1, command=words("a", "b c"))),
        ("RUN ['a']", Run(line=1, command=shell("['a']"))),
        ("RUN [ -f x ] && y", Run(line=1, command=shell("[ -f x ] && y"))),
        ('CMD ["\\ud83d\\ude00"]', Start(line=1, keyword="CMD", command=words("\U0001f600"))),
        ('RUN ["a", 1]', Run(line=1, command=shell('["a", 1]'))),
        ("RUN --network=none x", Run(line=1, command=shell("x"), network="none")),
        ("COPY a b /c/", Copy(line=1, sources=("a", "b"), target="/c/")),
        ('COPY ["a b", "c d"]', Copy(line=1, sources=("a b",), target="c d")),
        (
            "COPY --from=build --chown=1000:1000 --chmod=755 --link /a /b",
            Copy(line=1, sources=("/a",), target="/b", source_stage="build", chown="1000:1000", chmod="755"),
        ),
        ('COPY "a b" /c', Copy(line=1, sources=('"a b"',), target="/c")),
        ("ADD a.tar /b", Copy(line=1, sources=("a.tar",), target="/b", is_add=True)),
        ("ENV A=1 B='x y' C=\"$A\"", Env(line=1, pairs=(("A", "1"), ("B", "'x y'"), ("C", '"$A"')))),
        ("ENV A some value = x", Env(line=1, pairs=(("A", "some value = x"),))),
        ("ENV A=", Env(line=1, pairs=(("A", ""),))),
        ('LABEL "a.b"="c d" e=f', Label(line=1, pairs=(('"a.b"', '"c d"'), ("e", "f")))),
        ("MAINTAINER Some One <x@y>", Label(line=1, pairs=(("maintainer", "'Some One <x@y>'"),))),
        ("ARG A", Arg(line=1, defaults=(("A", None),))),
        ("ARG A=1 B= C", Arg(line=1, defaults=(("A", "1"), ("B", ""), ("C", None)))),
        ("WORKDIR /a b", Setting(line=1, keyword="WORKDIR", value="/a b")),
        ("USER agent:agent", Setting(line=1, keyword="USER", value="agent:agent")),
        ("STOPSIGNAL SIGINT", Setting(line=1, keyword="STOPSIGNAL", value="SIGINT")),
        ("EXPOSE 80 443/tcp", Listing(line=1, keyword="EXPOSE", values=("80", "443/tcp"))),
        ('VOLUME ["/a b"]', Listing(line=1, keyword="VOLUME", values=("/a b",))),
        ("VOLUME /a /b", Listing(line=1, keyword="VOLUME", values=("/a", "/b"))),
        ('CMD ["a"]', Start(line=1, keyword="CMD", command=words("a"))),
        ("ENTRYPOINT a b", Start(line=1, keyword="ENTRYPOINT", command=shell("a b"))),
        ("ENTRYPOINT []", Start(line=1, keyword="ENTRYPOINT", command=words())),
        ('SHELL ["/bin/bash", "-c"]', Start(line=1, keyword="SHELL", command=words("/bin/bash", "-c"))),
        ("HEALTHCHECK --interval=5s CMD x", Start(line=1, keyword="HEALTHCHECK", command=shell("CMD x"))),
    ],
)
def test_an_instruction_is_read(text: str, value: Instruction) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("FORM a", "unknown instruction FORM"),
        ("RUN", "RUN has no argument"),
        ("RUN []", "RUN has no argument"),
        ("ONBUILD RUN a", "ONBUILD is not supported"),
        ("FROM a b", "FROM takes"),
        ("FROM a AS", "FROM takes"),
        ("FROM a AS 1", "cannot be the name"),
        ("RUN --mount=type=secret,id=x a", "RUN --mount=type=secret,id=x is not supported"),
        ("RUN --security=insecure a", "not supported"),
        ("RUN --network=host a", "--network=host is not supported"),
        ("COPY a", "at least one source"),
        ("COPY []", "at least one source"),
        ("COPY a b /c", "ends with /"),
        ("COPY --parents a /b", "not supported"),
        ("COPY --chown=a --chown=b c /d", "given twice"),
        ("ADD --from=x a /b", "not supported"),
        ("ADD https://example.com/a /b", "from the network"),
        ("ADD git@github.com:a/b /b", "from the network"),
        ("ENV A", "takes name=value"),
        ("ENV A=1 B", "B is not name=value"),
        ("ENV =1", "is not name=value"),
        ("ARG 1A", "cannot be the name of an ARG"),
        ("USER a b", "takes one argument"),
        ("SHELL /bin/sh", "takes a JSON list"),
        ("SHELL []", "takes a JSON list"),
        ('CMD ["\\ud800"]', "half a character"),
        ('VOLUME ["/a", "\\udfff"]', "half a character"),
        ('ENTRYPOINT ["a\\u0000b"]', "a zero byte"),
        ('SHELL ["\\u0000"]', "a zero byte"),
        ('RUN ["\\ud800"]', "half a character"),
        ('COPY ["\\ud800", "/x"]', "half a character"),
    ],
)
def test_what_is_wrong_or_not_supported_is_said_with_its_line(text: str, said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        parse(f"# a comment\n{text}")
    assert caught.value.message.startswith("Dockerfile line 2: ")


def test_a_script_is_the_here_document_and_a_command_gets_it() -> None:
    script, command = parse("RUN <<-EOF\n\ta\n\tEOF"), parse("RUN cat <<A - <<'B'\n1\nA\n2\nB")
    assert isinstance(script, Run)
    assert isinstance(command, Run)
    assert (script.is_script, script.shell_text) == (True, "a\n")
    assert (command.is_script, command.shell_text) == (False, "cat <<A - <<'B'\n1\nA\n2\nB")


def test_files_of_a_copy_may_be_in_the_dockerfile() -> None:
    copy = parse("COPY a <<b <<'c' /d/\n$X\nb\n$X\nc")
    assert isinstance(copy, Copy)
    assert copy.sources == ("a",)
    assert [(item.name, item.content) for item in copy.heredocs] == [("b", "$X\n"), ("c", "$X\n")]


VARIABLES = {"X": "1", "D": "/d"}


@pytest.mark.parametrize(
    ("text", "same_as"),
    [
        ("FROM a:$X", "FROM a:1"),
        ('COPY --chown=$X a$X "$D"/', "COPY --chown=1 a1 /d/"),
        ("ENV A=$X 'B C'=\"$D e\"", "ENV A=1"),
        ("ARG A=$X B", "ARG A=1 B"),
        ("WORKDIR $D/e", "WORKDIR /d/e"),
        ("EXPOSE 8$X", "EXPOSE 81"),
        ("RUN echo $X", "RUN echo $X"),
        ("CMD echo $X", "CMD echo $X"),
    ],
)
def test_variables_are_put_in_where_dockerfiles_have_them(text: str, same_as: str) -> None:
    found = expanded(parse(text), VARIABLES)
    if isinstance(found, Env):
        assert found.pairs == (("A", "1"), ("B C", "/d e"))
    else:
        assert found == parse(same_as)


def test_a_quoted_here_document_keeps_its_dollars() -> None:
    copy = expanded(parse("COPY <<b <<'c' /d/\n$X\nb\n$X\nc"), VARIABLES)
    assert isinstance(copy, Copy)
    assert [item.content for item in copy.heredocs] == ["1\n", "$X\n"]


def test_a_variable_that_cannot_be_expanded_is_said_with_its_line() -> None:
    with pytest.raises(UserError, match=r"line 3: NONE: unset"):
        expanded(parse("\n\nENV A=${NONE:?unset}"), VARIABLES)
