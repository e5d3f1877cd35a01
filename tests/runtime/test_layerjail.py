"""What a process that unpacks images has of the host."""

from __future__ import annotations

import json
import os
import resource
import socket
from typing import TYPE_CHECKING

from paddock.engines.container import ids
from paddock.engines.process import kernel
from paddock.limits import IMAGE_JAIL_BYTES
from paddock.runtime import layerjail
from tests.support.forks import forked

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_it_has_the_store_and_programs_and_no_more_of_the_host(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir(mode=0o700)
    (tmp_path / "secret").write_text("of the host")
    outside = _look(f"{tmp_path}/secret", f"{store}/outside")
    inside = _inside(tmp_path, str(store))
    assert outside == {"secret": True, "passwd": True, "write": True, "others": True}  # the oracle
    assert inside == {"secret": False, "passwd": False, "write": True, "others": False, "links": ["lo"], "usr": False}
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
