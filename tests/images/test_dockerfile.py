"""A Dockerfile is parsed whole before anything runs, and an error names its line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import UserError
from paddock.images.dockerfile import read
from paddock.images.instructions import Arg, Copy, Env, Label, Listing, Run, Setting, Start
from tests.support.properties import bounded

AGENT = b"""# syntax=docker/dockerfile:1
# A template as people write it.
ARG VERSION=12
FROM debian:${VERSION}-slim AS base

LABEL org.opencontainers.image.title="my team" \\
      org.opencontainers.image.vendor='us'
ENV DEBIAN_FRONTEND=noninteractive PATH=/opt/bin:$PATH
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
USER root
RUN apt-get update \\
    # what the team needs
    && apt-get install -y --no-install-recommends git curl \\

    && rm -rf /var/lib/apt/lists/*
RUN npm install -g some-tool && \\
    curl -fsSL https://example.com/x | sh
RUN <<EOF
#!/usr/bin/env python3
print("here")
EOF
COPY --chown=agent:agent . /home/agent/src
COPY <<-'CONF' /etc/app.conf
	key=$value
	CONF
WORKDIR /home/agent
USER agent
EXPOSE 8080/tcp
VOLUME /data
ENTRYPOINT ["/bin/bash", "-l"]
CMD []

FROM base AS tools
RUN true

FROM scratch
COPY --from=tools /bin/true /
COPY --from=0 /etc/passwd /etc/
"""


def test_a_usual_dockerfile_is_read_whole() -> None:
    found = read(AGENT)
    assert [arg.defaults for arg in found.arguments] == [(("VERSION", "12"),)]
    assert [(stage.index, stage.name, stage.base.image) for stage in found.stages] == [
        (0, "base", "debian:${VERSION}-slim"),
        (1, "tools", "base"),
        (2, "", "scratch"),
    ]
    kinds = [type(item) for item in found.stages[0].instructions]
    assert kinds == [
        Label,
        Env,
        Start,
        Setting,
        Run,
        Run,
        Run,
        Copy,
        Copy,
        Setting,
        Setting,
        Listing,
        Listing,
        Start,
        Start,
    ]
    lines = [item.line for item in found.stages[0].instructions]
    assert lines == [6, 8, 9, 10, 11, 16, 18, 22, 23, 26, 27, 28, 29, 30, 31]
    apt = found.stages[0].instructions[4]
    assert isinstance(apt, Run)
    words = apt.command.words[0].split()
    assert (words[:4], words[-4:]) == (
        ["apt-get", "update", "&&", "apt-get"],
        ["&&", "rm", "-rf", "/var/lib/apt/lists/*"],
    )
    assert "#" not in words


def test_a_target_needs_the_stages_it_is_made_of() -> None:
    found = read(AGENT + b"FROM base AS other\nFROM other\n")
    assert [stage.index for stage in found.needed(found.stage("tools"))] == [0, 1]
    assert [stage.index for stage in found.needed(found.stages[2])] == [0, 1, 2]
    assert [stage.index for stage in found.needed(found.stages[-1])] == [0, 3, 4]
    assert found.stage("OTHER").index == 3
    assert found.stage("2").index == 2


@pytest.mark.parametrize("name", ["missing", "", "9"])
def test_a_stage_that_is_not_there_is_named(name: str) -> None:
    with pytest.raises(UserError, match="no stage"):
        read(AGENT).stage(name)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no FROM"),
        ("ARG A", "no FROM"),
        ("RUN a\nFROM b", "line 1: only ARG"),
        ("FROM a AS x\nFROM b AS X", "line 2: there is a stage x already"),
        ("# syntax=example.com/other:1\nFROM a", "line 1: the syntax example.com/other:1"),
        ("# syntax=docker/dockerfile:1-labs\nFROM a", "not supported"),
        ("FROM a\n\nRUN x \\\n y\nCOPY z", "line 5: COPY takes"),
    ],
)
def test_what_is_wrong_is_said(text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        read(text.encode())


@pytest.mark.parametrize(
    "syntax", ["docker/dockerfile:1", "docker/dockerfile:1.4", "docker.io/docker/dockerfile:1.7.0"]
)
def test_the_usual_language_may_be_named(syntax: str) -> None:
    assert read(f"# syntax={syntax}\nFROM a".encode()).stages[0].base.image == "a"


def test_an_argument_before_the_first_stage_is_for_those_lines_alone() -> None:
    found = read(b"ARG A=1\nFROM x:$A\nARG A\n")
    assert found.arguments == (Arg(line=1, defaults=(("A", "1"),)),)
    assert found.stages[0].instructions == (Arg(line=3, defaults=(("A", None),)),)


@bounded
@given(
    st.lists(
        st.sampled_from(
            [
                "FROM a",
                "RUN x",
                "RUN <<E",
                "E",
                "COPY a b",
                "ENV A=$B",
                " \\",
                "\\",
                "# c",
                "",
                '["a"]',
                "--from=",
                "<<-'E' x",
            ]
        ),
        max_size=12,
    ),
    st.sampled_from(["\n", " ", "\\\n", "\r\n"]),
)
def test_any_file_is_read_or_refused_with_a_reason(pieces: list[str], between: str) -> None:
    try:
        read(between.join(pieces).encode())
    except UserError as error:
        assert error.code == "dockerfile"  # noqa: PT017  # most are refused, some are not
