"""Checkpoints against a model: random writes, checkpoints, restores, forks and removals; every tree is as it should be.

PADDOCK_CYCLES=100 makes it as many; the few here are for every day.
"""

from __future__ import annotations

import json
import os
import random
from typing import TYPE_CHECKING

import pytest

from tests.support import roots

if TYPE_CHECKING:
    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = roots.ENGINES
CYCLES = int(os.environ.get("PADDOCK_CYCLES", "12"))
Tree = dict[str, str]
_PLACES = ("/home/agent/m", "/srv/m")

# What a box is told: change its trees as the seed says, and say what they are.
_CHANGE = """
import json, os, random, shutil, sys
dice = random.Random(sys.argv[1])
for top in sys.argv[2:]:
    os.makedirs(top, exist_ok=True)
    for _ in range(dice.randrange(6) if sys.argv[1] else 0):
        path = os.path.join(top, *(f"d{dice.randrange(3)}" for _ in range(dice.randrange(3))))
        where = os.path.join(path, f"f{dice.randrange(4)}")
        match dice.randrange(5):
            case 0 | 1:
                if not os.path.isdir(where):
                    parts = os.path.dirname(where)
                    while not os.path.isdir(parts) and parts != top:
                        if os.path.lexists(parts):
                            os.unlink(parts)
                        parts = os.path.dirname(parts)
                    os.makedirs(os.path.dirname(where), exist_ok=True)
                    with open(where, "a") as file:
                        file.write(str(dice.random()))
            case 2:
                if os.path.isfile(where):
                    os.unlink(where)
            case 3:
                if path != top and os.path.isdir(path):
                    shutil.rmtree(path)
                    os.mkdir(path)
            case 4:
                if path != top and os.path.isdir(path):
                    shutil.rmtree(path)
                    with open(path, "w") as file:
                        file.write("was a directory")
found = {}
for top in sys.argv[2:]:
    for directory, names, files in os.walk(top):
        found.update({f"{directory}/{name}": "" for name in names})
        for name in files:
            with open(f"{directory}/{name}") as file:
                found[f"{directory}/{name}"] = file.read() + "."
print(json.dumps(found))
"""


class Model:
    def __init__(self, one: Installation, seed: int) -> None:
        self._one = one
        self._dice = random.Random(seed)
        self._tops = _PLACES if one.kind else _PLACES[:1]
        self.trees: dict[str, Tree] = {}
        self.kept: dict[str, Tree] = {}
        self._count = 0

    def say(self, *words: str) -> str:
        done = self._one.cli(*words)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout.decode().strip()

    def look(self, box: str, seed: str = "") -> Tree:
        found = json.loads(self.say("exec", box, "python3", "-c", _CHANGE, seed, *self._tops))
        assert isinstance(found, dict)
        return found

    def begin(self) -> None:
        box = self.say("create", *self._one.kind, "shell")
        self.trees[box] = self.look(box, "first")

    def step(self) -> None:
        box = self._dice.choice(sorted(self.trees))
        match self._dice.choice(["write", "write", "create", "create", "restore", "fork", "rm", "drop"]):
            case "write":
                self.trees[box] = self.look(box, str(self._dice.random()))
            case "create":
                self.kept[self.say("checkpoint", "create", box)] = self.trees[box]
            case "restore" if own := [word for word in sorted(self.kept) if word.startswith(f"{box}@")]:
                word = self._dice.choice(own)
                self.say("checkpoint", "restore", word)
                self.trees[box] = self.kept[word]
            case "fork" if self.kept and len(self.trees) < 5:
                word = self._dice.choice([*sorted(self.kept), box])
                made = self.say("checkpoint", "fork", word)
                self.trees[made] = self.kept.get(word) or self.trees[word]
            case "rm" if self.kept:
                word = self._dice.choice(sorted(self.kept))
                self.say("checkpoint", "rm", word)
                del self.kept[word]
            case "drop" if len(self.trees) > 1:
                self.say("rm", "-f", box)
                self.say("checkpoint", "prune")
                del self.trees[box]
                self.kept = {word: tree for word, tree in self.kept.items() if not word.startswith(f"{box}@")}

    def check(self) -> None:
        for box, tree in self.trees.items():
            assert self.look(box) == tree, box
        for word, tree in self.kept.items():
            self.say("checkpoint", "restore", word)
            assert self.look(word.partition("@")[0]) == tree, word


def test_no_cycle_loses_or_invents_a_file(own_installation: Installation) -> None:
    seed = int(os.environ.get("PADDOCK_SEED", "7"))
    model = Model(own_installation, seed)
    model.begin()
    for _ in range(CYCLES):
        model.step()
    model.check()
