"""Checkpoints are crash-safe: killed at any step, a box is what it was or what it was to be, and nothing is lost.

The boxes are never started: what they would have written is written here, in the form in which an overlay leaves it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from paddock import fs, paths
from paddock.engines.container.removal import remove_tree
from paddock.errors import UserError
from paddock.images.layers import Layers, new_frozen_id
from paddock.images.stacks import Stack
from paddock.model import BoxRequest, BoxState, EngineName, WorkspaceMode
from paddock.runtime import checkpoints, recovery
from paddock.store import CheckpointRow, Store, now
from tests.support.serving import running

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from paddock.runtime import Runtime
    from paddock.runtime.box import Box

    Act = Callable[[Runtime, Box], Awaitable[object]]

_FILE_STEPS = frozenset({"os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.chmod", "os.truncate", "os.symlink"})
View = dict[str, str]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """An installation with a container on a directory of the user's; its root and home have something in them."""
    (tmp_path / "root/etc").mkdir(parents=True)
    (tmp_path / "root/etc/below").write_text("below")
    (tmp_path / "workspace").mkdir()
    place = tmp_path / "home"
    _within(place, _first)
    yield place
    remove_tree(str(place))


async def _first(runtime: Runtime) -> None:
    request = BoxRequest(
        name="mine",
        workspace=f"{os.path.dirname(os.path.dirname(runtime.paths.state))}/workspace",
        engine=EngineName.CONTAINER,
        template=f"{os.path.dirname(os.path.dirname(runtime.paths.state))}/root",
    )
    box = await runtime.create(request)
    write(box, "one")
    box.row = runtime._store.set_state(box.row, BoxState.STOPPED)


def write(box: Box, word: str) -> None:
    """What a run of the box would leave: a file, a changed one, and one of below that is gone or back."""
    upper = f"{box.directory}/root/upper"
    for path in (f"{upper}/etc", f"{box.directory}/home/sub", f"{box.directory}/root/work"):
        os.makedirs(path, exist_ok=True)
    for path in (f"{upper}/etc/{word}", f"{upper}/etc/same", f"{box.directory}/home/sub/file"):
        with open(path, "w", encoding="ascii") as file:
            file.write(word)
    below = f"{upper}/etc/below"
    if os.path.lexists(below):
        os.unlink(below)
    if word == "one":
        os.mknod(below, stat.S_IFCHR, 0)
    else:
        with open(below, "w", encoding="ascii") as file:
            file.write(word)


def view(runtime: Runtime, box: Box) -> View:
    """All files that the box has."""
    layers = Layers(runtime.paths.layers)
    chain = [each if each.startswith("/") else layers.tree(each) for each in box.row.spec.layers]  # type: ignore[arg-type]
    upper = f"{box.directory}/root/upper"
    trees = [*chain, *([upper] if os.path.isdir(upper) else [])]
    return {**_seen("", Stack(trees)), **_seen("home:", Stack([f"{box.directory}/home"]))}


def _seen(prefix: str, stack: Stack) -> View:
    found: View = {}
    waiting = [""]
    while waiting:
        path = waiting.pop()
        for name in {name for place in stack.places(path) for name in os.listdir(place)}:
            inner = f"{path}/{name}" if path else name
            if (known := stack.find(inner)) is None:
                continue
            if stat.S_ISDIR(known[1].st_mode):
                waiting.append(inner)
            else:
                with open(known[0], encoding="ascii") as file:
                    found[prefix + inner] = file.read()
    return found


def _within(place: Path, act: Callable[[Runtime], Awaitable[None]]) -> None:
    asyncio.run(_recovered(place, act))


async def _recovered(place: Path, act: Callable[[Runtime], Awaitable[None]]) -> None:
    """A daemon that finds what an earlier one left, and leaves it to the next."""
    async with running(place) as runtime:
        runtime.engines = dict.fromkeys(EngineName, runtime.engines[EngineName.PROCESS])
        runtime.reset = _nothing  # type: ignore[method-assign,assignment]
        await recovery.recover(runtime, runtime._store)
        await act(runtime)


async def _nothing() -> list[object]:
    return []


