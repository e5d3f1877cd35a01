"""Names that appear in directories are heard of, whatever way they come, and nothing else is."""

from __future__ import annotations

import os
import select
from typing import TYPE_CHECKING

import pytest

from paddock.fs.arrivals import Arrivals

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def arrivals() -> Iterator[Arrivals]:
    heard = Arrivals(8)
    yield heard
    heard.close()
    assert heard.fileno() == -1


def is_quiet(arrivals: Arrivals) -> bool:
    return not select.select([arrivals.fileno()], [], [], 0)[0]


def test_a_wanted_name_is_heard_however_it_comes(arrivals: Arrivals, tmp_path: Path) -> None:
    place, wanted = str(tmp_path), {f"{tmp_path}/wanted"}
    assert arrivals.attend(place, {"wanted"})
    assert repr(arrivals) == "<Arrivals in 1 directories>"
    (tmp_path / "other").touch()
    (tmp_path / "unwanted").touch()
    assert arrivals.read() == set()
    (tmp_path / "other").replace(tmp_path / "wanted")
    assert arrivals.read() == wanted
    (tmp_path / "wanted").write_text("changed in place")
    assert is_quiet(arrivals)
    (tmp_path / "wanted").rename(tmp_path / "away")
    os.link(tmp_path / "away", tmp_path / "wanted")
    assert arrivals.read() == wanted
    (tmp_path / "wanted").unlink()
    (tmp_path / "wanted").mkdir()
    assert arrivals.read() == wanted
    assert arrivals.read() == set(), "it does not wait"


def test_a_directory_that_was_replaced_is_heard_again_once_it_is_attended_to(
    arrivals: Arrivals, tmp_path: Path
) -> None:
    place = tmp_path / "place"
    for _ in range(3):
        place.mkdir()
        assert arrivals.attend(str(place), {"name"})
        (place / "name").touch()
        assert arrivals.read() == {f"{place}/name"}
        place.rename(tmp_path / "away")
        (tmp_path / "away/name").unlink()
        (tmp_path / "away").rmdir()
    assert not arrivals.attend(str(place), {"name"})


def test_two_paths_of_one_directory_are_both_told(arrivals: Arrivals, tmp_path: Path) -> None:
    assert arrivals.attend(str(tmp_path), {"a"})
    assert arrivals.attend(f"{tmp_path}/.", {"b"})
    (tmp_path / "a").touch()
    (tmp_path / "b").touch()
    assert arrivals.read() == {f"{tmp_path}/a", f"{tmp_path}/./b"}
    arrivals.forget(str(tmp_path))
    arrivals.forget("/never")
    (tmp_path / "a").replace(tmp_path / "b")
    assert arrivals.read() == {f"{tmp_path}/./b"}


def test_there_are_only_so_many_directories_and_no_link_leads_to_one(arrivals: Arrivals, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(".")
    assert not arrivals.attend(str(tmp_path / "link"), {"a"})
    for number in range(8):
        (tmp_path / str(number)).mkdir()
        assert arrivals.attend(str(tmp_path / str(number)), {"a"})
    assert not arrivals.attend(str(tmp_path), {"a"})
    arrivals.forget(str(tmp_path / "0"))
    assert arrivals.attend(str(tmp_path), {"a"})


def test_that_events_were_lost_is_told(arrivals: Arrivals, tmp_path: Path) -> None:
    assert arrivals.attend(str(tmp_path), {"wanted"})
    with open("/proc/sys/fs/inotify/max_queued_events", encoding="ascii") as file:
        most = int(file.read())
    one, other = tmp_path / "a", tmp_path / "b"
    one.touch()
    for _ in range(most // 2 + 1):
        one.rename(other)
        other.rename(one)
    said = []
    while not is_quiet(arrivals):
        said.append(arrivals.read())
    assert said[-1] is None
    assert not any(said)
