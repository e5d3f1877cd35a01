"""Mounts, limits and engines, as words become values."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock import paths
from paddock.cli import options, parser
from paddock.errors import UserError
from paddock.model import BoxRequest, EngineName, Limits, Mount

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def mount(source: str, target: str, *, read_only: bool = False) -> Mount:
    return Mount(source=source, target=target, read_only=read_only)


def test_host_paths_are_the_callers(tmp_path: Path) -> None:
    words = ["data:/mnt/data", "~/x:/mnt/x:ro", "/srv:/srv:rw"]
    assert options.volumes(words) == (
        mount(str(tmp_path / "data"), "/mnt/data"),
        mount(str(tmp_path / "home/x"), "/mnt/x", read_only=True),
        mount("/srv", "/srv"),
    )


def test_extras_land_at_their_own_paths(tmp_path: Path) -> None:
    assert options.extras(["a", "~/b:ro"]) == (
        mount(str(tmp_path / "a"), ""),
        mount(str(tmp_path / "home/b"), "", read_only=True),
    )


@pytest.mark.parametrize("word", ["", "x", ":", "a:", ":b", "a:b:", "a:b:rx", "a:b:ro:c", "a:b:c:d"])
def test_what_is_no_mount_is_named(word: str) -> None:
    with pytest.raises(UserError, match="is not a mount") as caught:
        options.volumes([word])
    assert repr(word) in caught.value.message


def test_an_engine_of_another_version_is_not_chosen() -> None:
    assert options.engine("process") is EngineName.PROCESS
    with pytest.raises(UserError, match="'microvm'") as caught:
        options.engine("microvm")
    assert caught.value.hint == "available: process, container"


def test_all_words_become_one_request(tmp_path: Path) -> None:
    words = "run --name n -e A=1 -v .:/mnt:ro --cpus 1.5 -m 1g --pids 9 --disk 2g --timeout 1m -w sub shell ws a:ro"
    _, given = parser.parse(words.split())
    assert options.request(given, agent="shell", ephemeral=False) == BoxRequest(
        agent="shell",
        name="n",
        workspace=str(tmp_path / "ws"),
        mounts=(mount(str(tmp_path / "a"), "", read_only=True), mount(str(tmp_path), "/mnt", read_only=True)),
        env={"A": "1"},
        limits=Limits(memory_bytes=1 << 30, cpus=1.5, pids=9, disk_bytes=2 << 30, wall_s=60.0),
        workdir="sub",
        caller_path=os.environ.get("PATH", ""),
        caller_home=paths.home_directory(),
    )


def test_without_options_a_request_is_the_current_directory_and_defaults(tmp_path: Path) -> None:
    _, given = parser.parse(["run", "--", "true"])
    request = options.request(given, agent="shell", ephemeral=True)
    assert (request.workspace, request.limits, request.mounts, request.env) == (str(tmp_path), Limits(), (), {})
    assert request.ephemeral
