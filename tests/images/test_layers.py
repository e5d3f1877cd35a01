"""The store of layers holds what is whole, once, as long as somebody needs it: ARC-06, ARC-13, FLT-01, FLT-05."""

from __future__ import annotations

import errno
import hashlib
import os
import signal
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paddock import fs
from paddock.errors import Unavailable, UserError
from paddock.images import archive, layers, leases
from paddock.images.layers import LayerId, Layers, Record, Verdict, layer_of, new_frozen_id
from paddock.images.ownership import SQUASHED, Ownership
from tests.images import tars
from tests.support.forks import forked

if TYPE_CHECKING:
    from collections.abc import Callable

ONE = tars.archive(tars.file(b"etc/name", b"one"), tars.file(b"etc/.wh.gone"))
TWO = tars.archive(tars.file(b"etc/name", b"two"))


@pytest.fixture
def store(tmp_path: Path) -> Layers:
    return Layers(os.fspath(tmp_path / "layers"))


def add(store: Layers, data: bytes = ONE) -> Record:
    with store.lease() as lease:
        return store.add(lease, tars.source(data), SQUASHED)


def id_of(data: bytes) -> LayerId:
    return layer_of(f"sha256:{hashlib.sha256(data).hexdigest()}", SQUASHED)


def everything(store: Layers) -> list[str]:
    kept = ("sha256", "squashed", "frozen", "leases", "staging", "trash")
    return [f"{kind}/{name}" for kind in kept for name in os.listdir(f"{store.root}/{kind}")]


def test_a_layer_is_found_by_the_sum_of_its_archive(store: Layers) -> None:
    record = add(store)
    assert record.id == id_of(ONE)
    assert (record.entries, record.size_bytes, record.ids) == (2, 3, 0)
    assert Path(store.tree(record.id), "etc/name").read_bytes() == b"one"
    assert store.record(record.id) == record
    assert store.whole() == [record.id]
    assert everything(store) == [record.id.replace(":", "/")]


@pytest.mark.privileged
def test_one_archive_with_its_owners_and_without_is_two_layers(store: Layers) -> None:
    data = tars.archive(tars.file(b"a", b"x", uid=1000, mode=0o4755))
    with store.lease() as lease:
        whole = store.add(lease, tars.source(data), Ownership(ids=65536))
        squashed = store.add(lease, tars.source(data), SQUASHED)
    assert whole.id.partition(":")[2] == squashed.id.partition(":")[2]
    looks = [os.stat(f"{store.tree(record.id)}/a") for record in (whole, squashed)]
    assert [(look.st_uid, stat.S_IMODE(look.st_mode)) for look in looks] == [(1000, 0o4755), (0, 0o755)]


def test_a_store_is_closed_to_others(store: Layers) -> None:
    record = add(store)
    for path in (store.root, os.path.dirname(store.tree(record.id))):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o700


def test_the_same_layer_twice_is_one_layer(store: Layers) -> None:
    first = add(store)
    inode = os.stat(store.tree(first.id)).st_ino
    assert add(store) == first
    assert os.stat(store.tree(first.id)).st_ino == inode
    assert len(everything(store)) == 1


@pytest.mark.parametrize(
    ("data", "expected"),
    [(ONE, f"sha256:{id_of(TWO)[9:]}"), (ONE[:-600], ""), (tars.archive(tars.file(b"a"), tars.file(b"../b")), "")],
)
def test_what_is_refused_leaves_nothing(store: Layers, data: bytes, expected: str) -> None:
    with store.lease() as lease, pytest.raises(UserError) as caught:
        store.add(lease, tars.source(data), SQUASHED, expected)
    assert caught.value.code == "bad-archive"
    assert everything(store) == []


@pytest.mark.parametrize(
    "layer", ["", "sha256:../../etc", "sha256:" + "a" * 63, "md5:" + "a" * 32, "frozen:" + "A" * 32]
)
def test_a_name_that_is_no_layer_is_no_path(store: Layers, layer: str) -> None:
    with pytest.raises(UserError, match="no layer"):
        store.has(LayerId(layer))


