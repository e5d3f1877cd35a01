"""State that moves out of a home and into the next: whole, once, whoever is killed, whatever an agent made of it."""

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING

import pytest

from paddock.errors import Unavailable
from paddock.runtime import kept
from paddock.runtime.homes import Home
from paddock.runtime.kept import Kept

if TYPE_CHECKING:
    from pathlib import Path

PATHS = (".robot", ".robot.json", ".config/robot")


@pytest.fixture
def store(tmp_path: Path) -> Kept:
    (tmp_path / "trash").mkdir()
    tmp_path.chmod(0o700)
    return Kept(f"{tmp_path}/kept", f"{tmp_path}/trash")


def make_home(tmp_path: Path, said: str = "hello") -> Path:
    home = tmp_path / "box/home"
    (home / ".robot/deep").mkdir(parents=True)
    (home / ".robot/deep/history").write_text(said)
    (home / ".robot.json").write_text("{}")
    (home / ".config/robot").mkdir(parents=True)
    (home / ".config/other").mkdir()
    (home / ".cache").mkdir()
    return home


def keep(store: Kept, home: Path, workspace: str = "/project") -> bool:
    return store.keep("0123", "robot", workspace, Home(os.fspath(home)), PATHS)


def names(place: Path) -> set[str]:
    return {path.relative_to(place).as_posix() for path in place.rglob("*")}


def test_state_comes_back_to_the_next_box_and_nothing_else_does(tmp_path: Path, store: Kept) -> None:
    home = make_home(tmp_path)
    assert keep(store, home)
    assert not home.exists()
    new = tmp_path / "new/home"
    new.parent.mkdir()
    assert store.take("robot", "/elsewhere", str(new)) is None
    assert store.take("other", "/project", str(new)) is None
    about = store.take("robot", "/project", str(new))
    assert about is not None
    assert (about.agent, about.workspace) == ("robot", "/project")
    assert names(new) == {".robot", ".robot/deep", ".robot/deep/history", ".robot.json", ".config", ".config/robot"}
    assert store.take("robot", "/project", str(tmp_path / "third")) is None, "it is in one place"
    assert os.listdir(tmp_path / "kept") == []
    assert len(store.dropped()) == 2
    assert store.dropped() == []


def test_a_box_that_has_files_of_its_own_takes_nothing(tmp_path: Path, store: Kept) -> None:
    keep(store, make_home(tmp_path))
    new = tmp_path / "new"
    new.mkdir()
    (new / "file").touch()
    assert store.take("robot", "/project", str(new)) is None
    (new / "file").unlink()
    assert store.take("robot", "/project", str(new)) is not None, "an empty home is none yet"


def test_the_latest_state_is_kept(tmp_path: Path, store: Kept) -> None:
    keep(store, make_home(tmp_path, "first"))
    keep(store, make_home(tmp_path, "second"))
    new = tmp_path / "new"
    assert store.take("robot", "/project", str(new))
    assert (new / ".robot/deep/history").read_text() == "second"


def test_there_may_be_none(tmp_path: Path, store: Kept) -> None:
    assert not keep(store, tmp_path / "missing")
    home = tmp_path / "home"
    (home / ".cache").mkdir(parents=True)
    assert not keep(store, home)
    assert os.listdir(tmp_path / "kept") == []


def test_links_are_moved_as_links_and_closed_directories_too(tmp_path: Path, store: Kept) -> None:
    outside = tmp_path / "outside"
    (outside / "robot").mkdir(parents=True)
    (outside / "robot/mine").write_text("the host's")
    home = make_home(tmp_path)
    (home / ".robot.json").unlink()
    (home / ".robot.json").symlink_to(outside / "robot/mine")
    for path in (".config/robot", ".config/other"):
        (home / path).rmdir()
    (home / ".config").rmdir()
    (home / ".config").symlink_to(outside)  # on the way to what is state
    (home / ".robot").chmod(0)
    home.chmod(0)
    assert keep(store, home)
    assert (outside / "robot/mine").read_text() == "the host's"
    new = tmp_path / "new"
    assert store.take("robot", "/project", str(new))
    assert os.readlink(new / ".robot.json") == str(outside / "robot/mine")
    assert sorted(os.listdir(new)) == [".robot", ".robot.json"]
    assert (new / ".robot/deep/history").read_text() == "hello"


