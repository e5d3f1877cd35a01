"""One box's cgroups: the table of files, and life and death in a real v2 cgroup."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from paddock.engines.process import box_cgroup, cgroup_tree
from paddock.engines.process.box_cgroup import BoxCgroup, Controller, Group
from paddock.errors import Unavailable
from paddock.limits import MIB
from paddock.model import BoxId

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from paddock.engines.process.cgroup_tree import Version

BOX = BoxId("b1")


def fake(path: Path, version: Version, *controllers: Controller, **files: str) -> BoxCgroup:
    for name, text in files.items():
        (path / name.replace("__", ".")).write_text(text)
    return BoxCgroup(box_id=BOX, groups=(Group(version=version, path=path, controllers=controllers),))


@pytest.mark.parametrize(
    ("name", "version", "value", "settings"),
    [
        ("memory", 1, 5 * MIB, {"memory.limit_in_bytes": "5242880", "memory.memsw.limit_in_bytes": "5242880"}),
        ("memory", 2, 5 * MIB, {"memory.max": "5242880", "memory.swap.max": "0"}),
        ("pids", 1, 7, {"pids.max": "7"}),
        ("pids", 2, 7, {"pids.max": "7"}),
        ("cpu", 1, 1.5, {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "150000"}),
        ("cpu", 2, 1.5, {"cpu.max": "150000 100000"}),
        ("cpu", 2, 0.0001, {"cpu.max": "1000 100000"}),
    ],
)
def test_a_limit_is_written_as_its_version_wants_it(
    name: Controller, version: Version, value: float, settings: dict[str, str]
) -> None:
    assert dict(box_cgroup._settings(version, name, value)) == settings


def test_v2_kills_are_counted(tmp_path: Path) -> None:
    box = fake(
        tmp_path,
        2,
        "memory",
        "pids",
        memory__events="low 0\noom 9\noom_kill 3\noom_group_kill 0\n",
    )
    assert box.events() == 3


def test_v1_kills_are_counted(tmp_path: Path) -> None:
    box = fake(
        tmp_path,
        1,
        "memory",
        memory__oom_control="oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
    )
    assert box.events() == 2


def test_a_box_that_has_gone_reads_as_nothing_and_ends_without_complaint(tmp_path: Path) -> None:
    group = Group(version=1, path=tmp_path / "gone", controllers=("memory", "pids"))
    box = BoxCgroup(box_id=BOX, groups=(group,))
    assert box.events() == 0
    box.kill()
    box.remove()
    with pytest.raises(Unavailable, match=r"cannot attach process 1 to .*gone"):
        box.attach(1)


def test_processes_without_a_number_here_are_never_signalled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pid 0 would mean our own process group."""
    monkeypatch.setattr(box_cgroup, "_PATIENCE_S", 0.02)
    box = fake(tmp_path, 1, "memory", cgroup__procs="0\n0\n")
    with pytest.raises(Unavailable, match="survive being killed"):
        box.kill()


def test_a_cgroup_that_stays_busy_is_an_error_that_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(box_cgroup, "_PATIENCE_S", 0.02)
    (tmp_path / "full").mkdir()
    with pytest.raises(Unavailable, match=r"cannot remove .*: Directory not empty"):
        box_cgroup.remove_directory(tmp_path)


@pytest.fixture
def v2() -> Iterator[BoxCgroup]:
    """A real cgroup of the v2 tree, with no controller: processes and killing need none."""
    try:
        path = cgroup_tree.locate("no such controller").own / f"paddock-test{os.getpid()}"
        path.mkdir()
    except (Unavailable, OSError) as error:
        pytest.skip(f"no v2 cgroup can be made here: {error}")
    box = BoxCgroup(box_id=BOX, groups=(Group(version=2, path=path, controllers=()),))
    yield box
    box.kill()
    box.remove()
    assert not path.exists()


def test_a_whole_family_dies_with_its_v2_cgroup_and_nobody_else(v2: BoxCgroup) -> None:
    reader, writer = os.pipe()
    go, start = os.pipe()
    outside, inside = (_family(writer, go) for _ in range(2))
    v2.attach(inside)
    os.write(start, b"gg")
    assert len(os.read(reader, 1) + os.read(reader, 1)) == 2
    assert len(cgroup_tree.pids_in(v2.groups[0].path)) == 2
    v2.kill()
    assert os.waitstatus_to_exitcode(os.waitpid(inside, 0)[1]) == -signal.SIGKILL
    assert cgroup_tree.pids_in(v2.groups[0].path) == []
    v2.remove()
    assert os.waitpid(outside, os.WNOHANG) == (0, 0)
    os.killpg(outside, signal.SIGKILL)
    os.waitpid(outside, 0)
    for fd in (reader, writer, go, start):
        os.close(fd)


def _family(ready: int, go: int) -> int:
    """A process in a session of its own that forks once told to go."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.read(go, 1)
        if os.fork():
            os.write(ready, b"r")
        signal.pause()
        os._exit(0)
    return pid
