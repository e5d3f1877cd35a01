"""A home is read as its box sees it and written above its layers alone, whatever an agent made of either."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from paddock.agents.definition import Seed
from paddock.images.layers import Layers, new_frozen_id
from paddock.model import BoxSpec
from paddock.runtime import homes, seeding
from paddock.runtime.homes import Home
from tests.support.trees import tree_of

if TYPE_CHECKING:
    from pathlib import Path

SEED = Seed(path=".a/b.json", json='{"seen": true}')


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """What was frozen has a file of its own, which the box still sees."""
    below, upper = tmp_path / "below", tmp_path / "upper"
    for place in (below / ".a/deep", upper):
        place.mkdir(parents=True)
    (below / ".a").chmod(0o750)
    (below / ".a/b.json").write_text('{"mine": 1}')
    return Home(str(upper), [str(below)])


def seed(home: Home) -> None:
    seeding.seed(home, SEED, "/w", {})


def test_a_file_of_a_layer_is_rewritten_above_it(home: Home) -> None:
    before = tree_of(home.below[0])
    seed(home)
    assert home.read(".a/b.json", 100) == b'{"mine": 1, "seen": true}'
    assert tree_of(home.below[0]) == before
    made = os.stat(f"{home.upper}/.a")
    assert stat.S_IMODE(made.st_mode) == 0o750, "as the box had it"
    assert os.listxattr(f"{home.upper}/.a") == [], "the rest of the directory is still seen"
    assert not home.has("none")


def test_what_the_box_removed_stays_removed(home: Home) -> None:
    os.mknod(f"{home.upper}/.a", stat.S_IFCHR, 0)
    seed(home)
    assert home.read(".a/b.json", 100) == b'{"seen": true}'
    assert not home.has(".a/deep"), "it came back with its directory"
    assert os.listdir(home.upper) == [".a"]


@pytest.mark.parametrize("place", ["upper", "below"])
@pytest.mark.parametrize("path", [".a", ".a/b.json"])
def test_a_link_leads_nowhere(home: Home, tmp_path: Path, place: str, path: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "b.json").write_text("{}")
    top = home.upper if place == "upper" else home.below[0]
    os.makedirs(os.path.dirname(f"{top}/{path}"), exist_ok=True)
    if place == "below":
        os.rename(f"{top}/{path}", f"{top}/aside")
    os.symlink(outside if path == ".a" else outside / "b.json", f"{top}/{path}")
    seed(home)
    assert (outside / "b.json").read_text() == "{}"
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        home.read(".a/b.json", 100)


def test_a_large_file_is_not_read(home: Home) -> None:
    with pytest.raises(OSError, match="too large"):
        home.read(".a/b.json", 3)


def test_a_directory_of_another_user_of_the_box_is_left_to_them(home: Home) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can make one")
    os.chown(f"{home.below[0]}/.a", 1234, 1234)
    seed(home)
    assert os.listdir(home.upper) == []


def test_a_box_without_checkpoints_has_one_directory(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir(mode=0o700)
    layers = Layers(str(tmp_path / "store/layers"))
    spec = BoxSpec(name="b", agent="shell", workspace="/w")
    assert homes.of("/b", spec, layers.root).below == ()
    (tmp_path / "home").mkdir()
    layer = new_frozen_id()
    with layers.lease() as lease:
        layers.freeze(lease, str(tmp_path / "home"), layer, 0)
    on_one = homes.of("/b", replace(spec, home_layers=(layer,)), layers.root)
    assert (on_one.upper, on_one.below) == ("/b/home", (layers.tree(layer),))
    assert repr(on_one) == "<Home /b/home above 1 layers>"


def test_a_directory_in_the_place_of_a_file_costs_no_descriptor(home: Home) -> None:
    """It is read at each start of the box, by a daemon that lives long."""
    os.makedirs(f"{home.upper}/.a/b.json")
    before = os.listdir("/proc/self/fd")
    for _ in range(3):
        with pytest.raises(IsADirectoryError):
            home.read(".a/b.json", 100)
        seed(home)
    assert os.listdir("/proc/self/fd") == before
