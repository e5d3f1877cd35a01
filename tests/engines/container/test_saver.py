"""The saver: what it has the runtime do ends in time, and a failure comes with the runtime's own words."""

from __future__ import annotations

import json
import os
import socket
from typing import TYPE_CHECKING

import pytest

from paddock.engines.container import saver
from tests.support import namespaces

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def log(tmp_path: Path) -> int:
    return os.open(tmp_path / "log", os.O_RDWR | os.O_CREAT | os.O_APPEND)


def test_a_failure_has_the_words_of_who_failed(log: int) -> None:
    with pytest.raises(OSError, match="sh says: first second"):
        saver.run(["/bin/sh", "-c", "echo first; echo second >&2; exit 3"], [], log)
    os.close(log)


def test_what_it_is_given_are_its_descriptors_from_three_on(log: int) -> None:
    read, write = os.pipe()
    saver.run(["/bin/sh", "-c", "echo here >&3; echo there >&4"], [write, write], log)
    assert os.read(read, 100) == b"here\nthere\n"
    for fd in (read, write, log):
        os.close(fd)


def test_who_does_not_end_is_ended(log: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saver, "RUN_S", 0.2)
    with pytest.raises(OSError, match="sleep says"):
        saver.run(["/bin/sleep", "600"], [], log)
    os.close(log)


def test_it_saves_and_wakes_as_often_as_it_is_asked(tmp_path: Path) -> None:
    plan = {
        "image": f"{tmp_path}/image",
        "save": ["/bin/sh", "-c", f"echo saved > {tmp_path}/image/it"],
        "wake": ["/bin/sh", "-c", "echo woken >&3"],
    }

    def act() -> None:
        log = os.open(tmp_path / "log", os.O_RDWR | os.O_CREAT | os.O_APPEND)
        channel = saver.start(plan, log)
        channel.settimeout(20)
        channel.send(saver.SAVE)
        assert json.loads(channel.recv(4096))["ok"]
        channel.send(saver.SAVE)
        again = json.loads(channel.recv(4096))
        assert not again["ok"]
        assert "exists" in again["error"]
        read, write = os.pipe()
        socket.send_fds(channel, [saver.WAKE], [write])
        assert json.loads(channel.recv(4096))["ok"]
        assert os.read(read, 100) == b"woken\n"
        channel.close()
        os.wait()

    namespaces.inside(act)
    assert (tmp_path / "image/it").read_text() == "saved\n"