def test_a_layer_that_is_not_there_is_named(store: Layers) -> None:
    assert not store.has(id_of(ONE))
    for look in (store.tree, store.record, store.verify):
        with pytest.raises(Unavailable, match=r"there is no layer squashed:") as caught:
            look(id_of(ONE))
        assert caught.value.code == "no-layer"


# -- freeze ------------------------------------------------------------------------------------------------------------


def upper(tmp_path: Path) -> str:
    path = tmp_path / "upper"
    (path / "home").mkdir(parents=True)
    (path / "home/file").write_bytes(b"work")
    return os.fspath(path)


def test_an_upper_becomes_a_layer_by_a_rename(store: Layers, tmp_path: Path) -> None:
    path, layer = upper(tmp_path), new_frozen_id()
    inode = os.stat(path).st_ino
    with store.lease() as lease:
        record = store.freeze(lease, path, layer, 0)
    assert store.record(layer) == record
    assert os.stat(store.tree(layer)).st_ino == inode
    assert not os.path.exists(path)
    assert store.verify(layer) is Verdict.UNKNOWN


def test_an_upper_that_its_box_closed_is_frozen_as_it_is(store: Layers, tmp_path: Path) -> None:
    path, layer = upper(tmp_path), new_frozen_id()
    os.chmod(path, 0o555)
    with store.lease() as lease:
        store.freeze(lease, path, layer, 0)
    assert stat.S_IMODE(os.stat(store.tree(layer)).st_mode) == 0o555


def test_a_freeze_that_fails_leaves_the_upper_and_no_layer(store: Layers, tmp_path: Path) -> None:
    path, layer = upper(tmp_path), new_frozen_id()
    with store.lease() as lease:
        with pytest.raises(Unavailable, match="No such file"):
            store.freeze(lease, f"{path}-missing", layer, 0)
        with pytest.raises(UserError, match="no name for a frozen layer"):
            store.freeze(lease, path, id_of(ONE), 0)
        assert not store.has(layer)
        store.freeze(lease, path, layer, 0)
    assert store.has(layer)


def test_a_freeze_takes_as_many_steps_for_a_large_upper_as_for_a_small_one(store: Layers, tmp_path: Path) -> None:
    def steps(files: int) -> int:
        path, layer = tmp_path / f"upper-{files}", new_frozen_id()
        path.mkdir()
        for number in range(files):
            (path / str(number)).touch()

        def work() -> None:
            with store.lease() as lease:
                store.freeze(lease, os.fspath(path), layer, 0)

        _, taken = _dying(work)
        assert len(os.listdir(store.tree(layer))) == files
        return taken

    assert steps(1) == steps(500) > 5


# -- prune -------------------------------------------------------------------------------------------------------------


def test_prune_removes_what_no_row_names(store: Layers, tmp_path: Path) -> None:
    one, two = add(store, ONE).id, add(store, TWO).id
    layer = new_frozen_id()
    with store.lease() as lease:
        store.freeze(lease, upper(tmp_path), layer, 0)
    assert store.prune(lambda: {one, layer}) == [two]
    assert sorted(store.whole()) == sorted([one, layer])
    assert sorted(store.prune(set)) == sorted([one, layer])
    assert everything(store) == []


def test_prune_leaves_what_a_build_is_about_to_use(store: Layers) -> None:
    one = add(store, ONE).id
    with store.lease() as lease:
        assert store.keep(lease, one)
        two = store.add(lease, tars.source(TWO), SQUASHED).id
        assert store.prune(set) == []
        assert {*store.whole()} == {one, two}
        assert not store.keep(lease, id_of(b""))
    assert len(store.prune(set)) == 2


def test_a_reference_that_appears_until_the_store_is_locked_counts(store: Layers) -> None:
    one = add(store).id
    rows: list[LayerId] = []

    def references() -> list[LayerId]:
        rows.append(one)
        return rows

    assert store.prune(references) == []


# -- damage ------------------------------------------------------------------------------------------------------------


