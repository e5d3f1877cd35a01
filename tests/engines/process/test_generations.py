"""Generations appear whole, are written once, and outlive the boxes that show them."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from paddock.engines.process import generations
from paddock.errors import Unavailable


def digest(number: int) -> str:
    return f"{number:064x}"[::-1]


def fill(text: str) -> generations.Filler:
    return lambda target: generations.write(os.path.join(target, "file"), text.encode())


def names(directory: Path) -> set[str]:
    return {entry.name for entry in directory.iterdir()}


def test_a_generation_is_filled_once(tmp_path: Path) -> None:
    first = generations.publish(str(tmp_path), digest(1), fill("one"))
    again = generations.publish(str(tmp_path), digest(1), fill("never written"))
    assert first == again == generations.path_of(str(tmp_path), digest(1))
    assert Path(first, "file").read_text() == "one"
    assert names(tmp_path) == {os.path.basename(first)}


def test_modes_do_not_depend_on_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        path = Path(generations.publish(str(tmp_path), digest(1), fill("x")))
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o755
    assert (path / "file").stat().st_mode & 0o777 == 0o644


def test_the_directory_itself_is_closed_to_others(tmp_path: Path) -> None:
    generations.publish(str(tmp_path / "new"), digest(1), fill("x"))
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


def test_a_failed_build_leaves_nothing_and_says_what_broke(tmp_path: Path) -> None:
    def fail(target: str) -> None:
        generations.write(os.path.join(target, "half"), b"")
        raise OSError(28, "No space left on device")

    with pytest.raises(Unavailable, match="No space left on device"):
        generations.publish(str(tmp_path), digest(1), fail)
    assert names(tmp_path) == set()


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match=str(tmp_path / "file")):
        generations.publish(str(tmp_path / "file"), digest(1), fill("x"))
    with pytest.raises(Unavailable, match=str(tmp_path / "missing")):
        generations.replace(str(tmp_path / "missing/index"), b"x")


def test_builders_at_the_same_time_agree_on_one_whole_generation(tmp_path: Path) -> None:
    meet = threading.Barrier(4)
    results: list[str] = []

    def slow(target: str) -> None:
        meet.wait()  # all have looked for it and found none
        for number in range(50):
            generations.write(os.path.join(target, str(number)), b"x" * 1000)

    def build() -> None:
        results.append(generations.publish(str(tmp_path), digest(1), slow))

    threads = [threading.Thread(target=build) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert names(tmp_path) == {os.path.basename(results[0])}
    assert sorted(os.listdir(results[0]), key=int) == [str(number) for number in range(50)]


def test_the_newest_stay_and_those_in_use(tmp_path: Path) -> None:
    paths: list[str] = []
    for number in range(generations.KEPT + 4):
        path = generations.publish(str(tmp_path), digest(number), fill(str(number)), keep=paths[:1])
        os.utime(path, (number, number))
        paths.append(path)
    last = generations.publish(str(tmp_path), digest(999), fill("last"), keep=paths[:1])
    kept = [paths[0], *paths[-generations.KEPT + 1 :], last]
    assert names(tmp_path) == {os.path.basename(path) for path in kept}


def test_one_that_is_used_again_is_the_newest_again(tmp_path: Path) -> None:
    first = generations.publish(str(tmp_path), digest(0), fill("0"))
    os.utime(first, (0, 0))
    generations.publish(str(tmp_path), digest(0), fill("0"))
    for number in range(1, generations.KEPT):
        os.utime(generations.publish(str(tmp_path), digest(number), fill("x")), (number, number))
    generations.publish(str(tmp_path), digest(999), fill("x"))
    assert os.path.isdir(first)


def test_generations_of_another_boot_go_at_once(tmp_path: Path) -> None:
    other = tmp_path / ("00000000-" + "a" * 24)
    other.mkdir()
    path = generations.publish(str(tmp_path), digest(1), fill("x"))
    assert names(tmp_path) == {os.path.basename(path)}


def test_an_abandoned_build_goes_and_a_running_one_stays(tmp_path: Path) -> None:
    for name in (".new-dead", ".new-alive"):
        (tmp_path / name).mkdir()
    (tmp_path / ".new-index").write_text("")
    (tmp_path / "kept.index").write_text("")
    for name in (".new-dead", ".new-index", "kept.index"):
        os.utime(tmp_path / name, (0, 0))
    path = generations.publish(str(tmp_path), digest(1), fill("x"))
    assert names(tmp_path) == {os.path.basename(path), ".new-alive", "kept.index"}


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    generations.replace(str(tmp_path / "index"), b"one")
    generations.replace(str(tmp_path / "index"), b"two")
    assert (tmp_path / "index").read_bytes() == b"two"
    assert names(tmp_path) == {"index"}


def test_a_written_file_never_follows_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        generations.write(str(tmp_path / "link"), b"x")
    assert not (tmp_path / "elsewhere").exists()
