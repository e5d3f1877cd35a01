"""What `template build` asks for, and what it prints of what boxes say."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Self

import pytest

from paddock.cli import builds, parser
from paddock.client.buildevents import BuildEvent
from paddock.errors import UserError
from paddock.model.build import BuildInfo, BuildRequest, LockInfo
from tests.support.fakesdk import Opened

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from paddock.model import BoxInfo

MADE = BuildInfo(name="a", tag="b", digest="sha256:1", layers=1, steps=1, lock=LockInfo())


class _Build:
    def __init__(self, *events: BuildEvent) -> None:
        self._events = events
        self.result = MADE

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def events(self) -> Iterator[BuildEvent]:
        yield from self._events


class _Paddock(Opened):
    def __init__(self, build: _Build | None) -> None:
        self.build = build
        self.asked: list[BuildRequest] = []
        self.templates = self

    def start_build(self, request: BuildRequest) -> _Build | None:
        self.asked.append(request)
        return self.build

    def ls(self) -> list[BoxInfo]:
        return []

    def made_ready(self, _name: str) -> _Build | None:
        return self.build


def test_it_asks_and_prints_the_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    paddock = _Paddock(_Build(BuildEvent(kind="step", number=1, line=2, words="RUN x", cached=True)))
    monkeypatch.setattr(builds, "Paddock", paddock)
    monkeypatch.setenv("MINE", "yes")
    monkeypatch.delenv("NOT_MINE", raising=False)
    given = ["--build-arg", "K=V=W", "--build-arg", "MINE", "--build-arg", "NOT_MINE", "--no-cache"]
    lock = tmp_path / "lock"
    words = ["template", "build", "-t", "a:b", *given, "--preset", "debian", "--lock", str(lock), str(tmp_path)]
    action, options = parser.parse(words)
    assert action(options) == 0
    (asked,) = paddock.asked
    assert (asked.directory, asked.arguments) == (os.fspath(tmp_path), {"K": "V=W", "MINE": "yes"})
    assert (asked.uses_cache, asked.network.presets, asked.locked) == (False, ("debian",), None)
    said = capsys.readouterr()
    assert (said.out, said.err) == ("a:b\n", "[1] line 2: RUN x (cached)\n")
    assert lock.exists()


def test_what_commands_of_a_build_write_cannot_speak_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = b"one\rtwo\n\x1b]52;c;YQ==\x07\nunfinished"
    builds.shown(_Build(BuildEvent(kind="output", data=hostile[:9]), BuildEvent(kind="output", data=hostile[9:])))  # type: ignore[arg-type]
    said = capsys.readouterr().err
    assert "\x1b" not in said
    assert said.splitlines()[:2] == ["    one", "    two"]
    assert said.splitlines()[-1] == "    unfinished"


def test_a_template_that_is_ready_is_not_built(capsys: pytest.CaptureFixture[str]) -> None:
    builds.ready(_Paddock(None), "base")  # type: ignore[arg-type]
    assert capsys.readouterr().err == ""
    builds.ready(_Paddock(_Build()), "base")  # type: ignore[arg-type]
    assert "building the template base" in capsys.readouterr().err


def test_an_argument_without_a_name_is_refused() -> None:
    action, options = parser.parse(["template", "build", "-t", "a", "--build-arg", "=x", "."])
    with pytest.raises(UserError, match="no build argument"):
        action(options)
