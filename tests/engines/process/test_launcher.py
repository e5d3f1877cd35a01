"""The launcher itself, spoken to over its own socket."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from paddock.engines.process import confine, kernel, launcher
from tests.support import namespaces
from tests.support.installation import alive, children, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.box

MAP = "0 1900000000 1"


class Spoken:
    def __init__(self, pid: int, control: socket.socket) -> None:
        self.pid, self.control = pid, control
        control.settimeout(20)

    def ask(self, fds: list[int] | None = None, **request: str) -> dict[str, Any]:
        socket.send_fds(self.control, [json.dumps(request).encode()], fds or [])
        return self.hear()

    def hear(self) -> dict[str, Any]:
        data, fds, _, _ = socket.recv_fds(self.control, 65536, 4)
        for fd in fds:
            os.close(fd)
        return {**json.loads(data), "fds": len(fds)}


@contextlib.contextmanager
def launched(prepare: Callable[[], None] = lambda: None, flags: int = 0) -> Iterator[Spoken]:
    """A launcher in a child of ours; `prepare` runs in it first."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def act() -> None:
        ours.close()
        prepare()
        sys.argv[1:] = [str(theirs.detach())]
        launcher.main()

    pid = namespaces.spawn(act, flags, as_id=1234)  # a launcher of root's would write maps
    theirs.close()
    try:
        spoken = Spoken(pid, ours)
        assert spoken.hear() == {"ready": True, "fds": 0}
        yield spoken
    finally:
        ours.close()
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, "it ends by itself when the daemon is gone"


@contextlib.contextmanager
def waiting(spoken: Spoken) -> Iterator[int]:
    """A box that waits for its plan."""
    plan, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener = os.open("/dev/null", os.O_RDONLY)
    with plan:
        with theirs:
            answer = spoken.ask([theirs.fileno(), listener], op="box", uid_map=MAP, gid_map=MAP)
        os.close(listener)
        yield answer["pid"]
    until(lambda: not alive(answer["pid"]), "the box that got no plan is gone")


def test_a_box_is_a_new_process_in_new_namespaces() -> None:
    with launched() as spoken, waiting(spoken) as pid:
        assert children(spoken.pid) == [pid]
        for kind in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup"):
            if kind == "user" or os.getuid() == 0:
                assert os.readlink(f"/proc/{pid}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}")


@pytest.mark.privileged
def test_a_root_callers_box_has_the_maps_it_was_given_before_it_does_anything() -> None:
    with launched() as spoken, waiting(spoken) as pid:
        assert Path(f"/proc/{pid}/uid_map").read_text().split() == MAP.split()
        assert Path(f"/proc/{pid}/setgroups").read_text() == "deny\n"


def test_the_launcher_keeps_nothing_of_the_boxes_it_makes() -> None:
    with launched() as spoken:
        before = sorted(os.listdir(f"/proc/{spoken.pid}/fd"))
        for _ in range(5):
            with waiting(spoken):
                assert sorted(os.listdir(f"/proc/{spoken.pid}/fd")) == before


def test_a_launcher_is_not_interrupted_with_its_terminal() -> None:
    with launched() as spoken:
        os.kill(spoken.pid, signal.SIGINT)
        with waiting(spoken) as pid:
            assert alive(pid)


def test_a_kernel_that_refuses_is_told_and_the_launcher_goes_on() -> None:
    def forbid() -> None:
        confine.write_file("/proc/sys/user/max_user_namespaces", "0")

    with launched(forbid, kernel.CLONE_NEWUSER) as spoken:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, theirs:
            for _ in range(2):
                answer = spoken.ask([theirs.fileno(), 0], op="box", uid_map="", gid_map="")
                assert (answer["errno"], answer["error"]) == (28, "[Errno 28] clone: No space left on device")
            assert children(spoken.pid) == []


@pytest.mark.privileged
def test_an_id_map_comes_as_one_descriptor() -> None:
    with launched() as spoken:
        assert spoken.ask(op="idmap", uid_map=MAP, gid_map=MAP) == {"fds": 1}
        answer = spoken.ask(op="idmap", uid_map="nonsense", gid_map=MAP)
        assert (answer["fds"], answer["errno"]) == (0, 22)
        until(lambda: not children(spoken.pid), "no process is left of either")


def test_a_launcher_has_its_own_keyring_and_no_groups() -> None:
    with launched() as spoken:
        groups = Path(f"/proc/{spoken.pid}/status").read_text().split("Groups:")[1].partition("\n")[0].split()
        assert groups == ([] if os.getuid() == 0 else [str(group) for group in os.getgroups()])
