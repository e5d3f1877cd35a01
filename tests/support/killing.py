"""An installation with a box that never starts, and acts upon it in a process that is killed at each of their steps.

What the box would have written is written here, in the form in which an overlay leaves it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
from typing import TYPE_CHECKING

from paddock import fs
from paddock.engines.container.removal import remove_tree
from paddock.images.layers import Layers
from paddock.images.stacks import Stack
from paddock.model import BoxRequest, BoxState, EngineName
from paddock.runtime import boxparts, overlays, recovery
from tests.support.serving import running

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from paddock.runtime import Runtime
    from paddock.runtime.box import Box

    Act = Callable[[Runtime, Box], Awaitable[object]]

_FILE_STEPS = frozenset({"os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.chmod", "os.truncate", "os.symlink"})
View = dict[str, str]


def stopped_box(tmp_path: Path) -> Iterator[Path]:
    """An installation with a container on a directory of the user's; its root and home have something in them."""
    (tmp_path / "root/etc").mkdir(parents=True)
    (tmp_path / "root/etc/below").write_text("below")
    (tmp_path / "workspace").mkdir()
    place = tmp_path / "home"
    within(place, _first)
    overlays.require(f"{place}/state/trash")  # once, and not in each process that is killed
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
    found: View = {}
    for prefix, (part, chain) in zip(("", "home:"), boxparts.uppers(box.row.spec).items(), strict=True):
        upper = f"{box.directory}/{part}"
        trees = [*boxparts.places(layers, chain), *([upper] if os.path.isdir(upper) else [])]
        found |= _seen(prefix, Stack(trees))
    return found


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


def within(place: Path, act: Callable[[Runtime], Awaitable[None]]) -> None:
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
            within(place, lambda runtime: _counted(runtime, step, act))
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


def look(place: Path, act: Callable[[Runtime], object]) -> None:
    async def look(runtime: Runtime) -> None:
        act(runtime)

    within(place, look)


def every_step(place: Path, act: Act, check: Callable[[Runtime], object]) -> int:
    """Kill it at its first step, its second, and so on until it is done, each time from the same beginning; look each
    time. Returns how many steps there are.
    """
    beginning = f"{place}-beginning"
    fs.copy_tree(str(place), beginning)
    step = 1
    while _killed_at(place, step, act):
        look(place, check)
        remove_tree(str(place))
        fs.copy_tree(beginning, str(place))
        step += 1
    look(place, check)
    remove_tree(beginning)
    return step
