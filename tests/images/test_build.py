"""A Dockerfile carried out, by a ground that remembers what it was asked for."""

from __future__ import annotations

import tracemalloc

import pytest

from paddock.errors import UserError
from paddock.images import build as builds
from paddock.images import dockerfile
from paddock.images.build import Built, CopyStep, DirectoryStep, RunStep, Step
from paddock.images.documents import ImageConfig
from paddock.images.layers import LayerId
from paddock.images.oci import own_architecture


class Ground:
    """One base image, a build directory with a sum, and a cache in memory."""

    def __init__(self) -> None:
        self.made: list[Step] = []
        self.said: list[tuple[int, bool]] = []
        self.sum = "content"
        self._cache: dict[str, LayerId] = {}

    def image(self, name: str, line: int) -> Built:
        if not name.startswith("base"):
            raise UserError(f"line {line}: no image {name}")
        config = ImageConfig(architecture=own_architecture(), diff_ids=(), env=("PATH=/bin",), cmd=("base",))
        return Built(chain=(LayerId(f"of {name}"),), config=config, key=name)

    def content(self, step: CopyStep) -> str:
        return self.sum if step.source is None else ""

    def cached(self, key: str) -> LayerId | None:
        return self._cache.get(key)

    def make(self, below: Built, step: Step, key: str) -> LayerId:
        assert below.key != key
        self.made.append(step)
        return self._cache.setdefault(key, LayerId(f"layer {len(self._cache)}"))

    def told(self, line: int, words: str, *, cached: bool) -> None:
        assert words
        self.said.append((line, cached))

    def done(self, line: int, key: str) -> None:
        assert line
        assert key in self._cache


def _build(text: str, ground: Ground | None = None, target: str = "", **arguments: str) -> tuple[Built, Ground]:
    used = ground or Ground()
    return builds.build(dockerfile.read(text.encode()), used, target, arguments), used


def test_the_usual_pattern_becomes_steps_and_a_configuration() -> None:
    found, ground = _build(
        'FROM base\nUSER root\nENV A=1 B="two words"\nRUN apt-get install -y x\nWORKDIR /srv\nWORKDIR app\n'
        'COPY . .\nUSER agent\nRUN ["id", "-u"]\nLABEL k=v\nEXPOSE 80\nENTRYPOINT ["/start"]\nCMD echo $A\n'
    )
    first, workdir, below, copy, second = ground.made
    env = (("A", "1"), ("B", "two words"), ("PATH", "/bin"))
    assert isinstance(first, RunStep)
    assert (first.argv, first.env, first.workdir) == (("/bin/sh", "-c", "apt-get install -y x"), env, "/")
    assert (first.user, first.line) == ("root", 4)
    assert workdir == DirectoryStep(line=5, path="/srv", user="root")
    assert below == DirectoryStep(line=6, path="/srv/app", user="root")
    assert isinstance(copy, CopyStep)
    assert (copy.target, copy.source) == ("/srv/app/", None)
    assert isinstance(second, RunStep)
    assert (second.argv, second.user, second.workdir) == (("id", "-u"), "agent", "/srv/app")
    config = found.config
    assert (config.user, config.working_dir, config.labels, config.exposed) == (
        "agent",
        "/srv/app",
        {"k": "v"},
        ("80",),
    )
    assert (config.entrypoint, config.cmd) == (("/start",), ("/bin/sh", "-c", "echo $A"))
    assert len(found.chain) == 6


def test_steps_are_counted_before_any_is_made() -> None:
    text = "FROM base AS a\nRUN x\nFROM base AS unused\nRUN y\nFROM a\nUSER u\nWORKDIR /w\nCOPY b /c\nCMD d\n"
    parsed = dockerfile.read(text.encode())
    for target, count in (("", 3), ("unused", 1), ("a", 1)):
        _, ground = _build(text, target=target)
        assert builds.count_steps(parsed, target) == len(ground.said) == count


def test_a_digest_is_that_of_the_steps_and_of_the_configuration() -> None:
    text = "FROM base\nRUN x\n"
    found = {_build(f"{text}{more}")[0].digest for more in ("", "# only a comment\n")}
    assert len(found) == 1
    for more in ("ENV A=1\n", "USER u\n", 'ENTRYPOINT ["x"]\n', "CMD y\n", "LABEL a=b\n", "RUN y\n"):
        found.add(_build(f"{text}{more}")[0].digest)
    assert len(found) == 7


def test_what_is_the_same_is_made_once_and_what_follows_a_change_again() -> None:
    text = "FROM base\nRUN one\nCOPY a /a\nRUN two\n"
    first, ground = _build(text)
    again, _ = _build(f"# a line more\n{text}", ground)
    assert (again.chain, len(ground.made)) == (first.chain, 3)
    ground.sum = "other content"
    changed, _ = _build(text, ground)
    assert len(ground.made) == 5
    assert changed.chain[:2] == first.chain[:2]
    assert not {*changed.chain[2:]} & {*first.chain[2:]}
    for other in ("FROM base:2\nRUN one\n", "FROM base\nENV X=1\nRUN one\n", "FROM base\nUSER u\nRUN one\n"):
        before = len(ground.made)
        _build(other, ground)
        assert len(ground.made) == before + 1, other


