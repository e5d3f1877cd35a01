"""What a process that unpacks images has of the host."""

from __future__ import annotations

import errno
import json
import os
import resource
import socket
from typing import TYPE_CHECKING

import pytest

from paddock.engines.container import ids
from paddock.engines.process import kernel
from paddock.errors import Unavailable
from paddock.images.layers import Layers
from paddock.images.ownership import SQUASHED
from paddock.limits import IMAGE_JAIL_BYTES
from paddock.runtime import layerjail, steptargets
from tests.images import tars
from tests.support.forks import forked

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_it_has_the_store_and_programs_and_no_more_of_the_host(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir(mode=0o700)
    (tmp_path / "secret").write_text("of the host")
    outside = _look(f"{tmp_path}/secret", f"{store}/outside")
    inside = _inside(tmp_path, str(store))
    assert outside == {"secret": True, "passwd": True, "write": True, "others": True}  # the oracle
    refused = {"settings": False, "rights": ["EPERM"] * len(_BEYOND_FILES)}
    shown = {"secret": False, "passwd": False, "write": True, "others": False, "links": ["lo"], "usr": False}
    assert inside == {**shown, **refused}
    assert _outside_of_it() == ["ok"] * len(_BEYOND_FILES), "the oracle: who has all rights in their namespace may"
    assert _opens("/proc/sys/kernel/core_pattern") is (os.getuid() == 0)
    assert sorted(os.listdir(store)) == ["inside", "outside"]
    assert (store / "inside").stat().st_uid == os.getuid()


def _look(secret: str, made: str) -> dict[str, object]:
    with open(made, "w", encoding="ascii"):
        pass
    return {
        "secret": os.path.exists(secret),
        "passwd": os.path.exists("/etc/passwd"),
        "write": os.path.exists(made),
        "others": os.path.exists(f"/proc/{os.getppid()}/status") and os.getppid() > 0,
    }


def _opens(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


# Each would be a way to a /proc that shows all, or to somebody else's memory.
_BEYOND_FILES: tuple[Callable[[], object], ...] = (
    lambda: kernel.unshare(kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS),
    lambda: kernel.mount("none", "/tmp", "tmpfs"),
    kernel.join_new_session_keyring,
)


def _tried(act: Callable[[], object]) -> str:
    try:
        act()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "ok"


def _outside_of_it() -> list[str]:
    reader, writer = os.pipe()
    pid = forked()
    if pid == 0:
        os.write(writer, json.dumps([_tried(act) for act in _BEYOND_FILES]).encode())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as file:
        found = json.load(file)
    os.waitpid(pid, 0)
    assert isinstance(found, list)
    return found


def _inside(host: Path, store: str) -> dict[str, object]:
    ours, theirs = socket.socketpair()
    pid = forked()
    if pid == 0:
        try:
            kernel.unshare(layerjail._NAMESPACES)
            theirs.send(b"1")
            theirs.recv(1)
            if os.fork():
                os.wait()
                os._exit(0)
            layerjail.enclose(store)
            found = _look(f"{host}/secret", f"{layerjail.STORE}/inside")
            found["links"] = [name for _, name in socket.if_nameindex()]
            found["usr"] = os.access("/usr", os.W_OK)
            found["settings"] = _opens("/proc/sys/kernel/core_pattern")
            found["rights"] = [_tried(act) for act in _BEYOND_FILES]
            theirs.send(json.dumps(found).encode())
        finally:
            os._exit(0)
    theirs.close()
    with ours:
        ours.recv(1)
        ids.give(pid, ids.to_unpack((0, 0)))
        ours.send(b"1")
        answer = json.loads(ours.recv(1 << 16) or b"{}")
    os.waitpid(pid, 0)
    assert isinstance(answer, dict)
    return answer


def test_what_takes_too_much_memory_is_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    bounds: list[tuple[int, int]] = []
    told: list[dict[str, object]] = []
    monkeypatch.setattr(layerjail, "enclose", lambda _store: None)
    monkeypatch.setattr(resource, "setrlimit", lambda _which, most: bounds.append(most))
    monkeypatch.setitem(layerjail._TASKS, "image", _too_much)
    layerjail._answer({"what": "image", "store": "", "ids": 0, "uid": 0, "gid": 0, "words": ""}, -1, told.append)
    assert bounds == [(IMAGE_JAIL_BYTES, IMAGE_JAIL_BYTES)]
    assert (told[0]["code"], told[0]["by_user"]) == ("bad-archive", True)


def _too_much(*_: object) -> None:
    raise MemoryError


def test_a_file_of_ours_leaves_the_host_its_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layers = Layers(str(tmp_path / "store"))
    monkeypatch.setattr(layerjail, "STORE", layers.root)
    monkeypatch.setattr(steptargets, "DISK_FLOOR_BYTES", 1 << 60)
    told: list[dict[str, object]] = []
    with layers.lease() as lease, open(tmp_path / "out", "wb") as file:
        layer = layers.add(lease, tars.source(tars.archive(tars.file(b"a", b"x"))), SQUASHED).id
        picture = {"chain": [layer], "config": {"architecture": "amd64", "diff_ids": []}}
        ours, theirs = (
            json.dumps({"pictures": [picture], "for_docker": True, "keeps_room": keeps_room})
            for keeps_room in (True, False)
        )
        with pytest.raises(Unavailable, match="no space left"):
            layerjail._export(file.fileno(), SQUASHED, ours, told.append)
        assert told == []
        layerjail._export(file.fileno(), SQUASHED, theirs, told.append)  # the oracle: a user may fill their own disk
        assert "digest" in told[0]