def test_a_layer_that_was_changed_is_found_damaged(store: Layers) -> None:
    layer = add(store).id
    assert store.verify(layer) is Verdict.SOUND
    file = Path(store.tree(layer), "etc/name")
    file.write_bytes(b"eno")
    os.utime(file, (0, 0))
    assert store.verify(layer) is Verdict.DAMAGED


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b"\xff"])
def test_a_damaged_record_is_said_so(store: Layers, text: bytes) -> None:
    layer = add(store).id
    Path(store.root, *layer.split(":"), "record").write_bytes(text)
    with pytest.raises(Unavailable, match="is damaged"):
        store.record(layer)


def test_the_record_of_another_layer_is_no_record(store: Layers) -> None:
    one, two = add(store, ONE).id, add(store, TWO).id
    os.replace(*(f"{store.root}/{layer.replace(':', '/')}/record" for layer in (one, two)))
    with pytest.raises(Unavailable, match="is that of"):
        store.record(two)


@pytest.mark.parametrize("step", ["unpack", "sync", "rename"])
def test_a_full_disk_leaves_the_store_as_it_was(store: Layers, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    where: dict[str, tuple[object, str]] = {
        "unpack": (archive, "write_all"),
        "sync": (fs, "sync_file_systems"),
        "rename": (layers, "_rename_new"),
    }
    with monkeypatch.context() as patch:
        patch.setattr(*where[step], full)
        with pytest.raises(Unavailable, match=r"[Nn]o space left"):
            add(store)
    assert everything(store) == []
    assert add(store).id == id_of(ONE)


def test_a_full_disk_keeps_nothing_and_says_so(store: Layers, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    layer = add(store).id
    with store.lease() as lease, monkeypatch.context() as patch:
        patch.setattr(leases, "write_all", full)
        with pytest.raises(Unavailable, match=r"[Nn]o space left") as caught:
            store.keep(lease, layer)
        assert "free some space" in caught.value.hint
        patch.setattr(os, "mkdir", full)
        with pytest.raises(Unavailable, match=r"[Nn]o space left"), store.lease():
            pass
    assert store.prune(lambda: ()) == [layer]
    assert everything(store) == []


_STEPS = frozenset({"open", "os.mkdir", "os.rename", "os.remove", "os.chmod", "os.utime", "os.listdir", "os.scandir"})


def _dying(work: Callable[[], object], at: int = 0) -> tuple[bool, int]:
    """Do something in a process that is killed at a step of it; whether it was, and how many steps it took."""
    reader, writer = os.pipe()
    child = forked()
    if child == 0:
        taken = 0

        def count(event: str, args: tuple[object, ...]) -> None:
            nonlocal taken
            if event in _STEPS:
                taken += 1
                if taken == at:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        try:
            work()
            os.write(writer, b"%d" % taken)
        finally:
            os._exit(0)
    os.close(writer)
    _, status = os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as file:
        return os.WIFSIGNALED(status), int(file.read() or b"0")


def test_killed_at_any_step_of_an_add_the_store_has_all_of_a_layer_or_nothing(store: Layers) -> None:
    for step in range(1, 1000):
        killed, _ = _dying(lambda: add(store), step)
        if store.whole():
            assert store.verify(id_of(ONE)) is Verdict.SOUND
        store.prune(set)
        assert everything(store) == []
        if not killed:
            break
    else:
        pytest.fail("it never ended by itself")
    assert step > 10


def test_killed_at_any_step_of_a_freeze_the_work_is_in_one_place(store: Layers, tmp_path: Path) -> None:
    for step in range(1, 1000):
        path, layer = upper(tmp_path), new_frozen_id()

        def work(path: str = path, layer: LayerId = layer) -> None:
            with store.lease() as lease:
                store.freeze(lease, path, layer, 0)

        killed, _ = _dying(work, step)
        place = store.tree(layer) if store.has(layer) else path
        assert store.has(layer) != os.path.exists(path)
        assert Path(place, "home/file").read_bytes() == b"work"
        assert store.prune(lambda: {layer} if store.has(layer) else set()) in ([], [layer])  # noqa: B023  # asked now
        assert Path(place, "home/file").read_bytes() == b"work"
        fs.remove_tree(path)
        store.prune(set)
        assert everything(store) == []
        if not killed:
            break
    else:
        pytest.fail("it never ended by itself")
    assert step > 5
