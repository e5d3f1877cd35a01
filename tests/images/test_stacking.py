"""Layers as the kernel stacks them: what is hidden is hidden, and what was frozen is what was there.

The overlay is mounted in a user namespace with one id, as for a caller without subordinate ids.
"""

from __future__ import annotations

import os
import random
import shutil
from typing import TYPE_CHECKING

import pytest

from paddock.engines.process import kernel
from paddock.images.layers import LayerId, Layers, new_frozen_id
from paddock.images.ownership import SQUASHED
from tests.images import tars
from tests.support.namespaces import inside, private_mounts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [pytest.mark.box, pytest.mark.container]

BASE = tars.archive(
    tars.file(b"etc/kept", b"base"),
    tars.file(b"etc/gone", b"base"),
    tars.file(b"var/old/file", b"base"),
    tars.file(b"srv/was/file", b"base"),
)
NEXT = tars.archive(
    tars.file(b"etc/.wh.gone"),
    tars.file(b"var/old/.wh..wh..opq"),
    tars.file(b"var/old/new", b"next"),
    tars.file(b"srv/.wh.was"),
    tars.directory(b"srv/was/"),
    tars.file(b"srv/was/now", b"next"),
)


class Stack:
    """A store with a base, and boxes on it: each has an upper of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.layers = Layers(os.fspath(path / "layers"))
        with self.layers.lease() as lease:
            self.base = [self.layers.add(lease, tars.source(data), SQUASHED).id for data in (BASE, NEXT)]

    def box(self, name: str) -> Path:
        for part in ("upper", "work", "merged"):
            (self.path / name / part).mkdir(parents=True, exist_ok=True)
        return self.path / name

    def within(self, chain: list[LayerId], box: Path, act: Callable[[Path], None]) -> None:
        """Do something in a mounted box; the mount ends with it."""
        lower = [self.layers.tree(layer) for layer in reversed(chain)]

        def mounted() -> None:
            private_mounts()
            # Relative names: a page of options holds some 50 layers by absolute ones.
            os.chdir(self.layers.root)
            options = ":".join(os.path.relpath(path, self.layers.root) for path in lower)
            options = f"lowerdir={options},upperdir={box}/upper,workdir={box}/work,userxattr"
            kernel.mount("overlay", f"{box}/merged", "overlay", 0, options)
            os.chdir("/")
            act(box / "merged")

        inside(mounted)

    def freeze(self, box: Path) -> LayerId:
        layer = new_frozen_id()
        with self.layers.lease() as lease:
            self.layers.freeze(lease, os.fspath(box / "upper"), layer, 0)
        return layer


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    return Stack(tmp_path)


def files(root: Path) -> dict[str, bytes]:
    return {os.fspath(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_marks_of_an_archive_hide_what_is_below(stack: Stack) -> None:
    def look(root: Path) -> None:
        assert files(root) == {"etc/kept": b"base", "var/old/new": b"next", "srv/was/now": b"next"}

    def look_without(root: Path) -> None:
        assert (root / "etc/gone").read_bytes() == b"base"

    stack.within(stack.base, stack.box("one"), look)
    stack.within(stack.base[:1], stack.box("two"), look_without)


def test_forks_of_a_checkpoint_are_independent(stack: Stack) -> None:
    one = stack.box("one")

    def write(root: Path) -> None:
        (root / "etc/kept").write_bytes(b"one")
        (root / "var/old/new").unlink()

    stack.within(stack.base, one, write)
    chain = [*stack.base, stack.freeze(one)]
    for name in ("fork-a", "fork-b"):

        def change(root: Path, name: str = name) -> None:
            assert files(root) == {"etc/kept": b"one", "srv/was/now": b"next"}
            (root / "etc/kept").write_text(name)

        stack.within(chain, stack.box(name), change)

    def look(root: Path) -> None:
        assert (root / "etc/kept").read_bytes() == b"one"

    stack.within(chain, stack.box("one"), look)


def _change(root: Path, chance: random.Random) -> None:
    """One of the things that people do to files; the same choices make the same change of equal trees."""
    directories = [root, *sorted(path for path in root.rglob("*") if path.is_dir())]
    found = sorted(path for path in root.rglob("*") if path.is_file())
    where = chance.choice(directories)
    match chance.randrange(6):
        case 0 | 1:
            (where / f"f{chance.randrange(20)}").write_bytes(chance.randbytes(chance.randrange(100)))
        case 2:
            (where / f"d{chance.randrange(5)}").mkdir(exist_ok=True)
        case 3 if found:
            chance.choice(found).unlink()
        case 4 if found:
            with chance.choice(found).open("ab") as file:
                file.write(b"more")
        case 5 if where != root:
            shutil.rmtree(where)
        case _:
            pass


def test_whatever_is_done_between_checkpoints_each_shows_what_was_there(stack: Stack) -> None:
    chance = random.Random(7)
    chain = list(stack.base)
    box = stack.box("box")
    model = stack.path / "model"
    seen: list[tuple[list[LayerId], dict[str, bytes]]] = []

    def begin(root: Path) -> None:
        shutil.copytree(root, model)

    stack.within(chain, box, begin)
    for _ in range(12):
        seed = chance.random()

        def work(root: Path, seed: float = seed) -> None:
            for tree in (root, model):
                again = random.Random(seed)
                for _ in range(15):
                    _change(tree, again)

        stack.within(chain, box, work)
        chain = [*chain, stack.freeze(box)]
        box = stack.box("box")
        seen.append((chain, files(model)))
        if chance.random() < 0.3:
            earlier, wanted = chance.choice(seen)
            chain = list(earlier)
            shutil.rmtree(model)

            def restore(root: Path) -> None:
                shutil.copytree(root, model)

            stack.within(chain, stack.box("restored"), restore)
            assert files(model) == wanted
    for number, (layers, wanted) in enumerate(seen):

        def look(root: Path, wanted: dict[str, bytes] = wanted) -> None:
            assert files(root) == wanted

        stack.within(layers, stack.box(f"look-{number}"), look)
