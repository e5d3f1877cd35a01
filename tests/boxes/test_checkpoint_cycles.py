"""Checkpoints against a model: random writes, checkpoints, restores, forks and removals; every tree is as it should be.

PADDOCK_SEED makes it another choice of them.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
from typing import TYPE_CHECKING

import pytest

from paddock.errors import Unavailable
from tests.support import contract
from tests.support.installation import alive, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.client import Paddock
    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.WITH_GVISOR
LONGEST_S = 0.04  # a daemon that is to die while it works has so long
LEAST_CUT_SHORT = 3
CUT_SHORT = {"daemon-lost", "daemon"}
Tree = dict[str, str]
_PLACES = ("/home/agent/m", "/srv/m")

# What a box is told: change its trees as the seed says, and say what they are.
_CHANGE = """
import json, os, random, shutil, stat, sys
dice = random.Random(sys.argv[1])
def change(top):
    path = os.path.join(top, *(f"d{dice.randrange(3)}" for _ in range(dice.randrange(3))))
    where, other = (os.path.join(path, f"f{dice.randrange(4)}") for _ in range(2))
    act = dice.randrange(11)
    if act in (4, 5) and path == top:
        return
    if act < 3:
        os.makedirs(path, exist_ok=True)
        with open(where, "a") as file:
            file.write(str(dice.random()))
    elif act == 3:
        os.unlink(where)
    elif act == 4:
        shutil.rmtree(path)
        os.mkdir(path)
    elif act == 5:
        shutil.rmtree(path)
        with open(path, "w") as file:
            file.write("was a directory")
    elif act == 6:
        os.symlink(f"f{dice.randrange(4)}", where)
    elif act == 7:
        shutil.move(where, other)
    elif act == 8:
        os.link(where, other, follow_symlinks=False)
    elif act == 9:
        os.chmod(dice.choice([path, where]), 0o700 | dice.randrange(0o100))
    else:
        os.setxattr(dice.choice([path, where]), f"user.m{dice.randrange(2)}", str(dice.random()).encode())
for top in sys.argv[2:]:
    os.makedirs(top, exist_ok=True)
    for _ in range(dice.randrange(10) if sys.argv[1] else 0):
        try:
            change(top)
        except OSError:
            pass
        os.makedirs(top, exist_ok=True)
found = {}
for top in sys.argv[2:]:
    for directory, names, files in os.walk(top):
        for name in [*names, *files]:
            path = f"{directory}/{name}"
            status = os.lstat(path)
            if stat.S_ISLNK(status.st_mode):
                found[path] = "-> " + os.readlink(path)
                continue
            marks = sorted((key, os.getxattr(path, key).decode()) for key in os.listxattr(path))
            text = open(path).read() if stat.S_ISREG(status.st_mode) else ""
            found[path] = f"{status.st_mode:o} {status.st_uid}:{status.st_gid} {marks} {text}"
