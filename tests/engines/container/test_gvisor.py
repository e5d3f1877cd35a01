"""What gVisor is told, and which of its releases are good enough."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock.engines.container import gvisor, runtimes
from paddock.errors import Unavailable

if TYPE_CHECKING:
    from pathlib import Path


def program(place: Path, said: str) -> str:
    path = place / "runsc"
    path.write_text(f"#!/bin/sh\necho '{said}'\n")
    path.chmod(0o755)
    return os.fspath(path)


@pytest.mark.parametrize("said", ["runsc version 0.0~20240729.0", "runsc version release-20250101.0"])
def test_a_release_that_is_new_enough_is_taken(tmp_path: Path, said: str) -> None:
    gvisor.check(program(tmp_path, said))


@pytest.mark.parametrize("said", ["runsc version 0.0~20221219.0", "runsc version VERSION_MISSING", "", "20991231"])
def test_an_older_one_and_one_that_does_not_say_are_refused(tmp_path: Path, said: str) -> None:
    with pytest.raises(Unavailable) as found:
        gvisor.check(program(tmp_path, said))
    assert found.value.code == "old-runtime"
    assert str(gvisor.FLOOR) in found.value.hint
    assert "2022" in found.value.message or "version" in found.value.message


def test_it_is_taken_only_when_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "runsc version 0.0~20240729.0")
    monkeypatch.setattr(runtimes, "_PATH", os.fspath(tmp_path))
    with pytest.raises(Unavailable, match="is not installed"):
        runtimes.find()
    runtime, _ = runtimes.find("runsc")
    assert runtime.own_kernel


@pytest.mark.parametrize("way", ["link", "host", "none"])
def test_every_command_has_the_same_options_and_none_opens_the_hosts_sockets(way: gvisor.Network) -> None:
    made = gvisor.Commands(program="/p", place="/x", network=way)
    for argv in (made.run(), made.restore("/i"), made.save("/i"), made.wake(("/e",))):
        assert {"--directfs=false", "--overlay2=none", "--file-access=shared", "--ignore-cgroups"} <= {*argv}
        assert not [word for word in argv if "host-uds" in word or "host-fifo" in word]
    assert "--rootless" in gvisor.Commands(program="/p", place="/x", network=way, alone=True).run()


def test_a_stack_of_its_own_is_for_boxes_that_share_no_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gvisor, "has_links", lambda: True)
    assert gvisor.network(sealed=False, needs_loopback=True, has_ids=True) == "none"
    assert gvisor.network(sealed=True, needs_loopback=False, has_ids=True) == "link"
    assert gvisor.network(sealed=True, needs_loopback=True, has_ids=True) == "host"
    assert gvisor.network(sealed=True, needs_loopback=False, has_ids=False) == "host"
    monkeypatch.setattr(gvisor, "has_links", lambda: False)
    assert gvisor.network(sealed=True, needs_loopback=False, has_ids=True) == "host"


def test_links_are_tried_in_a_process_of_its_own() -> None:
    before = os.readlink("/proc/self/ns/net")
    gvisor.has_links.cache_clear()
    assert gvisor.has_links() in {True, False}
    assert os.readlink("/proc/self/ns/net") == before
