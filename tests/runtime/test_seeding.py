"""Seeds fill a home that the box wrote to: what is there stands, and nothing leads out of it."""

from __future__ import annotations

import json
import os
import tomllib
from typing import TYPE_CHECKING

import pytest

from paddock.agents.definition import Seed
from paddock.runtime import seeding
from paddock.runtime.homes import Home

if TYPE_CHECKING:
    from pathlib import Path

JSON = Seed(path=".a/b.json", json='{"seen": true, "keys": {"{tail20:KEY}": 1}, "in": {"{workspace}": {"trust": 1}}}')


def fill(home: Path, *seeds: Seed, workspace: str = "/w") -> None:
    for one in seeds:
        seeding.seed(Home(str(home)), one, workspace, {"KEY": "0123456789" * 3 + '"'})


def test_a_seed_makes_its_file_with_values_that_cannot_leave_their_string(tmp_path: Path) -> None:
    fill(tmp_path, JSON, Seed(path="note", text='hello = "{workspace}"'), workspace='/a "b\\ \U0001f40f')
    assert json.loads((tmp_path / ".a/b.json").read_text()) == {
        "seen": True,
        "keys": {'1234567890123456789"': 1},
        "in": {'/a "b\\ \U0001f40f': {"trust": 1}},
    }
    assert tomllib.loads((tmp_path / "note").read_text()) == {"hello": '/a "b\\ \U0001f40f'}
    assert (tmp_path / "note").stat().st_mode & 0o777 == 0o600


def test_what_was_said_otherwise_stands_and_the_rest_is_added(tmp_path: Path) -> None:
    (tmp_path / ".a").mkdir()
    (tmp_path / ".a/b.json").write_text('{"seen": false, "mine": [1], "in": {"/v": 0}}')
    (tmp_path / "note").write_text("mine")
    fill(tmp_path, JSON, Seed(path="note", text="hello"))
    found = json.loads((tmp_path / ".a/b.json").read_text())
    assert (found["seen"], found["mine"], found["in"]) == (False, [1], {"/v": 0, "/w": {"trust": 1}})
    assert (tmp_path / "note").read_text() == "mine"
    before = (tmp_path / ".a/b.json").stat()
    fill(tmp_path, JSON)
    assert (tmp_path / ".a/b.json").stat() == before, "written only when something is missing"


@pytest.mark.parametrize("content", [b"{broken", b"[" * 100_000, b"\xff\xfe", b" " * (5 << 20)])
def test_what_cannot_be_read_is_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".a").mkdir()
    (tmp_path / ".a/b.json").write_bytes(content)
    fill(tmp_path, JSON, Seed(path="note", text="hello"))
    assert (tmp_path / ".a/b.json").read_bytes() == content
    assert (tmp_path / "note").exists(), "and the others are seeded"


def test_a_deep_file_of_a_box_does_not_grow(tmp_path: Path) -> None:
    """With indentation a file of 4 MB became 4 GB in the memory of the daemon, at every start."""
    deep = '{"mine": ' + "[" * 300 + "0," * 20_000 + "0" + "]" * 300 + "}"
    (tmp_path / ".a").mkdir()
    (tmp_path / ".a/b.json").write_text(deep)
    fill(tmp_path, JSON)
    after = (tmp_path / ".a/b.json").read_text()
    assert json.loads(after)["seen"] is True, "the oracle: it was read, and written anew"
    assert len(after) < 3 * len(deep)


def test_a_list_gets_what_is_not_in_it() -> None:
    assert seeding.merged_with({"a": [1, 2]}, {"a": [2, 3]}) == {"a": [1, 2, 3]}
    assert seeding.merged_with({"a": "x"}, {"a": {"b": 1}}) == {"a": "x"}


def test_no_link_or_pipe_of_the_box_is_followed(tmp_path: Path) -> None:
    home, outside = tmp_path / "home", tmp_path / "outside"
    for place in (home, outside):
        place.mkdir()
    (outside / "b.json").write_text("{}")
    (home / ".a").symlink_to(outside)
    fill(home, JSON)
    assert (outside / "b.json").read_text() == "{}"
    (home / ".a").unlink()
    fill(home, JSON)
    assert (home / ".a/b.json").exists(), "the oracle: without the link it is written"
    for make in (
        lambda path: os.symlink(outside / "b.json", path),
        os.mkfifo,
        os.mkdir,
    ):
        (home / ".a/b.json").unlink(missing_ok=True)
        make(home / ".a/b.json")
        fill(home, JSON, Seed(path="linked", text="x"))
        assert (outside / "b.json").read_text() == "{}"
        assert not (home / ".a/b.json").is_file() or (home / ".a/b.json").is_symlink()
    (home / "linked").unlink()
    (home / "linked").symlink_to(outside / "fresh")
    fill(home, Seed(path="linked", text="x"))
    assert not (outside / "fresh").exists()