def _killed_at(place: Path, step: int, act: Act) -> bool:
    """Do it in a process that is killed at one of its steps; whether it was."""
    pid = os.fork()
    if pid == 0:
        try:
            _within(place, lambda runtime: _counted(runtime, step, act))
        except BaseException:  # noqa: BLE001
            os._exit(70)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 0
        return False
    assert os.WTERMSIG(status) == signal.SIGKILL
    return True


async def _counted(runtime: Runtime, step: int, act: Act) -> None:
    left = step

    def count(*_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(lambda event, _args: count() if event in _FILE_STEPS else None)
    runtime._store._db.set_trace_callback(count)
    await act(runtime, runtime.find("mine"))
    runtime._store._db.set_trace_callback(None)
    left = 0


def _look(place: Path, act: Callable[[Runtime], object]) -> None:
    async def look(runtime: Runtime) -> None:
        act(runtime)

    _within(place, look)


def _every_step(place: Path, act: Act, check: Callable[[Runtime], object]) -> int:
    """Kill it at its first step, its second, and so on until it is done, each time from the same beginning; look each
    time. Returns how many steps there are.
    """
    beginning = f"{place}-beginning"
    fs.copy_tree(str(place), beginning)
    step = 1
    while _killed_at(place, step, act):
        _look(place, check)
        remove_tree(str(place))
        fs.copy_tree(beginning, str(place))
        step += 1
    _look(place, check)
    remove_tree(beginning)
    return step


def test_a_checkpoint_that_is_killed_at_any_step_is_there_or_not(home: Path) -> None:
    views: list[View] = []
    _look(home, lambda runtime: views.append(view(runtime, runtime.find("mine"))))
    assert views == [{"etc/one": "one", "etc/same": "one", "home:sub/file": "one"}]

    async def create(runtime: Runtime, box: Box) -> None:
        await checkpoints.create(runtime, box)

    def check(runtime: Runtime) -> None:
        assert view(runtime, runtime.find("mine")) == views[0]
        rows = runtime._store.checkpoints()
        assert all(row.is_whole for row in rows)
        for row in rows:
            assert {layer for layer in (row.storage, *row.root) if layer[0] != "/"} <= {
                *Layers(runtime.paths.layers).whole()
            }

    assert _every_step(home, create, check) > 20

    async def pruned(runtime: Runtime) -> None:
        await checkpoints.prune(runtime)
        check(runtime)
        used = {layer for layer in runtime.register.layers() if layer[0] != "/"}
        assert {*Layers(runtime.paths.layers).whole()} == used

    _within(home, pruned)


def test_a_restore_that_is_killed_at_any_step_is_done_or_not(home: Path) -> None:
    views: list[View] = []

    async def prepared(runtime: Runtime) -> None:
        box = runtime.find("mine")
        views.append(view(runtime, box))
        await checkpoints.create(runtime, box, "first")
        write(box, "two")
        views.append(view(runtime, box))
        await checkpoints.create(runtime, box, "second")

    _within(home, prepared)

    async def restore(runtime: Runtime, _box: Box) -> None:
        await checkpoints.restore(runtime, "mine@first")

    seen: list[int] = []

    def check(runtime: Runtime) -> None:
        box = runtime.find("mine")
        seen.append(views.index(view(runtime, box)))
        assert not os.path.exists(f"{box.directory}/incoming")

    assert _every_step(home, restore, check) > 20
    assert seen == sorted(seen, reverse=True), "from a certain step on it is done"
    assert seen[0] > seen[-1]


def test_a_fork_that_is_killed_at_any_step_is_whole_or_not_there(home: Path) -> None:
    views: list[View] = []

    async def prepared(runtime: Runtime) -> None:
        box = runtime.find("mine")
        await checkpoints.create(runtime, box, "first")
        views.append(view(runtime, box))
        write(box, "two")

    _within(home, prepared)

    async def fork(runtime: Runtime, _box: Box) -> None:
        await checkpoints.fork(runtime, "mine@first")

    def check(runtime: Runtime) -> None:
        for box in runtime.boxes.values():
            if box.name != "mine":
                assert view(runtime, box) == views[0]
        assert view(runtime, runtime.find("mine"))["etc/two"] == "two"
        assert {*os.listdir(runtime.paths.boxes)} == {*runtime.boxes}

    assert _every_step(home, fork, check) > 10


def test_ten_forks_are_independent_and_outlive_what_they_came_from(home: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = runtime.find("mine")
        was = view(runtime, box)
        forks = await checkpoints.fork(runtime, "mine", 10)
        assert len({one.name for one in forks}) == 10
        assert await runtime.register.checkpoints() == [], "what it was made by is nobody's"
        for number, one in enumerate(forks):
            assert view(runtime, one) == was
            write(one, f"w{number}")
        await runtime.remove("mine", force=True)
        await checkpoints.prune(runtime)
        for number, one in enumerate(forks):
            assert view(runtime, one) == was | {
                f"etc/w{number}": f"w{number}",
                **dict.fromkeys(("etc/below", "etc/same", "home:sub/file"), f"w{number}"),
            }
        with pytest.raises(UserError, match="at once"):
            await checkpoints.fork(runtime, forks[0].name, 0)

    _within(home, act)


def test_a_full_disk_leaves_the_box_as_it_was(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database cannot say that the layer is the box's: then it is not."""
    from paddock.errors import Unavailable

    def full(_store: Store, _checkpoint: str) -> None:
        raise Unavailable("cannot write: no room", code="disk")

    async def act(runtime: Runtime) -> None:
        box = runtime.find("mine")
        was, row = view(runtime, box), box.row
        with open(f"{box.directory}/box.json", "rb") as file:
            record = file.read()
        with monkeypatch.context() as patch:
            patch.setattr(Store, "finish_checkpoint", full)
            with pytest.raises(Unavailable, match="no room"):
                await checkpoints.create(runtime, box)
        assert (view(runtime, box), box.row) == (was, row)
        with open(f"{box.directory}/box.json", "rb") as file:
            assert file.read() == record
        assert await runtime.register.checkpoints() == []
        await checkpoints.create(runtime, box)
        assert view(runtime, box) == was

    _within(home, act)


def test_what_recovery_has_no_room_to_write_down_is_not_lost(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from paddock.errors import Unavailable

    def full(_store: Store, _checkpoint: str) -> None:
        raise Unavailable("cannot write: no room", code="disk")

    views: list[View] = []

    async def act(runtime: Runtime) -> None:
        box = runtime.find("mine")
        views.append(view(runtime, box))
        frozen = new_frozen_id()
        row = CheckpointRow(
            id="c", box=box.row.id, name="c", created_at=now(), storage="frozen:0", root=(*box.row.spec.layers, frozen)
        )
        await runtime.register.begin_checkpoint(row)
        layers = Layers(runtime.paths.layers)
        with layers.lease() as lease:
            layers.freeze(lease, f"{box.directory}/root/upper", frozen, 0)
        with monkeypatch.context() as patch:
            patch.setattr(Store, "finish_checkpoint", full)
            await checkpoints.settle(runtime, runtime._store)
        assert "no room" in runtime.repairs[-1]
        assert view(runtime, box) == views[0]

    _within(home, act)

    def check(runtime: Runtime) -> None:
        assert view(runtime, runtime.find("mine")) == views[0]
        assert runtime._store.checkpoints() == []

    _look(home, check)


def test_a_lost_database_loses_no_checkpoint(home: Path) -> None:
    from paddock.runtime.rebuild import rebuild

    views: list[View] = []

    async def prepared(runtime: Runtime) -> None:
        box = runtime.find("mine")
        views.append(view(runtime, box))
        await checkpoints.create(runtime, box, "first")
        write(box, "two")

    _within(home, prepared)
    rebuild(paths.Paths({"PADDOCK_HOME": os.fspath(home)}))

    async def after(runtime: Runtime) -> None:
        await checkpoints.prune(runtime)
        assert [info.name for info in await checkpoints.listed(runtime)] == ["first"]
        await checkpoints.restore(runtime, "mine@first")
        assert view(runtime, runtime.find("mine")) == views[0]

    _within(home, after)


def test_what_belongs_to_a_state_depends_on_the_mode(home: Path) -> None:
    def check(runtime: Runtime) -> None:
        spec = runtime.find("mine").row.spec
        assert checkpoints.parts(spec) == ("home",)
        assert checkpoints.parts(replace(spec, mode=WorkspaceMode.CLONE)) == ("git", "home")
        review = checkpoints.parts(replace(spec, mode=WorkspaceMode.REVIEW))
        assert review == ("review/upper", "review/state", "git", "home")

    _look(home, check)