def test_a_path_in_another_and_one_that_leads_out_are_no_paths(tmp_path: Path, store: Kept) -> None:
    home = make_home(tmp_path)
    (tmp_path / "box/secret").write_text("x")
    assert store.keep("0123", "robot", "/project", Home(str(home)), (".robot/deep", ".robot", "../secret", "", "/etc"))
    assert (tmp_path / "box/secret").exists()
    assert store.take("robot", "/project", str(tmp_path / "new"))
    assert os.listdir(tmp_path / "new") == [".robot"]


def test_of_a_home_on_layers_the_state_is_copied_as_the_box_saw_it(tmp_path: Path, store: Kept) -> None:
    home = make_home(tmp_path)
    frozen = tmp_path / "frozen"
    home.rename(frozen)
    (home / ".robot/deep").mkdir(parents=True)
    (home / ".robot/deep/new").write_text("new")
    os.mknod(home / ".robot.json", stat.S_IFCHR, 0)
    link = frozen / ".robot/link"
    link.symlink_to("/etc")
    assert store.keep("0123", "robot", "/project", Home(str(home), [str(frozen)]), PATHS)
    assert store.take("robot", "/project", str(tmp_path / "new"))
    assert names(tmp_path / "new") == {
        *(".robot", ".robot/deep", ".robot/deep/new", ".robot/deep/history", ".robot/link", ".config", ".config/robot")
    }
    assert (tmp_path / "new/.robot/link").readlink() == link.readlink()
    (tmp_path / "new/.robot/deep/history").write_text("of the next box")
    assert (frozen / ".robot/deep/history").read_text() == "hello", "others may stand on the layer"


@pytest.mark.parametrize("before", [True, False])
def test_whoever_is_killed_leaves_it_in_one_place(tmp_path: Path, before: bool) -> None:
    """Each rename of keeping and of taking is the last thing that a process does, before it or after it."""
    moments = 0
    for action in ("keep", "take"):
        for moment in range(1, 20):
            place = tmp_path / f"{action}{moment}"
            place.mkdir(mode=0o700)
            if not _killed(place, action, moment, before=before):
                assert moment > 2
                break
            moments += 1
            (place / "trash").mkdir(exist_ok=True)
            again = Kept(f"{place}/kept", f"{place}/trash")
            again.settle()
            _in_one_place(place, again)
    assert moments == 9


def _killed(place: Path, action: str, moment: int, *, before: bool) -> bool:
    """Whether it came so far."""
    (place / "trash").mkdir()
    store = Kept(f"{place}/kept", f"{place}/trash")
    home, new = make_home(place), place / "new"
    if action == "take":
        keep(store, home)
    child = os.fork()
    if child == 0:
        _die_at(moment, before=before)
        keep(store, home) if action == "keep" else store.take("robot", "/project", str(new))
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def _die_at(moment: int, *, before: bool) -> None:
    rename, left = os.rename, [moment]

    def counted(*args: object, **kwargs: object) -> None:
        left[0] -= 1
        if left[0] == 0 and before:
            os._exit(9)
        rename(*args, **kwargs)  # type: ignore[arg-type]
        if left[0] == 0:
            os._exit(9)

    os.rename = counted


def _in_one_place(place: Path, store: Kept) -> None:
    homes = [place / "box/home", place / "new"]
    found = [home for home in homes if (home / ".robot/deep/history").is_file()]
    third = place / "third"
    if store.take("robot", "/project", str(third)):
        found.append(third)
    assert len(found) == 1
    assert {".robot", ".robot.json", ".config/robot"} <= names(found[0]), "all of it"


def test_old_ones_go_when_there_are_many(tmp_path: Path, store: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "KEPT_STATES_MAX", 2)
    for number in range(3):
        keep(store, make_home(tmp_path), f"/project{number}")
    assert len(os.listdir(tmp_path / "kept")) == 2
    assert store.take("robot", "/project0", str(tmp_path / "new")) is None
    store.drop_all()
    assert os.listdir(tmp_path / "kept") == []


def test_damage_is_told_and_takes_nothing_with_it(tmp_path: Path, store: Kept) -> None:
    keep(store, make_home(tmp_path))
    [place] = (tmp_path / "kept").iterdir()
    (place / "about.json").write_text(json.dumps({"agent": 1}))
    assert store.take("robot", "/project", str(tmp_path / "new")) is None
    store.settle()
    assert (place / "state/.robot").is_dir()
    home = make_home(tmp_path)
    (tmp_path / "trash").rename(tmp_path / "away")
    with pytest.raises(Unavailable):
        keep(store, home)
