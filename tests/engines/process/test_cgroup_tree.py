"""Finding our cgroup in every layout, and arranging a v2 cgroup only where it is ours."""

from __future__ import annotations

import contextlib
import os
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paddock.engines.process import cgroup_tree
from paddock.engines.process.cgroup_tree import LEAF, Tree
from paddock.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

V1 = "{n} 31 0:{n} {root} {top}/{name} rw,relatime shared:9 - cgroup cgroup rw,{options}\n"
V2 = "{n} 31 0:{n} {root} {top}/{name} rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n"
NOISE = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n28 27 0:25 / /run rw shared:1 master:2 - tmpfs tmpfs rw\n"


def proc(tmp_path: Path, cgroup: str, mounts: list[tuple[str, str, str, str]], exists: str) -> str:
    """A fake /proc, and the directory that the mounts are meant to show."""
    lines = [
        line.format(n=n, root=root, top=tmp_path / "sys", name=name, options=options)
        for n, (line, root, name, options) in enumerate(mounts, 40)
    ]
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(cgroup)
    (tmp_path / "proc/self/mountinfo").write_text(NOISE + "".join(lines))
    (tmp_path / "sys" / exists).mkdir(parents=True)
    (tmp_path / "sys" / exists / "cgroup.procs").touch()
    return os.fspath(tmp_path / "proc")


