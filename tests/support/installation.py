"""One Paddock installation for tests: its own PADDOCK_HOME, driven by the real command line and the real SDK.

Closing it asserts that nothing is left: no box, no process, no cgroup, no mount, no file.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from paddock import fs
from paddock.client import Paddock, starter
from paddock.client.answers import expect_object
from tests.support import contract

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "paddock"
IS_ROOT = os.getuid() == 0
_PASSED = ("PATH", "HOME", "LANG", "TMPDIR")


def until(condition: Callable[[], object], what: str, seconds: float = 30.0) -> None:
    """Wait for something that is bound to happen; fails by name when it does not."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            message = f"not within {seconds:.0f} s: {what}"
            raise AssertionError(message)
        time.sleep(0.01)


def children(pid: int) -> list[int]:
    """Living children of a process."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                fields = Path(f"/proc/{name}/stat").read_bytes().rsplit(b")", 1)[1].split()
            except OSError:
                continue
            if int(fields[1]) == pid and fields[0] != b"Z":
                found.append(int(name))
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rsplit(b")", 1)[1].split()[0] != b"Z"
    except OSError:
        return False


class Installation:
    is_open_to_us = True  # may this process ask its daemon itself, and not only the programs that it starts there?

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.home.mkdir()
        self.workspace = root / "workspace"
        self.workspace.mkdir()
        self.environ = {key: os.environ[key] for key in _PASSED if key in os.environ}
        self.environ["PADDOCK_HOME"] = str(self.home)

    def __repr__(self) -> str:
        return f"<Installation {self.home}>"

    @property
    def kind(self) -> tuple[str, ...]:
        """Options of every box that is made here: those of the test that runs."""
        return contract.current().options()

    @property
    def state(self) -> Path:
        return self.home / "state"

    def command(self, words: tuple[str, ...]) -> list[str]:
        """How the command line is started."""
        made = self.kind if words[:1] in {("run",), ("create",)} else ()
        return [str(PROGRAM), *words[:1], *made, *words[1:]]

    def cli(
        self,
        *words: str,
        stdin: bytes = b"",
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
        timeout_s: float = 60.0,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run `./paddock WORDS` as a user would, in the workspace."""
        return subprocess.run(
            self.command(words),
            input=stdin,
            capture_output=True,
            cwd=cwd or self.workspace,
            env={**self.environ, **(env or {})},
            timeout=timeout_s,
            check=False,
        )

    def spawn(self, *words: str, cwd: Path | None = None) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.command(words),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd or self.workspace,
            env=self.environ,
        )

    @property
    def program(self) -> Path:
        return PROGRAM

    def shell(self, script: str, *, cwd: Path | None = None) -> subprocess.CompletedProcess[bytes]:
        """A shell script on the host, in this installation's environment."""
        return subprocess.run(
            ["/bin/sh", "-c", script],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=cwd or self.workspace,
            env=self.environ,
            timeout=60,
            check=False,
        )

    def sh(self, script: str, *options: str) -> subprocess.CompletedProcess[bytes]:
        """A shell script in a box of its own."""
        return self.cli("run", *options, "--", "sh", "-c", script)

    def sdk(self) -> Paddock:
        return _Sdk(home=str(self.home))

    def status(self) -> dict[str, object]:
        done = self.cli("daemon", "status", "--json")
        value = json.loads(done.stdout)
        assert isinstance(value, dict)
        return value

    def daemon_pid(self) -> int:
        pid = self.status()["pid"]
        assert isinstance(pid, int)
        return pid

    def kill_daemon(self) -> int:
        """As a crash would: no warning, no clean-up."""
        pid = self.daemon_pid()
        pidfd = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            assert select.select([pidfd], [], [], 10)[0]  # all its threads are gone, and with them its descriptors
        finally:
            os.close(pidfd)
        return pid

    def clear(self) -> int:
        """Remove all boxes, and see their processes gone; returns the daemon's pid.

        It is done after every test: where a daemon runs, without starting a program.
        """
        with self.sdk() as sdk:
            if self.is_open_to_us and (running := starter.find(sdk.paths)):
                running.close()
                sdk.reset()
                pid = expect_object(sdk.call("status"))["pid"]
            else:  # perhaps there is none, which the command line starts where it belongs
                done = self.cli("reset", "-f")
                assert done.returncode == 0, done.stderr
                pid = self.daemon_pid()
        assert isinstance(pid, int)
        for launcher in children(pid):
            until(lambda pid=launcher: not children(pid), "every box is gone")  # type: ignore[misc]
        return pid

    def sweep(self) -> None:
        """Empty the workspace."""
        for entry in self.workspace.iterdir():
            fs.remove_tree(str(entry))

    def close(self) -> None:
        pid = self.clear()
        done = self.cli("daemon", "stop")
        assert done.returncode == 0, f"{done.stderr!r}\n{self._log_tail()}"
        until(lambda: not alive(pid), "the daemon ended")
        assert list((self.state / "boxes").iterdir()) == []
        assert list((self.state / "trash").iterdir()) == []
        left = _cgroups_of(self.state)
        assert left == [], f"{left}\n{self._log_tail()}"
        assert [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(self.home) in line] == []

    def _log_tail(self) -> str:
        return (self.state / "daemon.log").read_text(errors="replace")[-4000:]


class _Sdk(Paddock):
    """Makes boxes of the kind that the test is of."""

    def call(self, verb: str, **args: object) -> object:
        return super().call(verb, **contract.current().applied(args))

    def started(self, verb: str, **args: object) -> tuple[object, list[int]]:
        return super().started(verb, **contract.current().applied(args))


def _cgroups_of(state: Path) -> Sequence[str]:
    from paddock.daemon.main import tag
    from paddock.engines.process import cgroups

    found = cgroups.Cgroups(tag=tag(str(state)))
    trees = cgroups.find(tag(str(state))).trees if IS_ROOT else {}
    return [str(box) for box in cgroups.Cgroups(tag=found.tag, trees=trees).leftovers()]