print(json.dumps(found))
"""


class Model:
    """What each box and each checkpoint must hold. With `kills` the daemon may die at any moment of any step: what was
    asked of it then was done or was not, and the next look says which.
    """

    def __init__(self, one: Installation, sdk: Paddock, kills: float = 0.0) -> None:
        self._one = one
        self._sdk = sdk
        self._dice = random.Random(int(os.environ.get("PADDOCK_SEED", "7")))
        self._kills = kills
        self._tops = _PLACES if one.kind else _PLACES[:1]
        self.trees: dict[str, Tree] = {}
        self.kept: dict[tuple[str, str], Tree] = {}
        self._count = 0
        self.cut_short = 0

    def __repr__(self) -> str:
        return f"<Model {len(self.trees)} boxes, {len(self.kept)} checkpoints>"

    def look(self, box: str, seed: str = "") -> Tree:
        done = self._sdk.named(box).exec(["python3", "-c", _CHANGE, seed, *self._tops])
        assert done.ok, done.stderr
        found = json.loads(done.stdout)
        assert isinstance(found, dict)
        return found

    def begin(self) -> None:
        box = self._sdk.create("first", workspace=str(self._one.workspace)).name
        self.trees[box] = self.look(box, "first")

    def step(self) -> None:
        box = self._dice.choice(sorted(self.trees))
        own = sorted(key for key in self.kept if key[0] == box)
        match self._dice.choice(["write", "write", "create", "create", "restore", "fork", "rm", "drop"]):
            case "write":
                self.trees[box] = self.look(box, str(self._dice.random()))
            case "create":
                self._create(box)
            case "restore" if own:
                self._restore(self._dice.choice(own))
            case "fork" if len(self.trees) < 5:
                self._fork(self._dice.choice([*sorted(self.kept), (box, "")]))
            case "rm" if self.kept:
                self._rm(self._dice.choice(sorted(self.kept)))
            case "drop" if len(self.trees) > 1:
                self._drop(box)
            case _:
                pass

    def _create(self, box: str) -> None:
        self._count += 1
        name = f"n{self._count}"
        if self._done(lambda: self._sdk.named(box).checkpoint(name)) or name in self._names(box):
            self.kept[box, name] = self.trees[box]

    def _restore(self, key: tuple[str, str]) -> None:
        box, name = key
        if self._done(lambda: self._sdk.named(box).restore(name)):
            self.trees[box] = self.kept[key]
        elif (found := self.look(box)) != self.trees[box]:
            assert found == self.kept[key]
            self.trees[box] = found

    def _fork(self, key: tuple[str, str]) -> None:
        box, name = key
        self._done(lambda: self._sdk.named(box).fork(checkpoint=name))
        for made in {info.name for info in self._sdk.ls()} - {*self.trees}:
            self.trees[made] = self.kept[key] if name else self.trees[box]
        for made in self.trees:
            assert {name for box, name in self.kept if box == made} == self._names(made)

    def _rm(self, key: tuple[str, str]) -> None:
        done = self._done(lambda: self._sdk.call("checkpoint_rm", checkpoint="@".join(key)))
        if done or key[1] not in self._names(key[0]):
            del self.kept[key]

    def _drop(self, box: str) -> None:
        self._done(lambda: self._sdk.named(box).remove(force=True))
        if box not in {info.name for info in self._sdk.ls()}:
            del self.trees[box]
            self.kept = {key: tree for key, tree in self.kept.items() if key[0] != box}
        self._done(lambda: self._sdk.call("checkpoint_prune"))

    def _names(self, box: str) -> set[str]:
        """What forking made on its way is nobody's, unless the daemon died before it was dropped."""
        found = {info.name for info in self._sdk.named(box).checkpoints()}
        return {name for name in found if not name.startswith("fork.")}

    def _done(self, act: Callable[[], object]) -> bool:
        """Whether there was an answer."""
        if self._dice.random() >= self._kills:
            act()
            return True
        self._sdk.ls()  # which starts one where none is
        pid = self._one.daemon_pid()
        death = threading.Timer(self._dice.random() * LONGEST_S, lambda: os.kill(pid, signal.SIGKILL))
        death.start()
        try:
            act()
        except Unavailable as error:
            if error.code not in CUT_SHORT:
                raise
            self.cut_short += 1
            return False
        else:
            return True
        finally:
            death.join()
            until(lambda: not alive(pid), "the daemon is gone")

    def check(self) -> None:
        for box, tree in self.trees.items():
            assert self.look(box) == tree, box
        for (box, name), tree in self.kept.items():
            self._sdk.named(box).restore(name)
            assert self.look(box) == tree, name


def cycles(one: Installation, count: int, kills: float = 0.0) -> Model:
    with one.sdk() as sdk:
        model = Model(one, sdk, kills)
        model.begin()
        for done in range(5 * count):  # how many are cut short is chance, and a machine's speed
            if done >= count and (not kills or model.cut_short > LEAST_CUT_SHORT):
                break
            model.step()
        model.check()
    return model


def test_no_cycle_loses_or_invents_a_file(own_installation: Installation) -> None:
    cycles(own_installation, 20)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_hundred_cycles_lose_and_invent_nothing(own_installation: Installation) -> None:
    cycles(own_installation, 100)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_daemon_that_is_killed_at_random_moments_loses_nothing(own_installation: Installation) -> None:
    assert cycles(own_installation, 40, kills=0.7).cut_short > LEAST_CUT_SHORT