LAYOUTS = {
    "v1": ("4:memory:/a/b\n0::/\n", [(V1, "/", "memory", "memory")], 1, "memory", "memory/a/b"),
    "v1 with controllers together": (
        "3:cpu,cpuacct,memory:/x\n",
        [(V1, "/", "cpu,cpuacct", "cpu,cpuacct,memory")],
        1,
        "cpu,cpuacct",
        "cpu,cpuacct/x",
    ),
    "hybrid, in v1": (
        "4:memory:/u\n0::/v\n",
        [(V2, "/", "unified", ""), (V1, "/", "memory", "memory")],
        1,
        "memory",
        "memory/u",
    ),
    "hybrid, in v2": (
        "4:pids:/u\n0::/v\n",
        [(V1, "/", "pids", "pids"), (V2, "/", "unified", "")],
        2,
        "unified",
        "unified/v",
    ),
    "v2": ("0::/user.slice/s.scope\n", [(V2, "/", "cgroup", "")], 2, "cgroup", "cgroup/user.slice/s.scope"),
    "container that sees its host's paths": (
        "4:memory:/docker/c1/sub\n",
        [(V1, "/docker/c1", "memory", "memory")],
        1,
        "memory",
        "memory/sub",
    ),
    "container in a cgroup namespace": ("0::/\n", [(V2, "/", "cgroup", "")], 2, "cgroup", "cgroup"),
    "mounted in an odd place": ("4:memory:/a\n", [(V1, "/", "my\\040cg\\134", "memory")], 1, "my cg\\", "my cg\\/a"),
    "a second mount shows it": (
        "4:memory:/a/b\n",
        [(V1, "/other", "one", "memory"), (V1, "/a", "two", "memory")],
        1,
        "two",
        "two/b",
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_our_own_cgroup_is_found_in(name: str, tmp_path: Path) -> None:
    cgroup, mounts, version, mount, own = LAYOUTS[name]
    tree = cgroup_tree.locate("memory", proc(tmp_path, cgroup, mounts, own))
    assert tree == Tree(version=1 if version == 1 else 2, mount=tmp_path / "sys" / mount, own=tmp_path / "sys" / own)


@pytest.mark.parametrize(
    ("cgroup", "mounts", "reason"),
    [
        ("3:pids:/a\n", [(V1, "/", "memory", "memory")], "no cgroup hierarchy has the memory controller"),
        ("4:memory:/a\n", [], "no mount shows our cgroup /a"),
        ("4:memory:/a\n", [(V1, "/", "pids", "pids")], "no mount shows our cgroup /a"),
        ("4:memory:/a\n", [(V1, "/b", "memory", "memory")], "no mount shows our cgroup /a"),
        ("4:memory:/ab\n", [(V1, "/a", "memory", "memory")], "no mount shows our cgroup /ab"),
        ("4:memory:/../a\n", [(V1, "/", "memory", "memory")], r"no mount shows our cgroup /\.\./a"),
        ("4:memory:/..\n", [(V1, "/..", "memory", "memory")], r"no mount shows our cgroup /\.\."),
        ("0::/a (deleted)\n", [(V2, "/", "cgroup", "")], r"no mount shows our cgroup /a \(deleted\)"),
    ],
)
def test_a_cgroup_out_of_sight_is_a_reason(
    cgroup: str, mounts: list[tuple[str, str, str, str]], reason: str, tmp_path: Path
) -> None:
    root = proc(tmp_path, cgroup, mounts, "memory/a")
    (tmp_path / "sys/a").mkdir()  # where a path that climbs would lead
    (tmp_path / "sys/a/cgroup.procs").touch()
    with pytest.raises(Unavailable, match=reason):
        cgroup_tree.locate("memory", root)


@pytest.mark.parametrize("name", [b"\xff", "\u2028".encode(), b"\x0b", b"\x1c x - cgroup cgroup rw,memory", b"\\043"])
def test_a_mount_point_chosen_by_anyone_does_not_confuse_the_search(tmp_path: Path, name: bytes) -> None:
    root = Path(proc(tmp_path, "4:memory:/a\n", [(V1, "/", "memory", "memory")], "memory/a"))
    written = name.replace(b" ", b"\\040")  # as the kernel does
    text = (root / "self/mountinfo").read_bytes()
    (root / "self/mountinfo").write_bytes(b"99 1 0:9 / /mnt/" + written + b" rw - fuse fuse rw\n" + text)
    assert cgroup_tree.locate("memory", os.fspath(root)).own == tmp_path / "sys/memory/a"


def test_a_value_is_never_written_where_there_is_no_control_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        cgroup_tree.write(tmp_path / "memory.max", "1")
    assert list(tmp_path.iterdir()) == []


def test_a_controller_counts_in_v2_only_where_it_is_enabled(fake: Path, tmp_path: Path) -> None:
    v1, v2 = Tree(version=1, mount=tmp_path, own=fake), Tree(version=2, mount=tmp_path, own=fake)
    assert v2.counts("memory", fake)
    assert not v2.counts("hugetlb", fake)
    assert not v2.counts("memory", tmp_path / "gone")
    assert v1.counts("memory", fake)


@pytest.fixture
def fake(tmp_path: Path) -> Path:
    """A directory that looks like a v2 cgroup with this process in it."""
    cgroup = tmp_path / "own"
    cgroup.mkdir()
    files = {"cgroup.type": "domain", "cgroup.controllers": "cpu memory pids", "cgroup.subtree_control": ""}
    for name, text in (files | {"cgroup.procs": str(os.getpid())}).items():
        (cgroup / name).write_text(text)
    return cgroup


def enter(cgroup: Path, tmp_path: Path, *controllers: str) -> tuple[Path, frozenset[str]]:
    tree = Tree(version=2, mount=tmp_path, own=cgroup)
    return cgroup_tree.enter(tree, controllers or ("memory",), tmp_path / "systemd")


def test_a_cgroup_of_systemd_is_left_alone_unless_it_was_delegated(fake: Path, tmp_path: Path) -> None:
    (tmp_path / "systemd").mkdir()
    with pytest.raises(Unavailable, match="systemd has not delegated"):
        enter(fake, tmp_path)
    try:
        os.setxattr(fake, "user.delegate", b"1")
    except OSError:
        pytest.skip("this file system has no user attributes")
    with pytest.raises(Unavailable, match="cannot move into"):  # past that check; a plain directory ends it here
        enter(fake, tmp_path)


def test_a_cgroup_with_a_strangers_process_is_left_alone(fake: Path, tmp_path: Path) -> None:
    (fake / "cgroup.procs").write_text(f"{os.getpid()}\n{os.getppid()}\n0\n")
    with pytest.raises(Unavailable, match="2 other processes are in"):
        enter(fake, tmp_path)
    assert not (fake / LEAF).exists()


def test_a_cgroup_of_another_user_is_left_alone(fake: Path, tmp_path: Path) -> None:
    foreign = Path("/") if os.geteuid() else fake
    if os.geteuid() == 0:
        os.chown(fake, 61234, 61234)
    with pytest.raises(Unavailable, match="belongs to uid"):
        enter(foreign, tmp_path)


def test_nothing_moves_for_controllers_that_are_not_offered(fake: Path, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="has none of the controllers hugetlb, io"):
        enter(fake, tmp_path, "hugetlb", "io")
    assert not (fake / LEAF).exists()


def test_a_move_that_fails_leaves_no_leaf(fake: Path, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="cannot move into"):
        enter(fake, tmp_path)
    assert not (fake / LEAF).exists()


@pytest.fixture
def real() -> Iterator[tuple[Tree, str]]:
    """A real v2 cgroup below our own whose children may have a controller, and which one that is."""
    try:
        tree = cgroup_tree.locate("no such controller")
    except Unavailable as error:
        pytest.skip(error.message)
    offered = (tree.own / "cgroup.controllers").read_text().split()
    enabled = (tree.own / "cgroup.subtree_control").read_text().split()
    if not offered or os.geteuid() or Path("/run/systemd/system").exists():
        pytest.skip("no v2 cgroup that is ours to arrange")
    control, path = tree.own / "cgroup.subtree_control", tree.own / f"paddock-test{os.getpid()}"
    with contextlib.ExitStack() as stack:
        if offered[0] not in enabled:
            try:
                cgroup_tree.write(control, f"+{offered[0]}")
            except OSError:
                pytest.skip("our v2 cgroup holds processes")
            stack.callback(cgroup_tree.write, control, f"-{offered[0]}")
        path.mkdir()
        stack.callback(path.rmdir)
        yield Tree(version=2, mount=tree.mount, own=path), offered[0]


def in_cgroup(cgroup: Path, action: Callable[[], None]) -> int:
    """Run in a forked process that lives in the cgroup."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            cgroup_tree.write(cgroup / "cgroup.procs", str(os.getpid()))
            action()
            code = 0
        except BaseException:  # noqa: BLE001 - a forked test must not return into pytest
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_cgroup_of_our_own_is_arranged_once_and_found_again(real: tuple[Tree, str], tmp_path: Path) -> None:
    tree, controller = real
    leaf = tree.own / LEAF

    def arrange() -> None:
        for own in (tree.own, leaf):  # the second time we live in the leaf
            again = Tree(version=2, mount=tree.mount, own=own)
            parent, enabled = cgroup_tree.enter(again, (controller, "none"), tmp_path / "systemd")
            assert (parent, enabled) == (tree.own, frozenset({controller}))
            assert cgroup_tree.pids_in(tree.own) == []
            assert cgroup_tree.pids_in(leaf) == [os.getpid()]
        box = tree.own / "box"
        box.mkdir()
        assert controller in (box / "cgroup.controllers").read_text().split()
        box.rmdir()

    assert in_cgroup(tree.own, arrange) == 0
    leaf.rmdir()


def test_descendants_move_along(real: tuple[Tree, str], tmp_path: Path) -> None:
    tree, controller = real

    def arrange() -> None:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(writer)
            os.read(reader, 1)
            os._exit(0)
        cgroup_tree.enter(tree, (controller,), tmp_path / "systemd")
        assert sorted(cgroup_tree.pids_in(tree.own / LEAF)) == sorted([os.getpid(), child])
        os.close(writer)
        os.waitpid(child, 0)

    assert in_cgroup(tree.own, arrange) == 0
    (tree.own / LEAF).rmdir()
