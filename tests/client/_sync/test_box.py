"""Boxes of the SDK on blocking calls."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.model import BoxState
from tests.support import contract
from tests.support.installation import until

if TYPE_CHECKING:
    from paddock.client import Box, Paddock
    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.FULL


def test_leaving_a_box_as_a_context_removes_it_running_or_not(paddock: Paddock, installation: Installation) -> None:
    with paddock.create("mine", workspace=str(installation.workspace)) as made:
        made.exec(["true"])
        assert made.refresh().state is BoxState.RUNNING
    assert paddock.ls() == []


def test_a_box_by_name_alone_is_asked_for_only_when_used(paddock: Paddock) -> None:
    named = paddock.named("nobody")
    assert repr(named) == "<Box nobody not asked>"
    with pytest.raises(UserError, match="was not looked up"):
        _ = named.info
    with pytest.raises(UserError) as caught:
        named.exec(["true"])
    assert caught.value.code == "no-box"


def test_a_box_stops_and_starts_with_its_next_command(box: Box) -> None:
    box.exec(["sh", "-c", "echo kept > ~/file"])
    pid = box.refresh().pid
    box.stop()
    assert (box.refresh().state, box.info.pid) == (BoxState.STOPPED, None)
    assert box.exec(["sh", "-c", "cat ~/file"]).stdout == b"kept\n"
    assert box.refresh().pid != pid


def test_a_box_goes_back_to_a_checkpoint_and_forks(paddock: Paddock, box: Box) -> None:
    box.exec(["sh", "-c", "echo one > ~/file"])
    made = box.checkpoint("first")
    assert (made.box, made.name, made.parts[-1]) == (box.name, "first", "home")
    box.exec(["sh", "-c", "echo two > ~/file"])
    forks = [*box.fork(2), *box.fork(checkpoint="first")]
    try:
        assert [one.exec(["sh", "-c", "cat ~/file"]).stdout for one in forks] == [b"two\n", b"two\n", b"one\n"]
        box.restore("first")
        assert box.exec(["sh", "-c", "cat ~/file"]).stdout == b"one\n"
        [listed] = box.checkpoints()
        assert (listed.name, listed.disk_bytes > 0) == ("first", True)
        with pytest.raises(UserError, match="no checkpoint"):
            box.restore("second")
    finally:
        for one in forks:
            one.remove(force=True)


def test_the_environment_changes_without_a_restart(box: Box) -> None:
    box.exec(["true"])
    pid = box.refresh().pid
    box.set_env({"A": "1", "B": "2"})
    assert box.exec(["sh", "-c", "echo $A$B"]).stdout == b"12\n"
    box.set_env({"A": "3"}, unset=["B"])
    assert box.exec(["sh", "-c", "echo $A$B"]).stdout == b"3\n"
    assert box.exec(["sh", "-c", "echo $A"], env={"A": "for one command"}).stdout == b"for one command\n"
    assert (box.info.env_names, box.refresh().pid) == (("A",), pid)


def test_a_plan_names_the_workspace(box: Box, installation: Installation) -> None:
    assert any(str(installation.workspace) in line for line in box.plan())


def test_a_detached_command_runs_on_and_is_journalled(paddock: Paddock, box: Box) -> None:
    job = box.detach(["sh", "-c", "echo out; exit 6"])
    until(lambda: not box.jobs()[0].running, "it ended")
    (info,) = box.jobs()
    assert (info.id, info.argv, info.exit_code) == (job, ("sh", "-c", "echo out; exit 6"), 6)
    found, fds = paddock.journal("sdk", job)
    assert found == info
    assert b"out\n" in os.pread(fds[0], 4096, 0)
    for fd in fds:
        os.close(fd)
    with pytest.raises(UserError) as caught:
        paddock.journal("sdk", "nothing")
    assert caught.value.code == "no-job"