def test_stages_build_on_and_copy_from_each_other_and_what_is_not_needed_is_not_built() -> None:
    text = (
        "FROM base AS one\nRUN first\nFROM base AS unused\nRUN never\n"
        "FROM one AS two\nRUN second\nFROM scratch\nCOPY --from=two /x /y\nCOPY --from=base:3 /p /q\n"
    )
    found, ground = _build(text)
    runs = [step.argv[-1] for step in ground.made if isinstance(step, RunStep)]
    assert runs == ["first", "second"]
    copies = [step for step in ground.made if isinstance(step, CopyStep)]
    assert [len(step.source.chain) for step in copies if step.source] == [3, 1]
    assert len(found.chain) == 2
    assert len(_build(text, target="one")[0].chain) == 2


def test_arguments_come_from_the_caller_then_the_file_and_variables_come_before_them() -> None:
    text = "ARG TAG=1\nFROM base:$TAG\nARG TAG\nARG NAME=file\nENV NAME2=$NAME\nRUN x\nARG TARGETARCH\nRUN y\n"
    found, ground = _build(text, NAME="caller")
    assert found.chain[0] == "of base:1"
    first, second = ground.made
    assert isinstance(first, RunStep)
    assert isinstance(second, RunStep)
    assert dict(first.env) == {"NAME": "caller", "NAME2": "caller", "PATH": "/bin", "TAG": "1"}
    assert dict(second.env)["TARGETARCH"] == own_architecture()
    assert _build(text, TAG="2")[0].chain[0] == "of base:2"
    with pytest.raises(UserError, match="no ARG 'OTHER'"):
        _build(text, OTHER="x")


def test_an_entrypoint_forgets_the_command_of_the_image_below_and_shells_are_heeded() -> None:
    assert _build("FROM base\nENV X=1\n")[0].config.cmd == ("base",)
    assert _build('FROM base\nENTRYPOINT ["/e"]\n')[0].config.cmd == ()
    assert _build('FROM base\nCMD ["own"]\nENTRYPOINT ["/e"]\n')[0].config.cmd == ("own",)
    _, ground = _build('FROM base\nSHELL ["/bin/bash", "-ec"]\nRUN --network=none <<EOF\none\ntwo\nEOF\n')
    (step,) = ground.made
    assert isinstance(step, RunStep)
    assert (step.argv[:2], step.argv[2].split(), step.has_network) == (("/bin/bash", "-ec"), ["one", "two"], False)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("FROM scratch\nRUN x\n", 2),
        ("FROM base AS a\nCOPY --from=a x /y\n", 2),
        ("FROM base\n\nCOPY --chmod=u+x a /b\n", 3),
        ("FROM --platform=linux/s390x base\n", 1),
        ("ARG X\nFROM $X\n", 2),
        ("FROM elsewhere\n", 1),
        ("FROM base\nRUN <<EOF\n#!/usr/bin/env python3\nEOF\n", 2),
    ],
)
def test_what_cannot_be_done_is_refused_with_its_line(text: str, line: int) -> None:
    with pytest.raises(UserError, match=f"line {line}"):
        _build(text)


LONG = f"FROM base\nENV a={'x' * 100_000}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LONG + "ENV b=" + "$a" * 300_000, "a value grows too long"),
        (LONG + "ENV " + " ".join(f"b{number}=x$a" for number in range(1900)), "its values grow too long"),
        (LONG + "".join(f"ENV b{number}=x$a\n" for number in range(1900)), "take more than"),
        (LONG + "COPY " + "$a " * 1900 + "/t/", "its values grow too long"),
        (LONG + "COPY " + "<<A " * 1900 + "/t/\n" + "$a\nA\n" * 1900, "its values grow too long"),
        (LONG + "COPY <<A /t\n" + "$a" * 300_000 + "\nA\n", "a value grows too long"),
        ("FROM base\nENV a=" + "${b:-" * 100_000, "nested too deep"),
        ("FROM base\nEXPOSE " + " ".join(map(str, range(100_000))), "more than 2000"),
        ("FROM base\nCOPY " + "a " * 2001 + "/t/", "at most 2000"),
    ],
)
def test_a_small_file_makes_no_large_values(text: str, said: str) -> None:
    """Each of these would be gigabytes."""
    tracemalloc.start()
    try:
        with pytest.raises(UserError, match=said):
            _build(text)
        assert tracemalloc.get_traced_memory()[1] < 200 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("value", ["a\0b", "\udcff"])
def test_an_argument_is_text(value: str) -> None:
    with pytest.raises(UserError, match="'A' is no text"):
        _build("FROM base\nARG A\nENV B=$A\n", A=value)


def test_an_image_is_run_by_no_more_than_goes_into_a_message() -> None:
    line = f"CMD {'x' * 300_000}\n"
    with pytest.raises(UserError, match="take more than"):
        _build(f"FROM base\n{line}")
    assert _build(f"FROM base\n{line}CMD y\n")[0].config.cmd[-1] == "y"
