"""A version is whole or not there, nobody writes to it afterwards, and the one installed last is used."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from paddock.errors import Unavailable, UserError
from paddock.tools import Store
from tests.support.installation import ROOT, until
from tests.support.tools import publish


def _store(tmp_path: Path) -> Store:
    return Store(f"{tmp_path}/tools")


def _nobody(_tree: str) -> tuple[str, ...]:
    return ()


def test_an_empty_store_has_nothing_and_makes_nothing(tmp_path: Path) -> None:
    store = _store(tmp_path)
    assert (store.names(), store.versions("demo"), store.current("demo"), store.find("demo", "1.0")) == (
        (),
        (),
        None,
        None,
    )
    assert list(tmp_path.iterdir()) == []


def test_what_is_installed_last_is_used(tmp_path: Path) -> None:
    for version in ("2.0.0", "1.0.0"):
        publish(tmp_path, version)
    store = _store(tmp_path)
    tool = store.current("demo")
    assert tool is not None
    assert tool.record.version == "1.0.0"
    assert store.names() == ("demo",)
    assert store.versions("demo") == ("1.0.0", "2.0.0")
    assert tool.program == "/opt/paddock/demo/bin/demo"
    assert (tool.mount.source, tool.mount.target, tool.mount.read_only) == (tool.tree, "/opt/paddock/demo", True)


def test_no_file_of_a_tool_has_a_bit_to_write_by(tmp_path: Path) -> None:
    tool = publish(tmp_path)
    places = [tool.tree, *(f"{at}/{name}" for at, names, files in os.walk(tool.tree) for name in (*names, *files))]
    assert len(places) == 4
    assert all(not os.lstat(place).st_mode & 0o222 for place in places)
    assert os.stat(f"{tool.tree}/bin/demo").st_mode & stat.S_IXOTH


def test_a_file_that_changed_is_named(tmp_path: Path) -> None:
    tool = publish(tmp_path)
    assert tool.changed() == ()
    os.chmod(f"{tool.tree}/data", 0o644)
    assert tool.changed() == ("data",)
    Path(tool.tree, "data").write_text("else!")
    os.chmod(f"{tool.tree}/data", 0o444)
    assert tool.changed() == ("data",)
    manifest = Path(tool.directory, "manifest")
    manifest.write_text(manifest.read_text().replace("data", "date"))
    assert tool.changed() == ("manifest",), "who changes both is found by the record"


@pytest.mark.parametrize("damage", ["{", "[]", '{"name": "demo"}', "\xff"])
def test_a_damaged_record_is_said_and_can_be_removed(tmp_path: Path, damage: str) -> None:
    tool = publish(tmp_path)
    Path(tool.directory, "record.json").write_text(damage, "latin-1")
    store = _store(tmp_path)
    with pytest.raises(Unavailable) as caught:
        store.current("demo")
    assert "paddock agent rm demo" in caught.value.hint
    store.remove("demo", "1.0.0", _nobody)
    assert store.names() == ()


@pytest.mark.parametrize("name", ["", "..", "a/b", "A", ".hidden", "a b", "-x", "x" * 80])
def test_a_name_is_no_path(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError):
        _store(tmp_path).find(name, "1.0")


@pytest.mark.parametrize("version", ["", "..", "1/2", ".1", "1..2", "current", "-1", "1 ", "1" * 80])
def test_a_version_is_no_path(tmp_path: Path, version: str) -> None:
    with pytest.raises(UserError):
        _store(tmp_path).find("demo", version)


def test_a_version_that_is_used_stays(tmp_path: Path) -> None:
    tool = publish(tmp_path)
    asked = []

    def users(tree: str) -> tuple[str, ...]:
        asked.append((tree, os.path.exists(tree)))
        return ("demo-project",)

    with pytest.raises(UserError, match="used by demo-project"):
        _store(tmp_path).remove("demo", "1.0.0", users)
    assert asked == [(tool.tree, False)], "no box can begin to use it while it is asked about"
    assert _store(tmp_path).current("demo") == tool
    assert tool.changed() == ()


def test_after_a_removal_the_last_of_the_others_is_used(tmp_path: Path) -> None:
    for version in ("1.0.0", "3.0.0", "2.0.0"):
        publish(tmp_path, version)
    store = _store(tmp_path)
    assert store.remove("demo", "2.0.0", _nobody) == "3.0.0"
    assert store.remove("demo", "1.0.0", _nobody) == "3.0.0"
    assert store.remove("demo", "3.0.0", _nobody) == ""
    assert sorted(os.listdir(store.directory)) == [".lock"]


def test_a_current_version_that_is_gone_is_the_last_of_the_others(tmp_path: Path) -> None:
    for version in ("1.0.0", "2.0.0", "3.0.0"):
        publish(tmp_path, version)
    os.rename(tmp_path / "tools/demo/3.0.0", tmp_path / "elsewhere")  # as by a removal that was killed
    tool = _store(tmp_path).current("demo")
    assert tool is not None
    assert tool.record.version == "2.0.0"


_KILLED = """
import os, signal, sys
from paddock.tools import Store
store = Store(sys.argv[1])
with store.turn(), store.stage() as room:
    os.makedirs(f"{room.scratch}/node_modules/x")
    os.makedirs(f"{room.new}/tree")
    print(room.scratch, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_an_install_that_is_killed_leaves_nothing_that_the_next_one_does_not_remove(tmp_path: Path) -> None:
    store = _store(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", _KILLED, store.directory],
        env={"PYTHONPATH": f"{ROOT}/src"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    scratch = Path(done.stdout.strip())
    assert done.returncode == -signal.SIGKILL
    assert scratch.is_dir()
    assert store.names() == ()
    assert len(os.listdir(store.directory)) == 2
    publish(tmp_path)
    assert not scratch.exists()
    assert sorted(os.listdir(store.directory)) == [".lock", "demo"]


def test_two_installs_take_turns(tmp_path: Path) -> None:
    store = _store(tmp_path)
    order: list[str] = []

    def other() -> None:
        with store.turn():
            order.append("second")

    with store.turn():
        thread = threading.Thread(target=other)
        thread.start()
        until(thread.is_alive, "it waits")
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]
    with store.turn(), pytest.raises(Unavailable, match="is locked by process"), store.turn(wait_s=0.05):
        pass
