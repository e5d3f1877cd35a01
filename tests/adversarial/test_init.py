"""PROC-13: init has fallen to the agent. Whatever it says, client and daemon end with one clean error and live on.

A fake init takes the place of a box's socket, so that the real daemon and the real client parse its bytes.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pytest

from paddock import fs
from paddock.agents import Turn
from paddock.errors import PaddockError, Unavailable, UserError
from paddock.model import ExecSpec, TtySize
from tests.support import attack, contract
from tests.support.attack import PYTHON, inside
from tests.support.installation import IS_ROOT, alive, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from paddock.client import Box, Command, Paddock
    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.FULL

MESSAGE, STDIN, STDOUT, STDERR, FILE = range(5)


def frame(kind: int, payload: bytes) -> bytes:
    return struct.pack("!IB", len(payload), kind) + payload


def say(value: object) -> bytes:
    return frame(MESSAGE, json.dumps(value).encode())


STARTED = say({"event": "started", "pid": 7, "id": "x", "tty": False})


class FakeInit:
    """Listens where init did and sends every client the same bytes, for as long as it takes them."""

    def __init__(self, place: Path, answer: bytes, *, forever: bool = False, hold: bool = False) -> None:
        place.unlink(missing_ok=True)
        self._answer = answer
        self._forever = forever
        self._hold = hold
        self._listener = socket.socket(socket.AF_UNIX)
        directory = os.open(place.parent, os.O_PATH)
        self._listener.bind(f"/proc/self/fd/{directory}/{place.name}")
        os.close(directory)
        self._listener.listen(16)
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._serve, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(20)

    def _serve(self) -> None:
        while not self._stop.is_set():
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._talk, args=(peer,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _talk(self, peer: socket.socket) -> None:
        peer.settimeout(0.2)
        with peer, contextlib.suppress(OSError):
            with contextlib.suppress(TimeoutError):
                peer.recv(1 << 20)  # the request, whatever it is
            while True:
                self._send(peer)
                if not self._forever:
                    break
            while self._hold and not self._stop.is_set():
                with contextlib.suppress(TimeoutError):
                    if not peer.recv(1 << 16):
                        return

    def _send(self, peer: socket.socket) -> None:
        rest = memoryview(self._answer)
        while rest and not self._stop.is_set():
            with contextlib.suppress(TimeoutError):
                rest = rest[peer.send(rest) :]
        if self._stop.is_set():
            raise OSError


def socket_of(installation: Installation, box: Box) -> Path:
    return installation.state / "boxes" / box.refresh().id / "run" / "init.sock"


@pytest.fixture
def healthy(paddock: Paddock, installation: Installation) -> Iterator[Callable[[], None]]:
    """Afterwards another box works, the daemon is the same one, and it logged no failure of its own."""
    other = paddock.create("healthy", workspace=str(installation.workspace))
    assert other.exec(["true"]).ok
    daemon = installation.daemon_pid()
    log = installation.state / "daemon.log"
    logged = log.stat().st_size

    def check() -> None:
        begun = time.monotonic()
        with installation.sdk() as sdk:
            assert sdk.named("healthy").exec(["echo", "fine"]).stdout == b"fine\n"
        assert time.monotonic() - begun < 3

    yield check
    check()
    assert installation.daemon_pid() == daemon
    assert b"Traceback" not in log.read_bytes()[logged:]


NESTED = b"[" * 100_000 + b"]" * 100_000
ANSWERS: dict[str, bytes] = {
    "nothing": b"",
    "garbage": b"GET / HTTP/1.1\r\n\r\n" * 10,
    "zeros": bytes(100),
    "half a header": b"\x00\x00",
    "half a frame": struct.pack("!IB", 1000, MESSAGE) + b"{",
    "unknown kind": frame(9, b"x"),
    "kind 255": frame(255, b""),
    "huge length": struct.pack("!IB", 0xFFFFFFFF, MESSAGE) + b"x" * 1000,
    "just over the limit": struct.pack("!IB", (1 << 20) + 1, MESSAGE),
    "data over the limit": struct.pack("!IB", (1 << 16) + 1, STDOUT),
    "no json": frame(MESSAGE, b"{oops"),
    "no utf-8": frame(MESSAGE, b'{"event":"\xff"}'),
    "an array": frame(MESSAGE, b"[1,2]"),
    "a number": frame(MESSAGE, b"1"),
    "null": frame(MESSAGE, b"null"),
    "deep": frame(MESSAGE, NESTED),
    "deep in an object": frame(MESSAGE, b'{"a":' * 5000 + b"1" + b"}" * 5000),
    "not a number": frame(MESSAGE, b'{"event":"started","pid":NaN}'),
    "infinity": frame(MESSAGE, b'{"event":"started","pid":1e999}'),
    "twice the same key": frame(MESSAGE, b'{"event":"exit","event":"started","pid":1}'),
    "a million digits": frame(MESSAGE, b'{"event":"started","pid":' + b"9" * 500_000 + b"}"),
    "pid is text": say({"event": "started", "pid": "7"}),
    "pid is true": say({"event": "started", "pid": True}),
    "unknown event": say({"event": "surprise"}),
    "no event": say({}),
    "event is a list": say({"event": ["started"]}),
    "an error without words": say({"event": "error"}),
    "an error with odd words": say({"event": "error", "code": {"a": 1}, "message": ["\x1b[31m"], "errno": "x"}),
    "an endless error": say({"event": "error", "code": "c" * 10_000, "message": "\x1b]0;owned\x07" * 10_000}),
    "an end before the start": say({"event": "exit", "code": 0, "signal": None, "timed_out": False}),
    "output before the start": frame(STDOUT, b"hello"),
    "input as output": STARTED + frame(STDIN, b"hello"),
    "a file as output": STARTED + frame(FILE, b"hello"),
    "started and gone": STARTED,
    "started twice": STARTED + STARTED,
    "code is text": STARTED + say({"event": "exit", "code": "0"}),
    "code is true": STARTED + say({"event": "exit", "code": True}),
    "code is none": STARTED + say({"event": "exit", "code": None}),
    "code is huge": STARTED + say({"event": "exit", "code": 1 << 70}),
    "code is negative": STARTED + say({"event": "exit", "code": -1}),
    "code is a fraction": STARTED + say({"event": "exit", "code": 0.5}),
    "entries of a command": STARTED + say({"event": "entries", "entries": []}),
    "entries are no list": say({"event": "entries", "entries": {"a": 1}}),
    "an entry is no object": say({"event": "entries", "entries": [1]}),
    "an entry of wrong types": say({"event": "entries", "entries": [{"path": 1, "size": "x", "mode": None}]}),
    "an entry without a size": say({"event": "entry", "entry": {"path": "/x"}}),
    "processes are no list": say({"event": "processes", "processes": 7}),
}


PARTS = 6
BELIEVING = {"processes", "detach", "make_dir", "write", "watch", "stat"}


def _drain(command: Command) -> None:
    try:
        for _ in command.output():
            pass
    finally:
        command.close()


def verbs(box: Box) -> dict[str, Callable[[], object]]:
    """Everything a caller can ask of a box's init."""
    tty = TtySize(rows=24, cols=80)
    return {
        "exec": lambda: box.exec(["true"]),
        "exec with input": lambda: box.exec(["true"], stdin=b"x" * 500_000),
        "stream": lambda: _drain(box.start(ExecSpec(argv=("true",)))),
        "detach": lambda: box.detach(["true"]),
        "session": lambda: box.session(ExecSpec(argv=("agent",), tty=tty, keep=True), Turn()).finish(),
        "connect": lambda: box.connect("0" * 8).finish(),
        "processes": box.processes,
        "read": lambda: box.files.read("/etc/passwd"),
        "write": lambda: box.files.write("/tmp/x", b"x" * 500_000),
        "stat": lambda: box.files.stat("/tmp"),
        "list": lambda: box.files.list("/tmp"),
        "make_dir": lambda: box.files.make_dir("/tmp/x"),
        "watch": lambda: [*box.files.watch("/tmp")],
    }


def _error_of(act: Callable[[], object]) -> PaddockError | None:
    try:
        act()
    except PaddockError as error:
        return error
    return None


@pytest.mark.parametrize("part", range(PARTS))
def test_hostile_bytes_from_init_become_one_clean_error(
    box: Box, installation: Installation, healthy: Callable[[], None], part: int
) -> None:
    place = socket_of(installation, box)
    for what, answer in [*ANSWERS.items()][part::PARTS]:
        with FakeInit(place, answer):
            for name, act in verbs(box).items():
                error = _error_of(act)
                if error is None:  # some verbs take any message for their answer; a command never does
                    assert name in BELIEVING, (what, name)
                else:
                    assert len(error.message) < 1000, (what, name)
        healthy()


def test_a_truthful_fake_is_believed(box: Box, installation: Installation, healthy: Callable[[], None]) -> None:
    """The oracle: the errors above come from the bytes, not from the fake."""
    end = say({"event": "exit", "code": 7, "signal": None, "timed_out": False})
    with FakeInit(socket_of(installation, box), STARTED + frame(STDOUT, b"out") + frame(STDERR, b"err") + end):
        result = box.exec(["anything"])
    assert (result.exit_code, result.stdout, result.stderr) == (7, b"out", b"err")


@pytest.mark.parametrize("name", ["garbage", "deep", "an endless error", "a file as output", "nothing", "code is huge"])
def test_the_command_line_says_one_error_without_control_characters(
    box: Box, installation: Installation, healthy: Callable[[], None], name: str
) -> None:
    with FakeInit(socket_of(installation, box), ANSWERS[name]):
        acts = [["exec", "target", "true"], ["cp", "target:/etc/passwd", "copy"]]
        if not ANSWERS[name].startswith(STARTED):  # a detached command that began is believed
            acts.append(["exec", "-d", "target", "true"])
        for words in acts:
            done = installation.cli(*words)
            assert done.returncode not in {0, 1}, words
            lines = done.stderr.decode().splitlines()
            assert [line.partition(":")[0] for line in lines] == ["error", "hint"], done.stderr
            assert all(32 <= byte < 127 or byte == 10 for byte in done.stderr)
            assert len(done.stderr) < 2000


# -- a box must not keep the daemon from the others --------------------------------------------------------------------


def test_a_flood_instead_of_an_answer_does_not_stop_the_daemon(
    box: Box, installation: Installation, healthy: Callable[[], None]
) -> None:
    """Regression: reading frame after frame without a pause, the daemon served nobody else, and no timeout fired."""
    with FakeInit(socket_of(installation, box), frame(STDOUT, b"") * 10_000, forever=True):
        for act in (lambda: box.detach(["true"]), verbs(box)["session"]):
            with pytest.raises(PaddockError):
                act()
            healthy()


def test_an_init_that_takes_nobody_does_not_stop_the_daemon(
    box: Box, installation: Installation, healthy: Callable[[], None]
) -> None:
    """Regression: with a full queue every further connect stopped the daemon for five seconds."""
    place = socket_of(installation, box)
    place.unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen(0)
        full = []
        for _ in range(3):
            waiting = socket.socket(socket.AF_UNIX)
            waiting.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                waiting.connect(str(place))
            full.append(waiting)
        worst = 0.0
        with installation.sdk() as sdk, contextlib.ExitStack() as stack:
            for waiting in full:
                stack.enter_context(waiting)
            stack.enter_context(attack.background(lambda: _try_often(installation, 5)))
            for _ in range(20):
                begun = time.monotonic()
                sdk.ls()
                worst = max(worst, time.monotonic() - begun)
                time.sleep(0.02)
        assert worst < 1.0


def _try_often(installation: Installation, times: int) -> None:
    with installation.sdk() as sdk:
        for _ in range(times):
            with contextlib.suppress(PaddockError):
                sdk.named("target").exec(["true"])


def test_a_slow_drip_holds_up_only_the_one_who_asked(
    box: Box, installation: Installation, healthy: Callable[[], None]
) -> None:
    with FakeInit(socket_of(installation, box), struct.pack("!IB", 1000, MESSAGE), hold=True):
        command = box.start(ExecSpec(argv=("true",)))
        healthy()
        command.channel.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            command.wait_started()
        command.close()
    box.stop(grace_s=0.1)
    assert not box.refresh().pid


def test_a_box_whose_init_is_a_fake_can_still_be_ended(box: Box, installation: Installation) -> None:
    pid = box.refresh().pid
    assert pid is not None
    with FakeInit(socket_of(installation, box), say({"event": "done"}), hold=True):
        begun = time.monotonic()
        box.stop(grace_s=0.2)
        assert time.monotonic() - begun < 10
        assert not alive(pid)


# -- journals ----------------------------------------------------------------------------------------------------------


def forged_end(code: int, **more: object) -> bytes:
    return say({"event": "exit", "code": code, "signal": None, "timed_out": False, **more})


def test_a_command_cannot_forge_its_own_end_in_the_journal(box: Box, installation: Installation) -> None:
    """Regression: output that looked like the last frame was taken for it while the command ran."""
    lie = forged_end(0)
    program = f"import sys, os; os.write(1, {lie!r}); sys.stdin = None; import time; time.sleep(600)"
    job = box.detach([PYTHON, "-I", "-c", program])
    directory = installation.state / "boxes" / box.refresh().id / "journal"
    until(lambda: any(path.read_bytes().endswith(lie) for path in directory.iterdir()), "the lie is in the journal")
    state = {row.id: row for row in box.jobs()}[job]
    assert (state.running, state.exit_code) == (True, None)
    truthful = box.detach(["sh", "-c", "exit 3"])  # the oracle: a real end is seen
    until(lambda: not {row.id: row.running for row in box.jobs()}[truthful], "the real end is seen")
    assert {row.id: row.exit_code for row in box.jobs()}[truthful] == 3


def test_a_lie_in_the_older_half_does_not_outlive_the_truth(box: Box) -> None:
    lie = forged_end(0)
    program = f"""
import os, sys
half = {32 << 20}
block = bytes(65536 - 5)
for _ in range(half // 65536 - 2):
    os.write(1, block)
os.write(1, bytes(half)[: 65000] + {lie!r})
for _ in range(300):
    os.write(1, block)
sys.exit(9)
"""
    job = box.detach([PYTHON, "-I", "-c", program])
    until(lambda: {row.id: row.exit_code for row in box.jobs()}[job] is not None, "the command ended", 60)
    assert {row.id: row.exit_code for row in box.jobs()}[job] == 9


JOURNALS: dict[str, bytes] = {
    "empty": b"",
    "garbage": os.urandom(5000),
    "huge length": struct.pack("!IB", 0xFFFFFFFF, MESSAGE),
    "code is true": forged_end(True),
    "code is huge": forged_end(1 << 70),
    "no code": say({"event": "exit"}),
    "a deep message": frame(MESSAGE, NESTED),
    "sequence is huge": say({"event": "segment", "sequence": 1 << 70, "dropped": 0}) + frame(STDOUT, b"x"),
    "sequence is text": say({"event": "segment", "sequence": "0"}) + frame(STDOUT, b"x"),
    "an error with escapes": say({"event": "segment", "sequence": 0, "dropped": 0})
    + say({"event": "error", "message": "\x1b[31m\x07" * 1000, "code": 7}),
    "unknown kinds": say({"event": "segment", "sequence": 0, "dropped": 0}) + frame(77, b"x"),
}


@pytest.mark.parametrize("content", JOURNALS.values(), ids=JOURNALS)
def test_hostile_journals_are_read_without_harm(
    box: Box, installation: Installation, healthy: Callable[[], None], content: bytes
) -> None:
    job = box.detach(["sleep", "600"])
    directory = installation.state / "boxes" / box.refresh().id / "journal"
    for half in ("0", "1"):
        (directory / f"{job}.{half}").write_bytes(content)
    state = {row.id: row for row in box.jobs()}[job]
    assert state.exit_code is None
    for words in (["logs", f"target/{job}"], ["logs", "--list", "target"]):
        done = installation.cli(*words)
        assert b"Traceback" not in done.stderr
        assert done.returncode in {0, 125}
        assert b"\x1b" not in done.stderr


def test_a_journal_that_became_a_link_is_not_followed(box: Box, installation: Installation, tmp_path: Path) -> None:
    """A box cannot reach its journals; should they ever be links, nothing is read through them."""
    secret = tmp_path / "secret"
    secret.write_bytes(say({"event": "segment", "sequence": 0, "dropped": 0}) + frame(STDOUT, b"secret"))
    job = box.detach(["true"])
    until(lambda: not {row.id: row.running for row in box.jobs()}[job], "the command ended")
    directory = installation.state / "boxes" / box.refresh().id / "journal"
    for half in ("0", "1"):
        (directory / f"{job}.{half}").unlink()
        (directory / f"{job}.{half}").symlink_to(secret)
    done = installation.cli("logs", f"target/{job}")
    assert (done.returncode, done.stdout) == (125, b"")
    found = inside(box, "say([path for path, _, _ in os.walk('/') if path.endswith('/journal')])")
    assert found == []  # and from inside there is none to be replaced


# -- who answers is asked of the kernel --------------------------------------------------------------------------------

PONG = say({"event": "pong", "processes": 0})


def restart(installation: Installation) -> None:
    """A daemon that finds what its predecessor left."""
    installation.kill_daemon()
    assert installation.cli("ls").returncode == 0


def stopped_box(installation: Installation) -> tuple[Box, Path]:
    with installation.sdk() as sdk:
        box = sdk.create("stopped", workspace=str(installation.workspace))
        assert box.exec(["true"]).ok
        place = socket_of(installation, box)
        box.stop()
        return box, place


def test_a_stranger_on_a_boxs_socket_is_not_taken_for_the_box(own_installation: Installation) -> None:
    """Nor killed in its place: here the stranger is the test itself, which has the daemon's own uid."""
    box, place = stopped_box(own_installation)
    with FakeInit(place, PONG, hold=True):
        restart(own_installation)
        with own_installation.sdk() as sdk:
            assert sdk.get(box.name).info.pid is None
    with own_installation.sdk() as sdk:
        assert sdk.named(box.name).exec(["echo", "fine"]).stdout == b"fine\n"


@pytest.mark.parametrize("what", ["file", "link"])
def test_what_is_no_socket_in_its_place_does_not_keep_the_daemon_down(
    own_installation: Installation, what: str
) -> None:
    box, place = stopped_box(own_installation)
    if what == "file":
        place.write_text("x")
    else:
        place.symlink_to("/dev/null")
    restart(own_installation)
    with own_installation.sdk() as sdk:
        assert sdk.named(box.name).exec(["echo", "fine"]).stdout == b"fine\n"


@pytest.mark.parametrize(
    "answer", [b"", os.urandom(100), frame(STDOUT, b"x"), say([1])], ids=["silence", "noise", "bytes", "list"]
)
def test_an_odd_answer_about_identity_is_no_identity(own_installation: Installation, answer: bytes) -> None:
    box, place = stopped_box(own_installation)
    with FakeInit(place, answer, hold=True):
        restart(own_installation)
        with own_installation.sdk() as sdk:
            assert sdk.get(box.name).info.pid is None


ANSWER_AS = """
import os, socket, sys
listener = socket.socket(fileno=int(sys.argv[1]))
print(os.getpid(), flush=True)
while True:
    peer, _ = listener.accept()
    peer.recv(100)
    peer.sendall(bytes.fromhex(sys.argv[2]))
"""


@pytest.mark.privileged
def test_another_process_of_the_box_is_not_taken_for_init(own_installation: Installation) -> None:
    """With init's uid and below its namespace, but not its first process: its end would not end the box."""
    box, place = stopped_box(own_installation)
    with own_installation.sdk() as sdk:
        living = sdk.create("living", workspace=str(own_installation.workspace))
        assert living.exec(["true"]).ok
        pid = living.refresh().pid
        assert sdk.named(box.name).exec(["true"]).ok
        status = Path(f"/proc/{sdk.get(box.name).info.pid}/status").read_text()
        sdk.named(box.name).stop()
    uid = status.split("Uid:")[1].split()[0]
    with fs.bind_unix(str(place.parent), place.name) as listener:
        listener.listen()
        argv = ["nsenter", "--target", str(pid), "--pid", "--", "setpriv", f"--reuid={uid}", "--clear-groups"]
        argv += [PYTHON, "-I", "-c", ANSWER_AS, str(listener.fileno()), PONG.hex()]
        with subprocess.Popen(argv, pass_fds=[listener.fileno()], stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None
                assert int(process.stdout.readline()) > 1
                restart(own_installation)
                with own_installation.sdk() as sdk:
                    assert sdk.get(box.name).info.pid is None
            finally:
                process.kill()


def test_a_box_started_just_before_its_daemon_died_is_found_by_who_answers(own_installation: Installation) -> None:
    """The oracle of all of the above: the real init, asked without a record, is believed."""
    import sqlite3

    with own_installation.sdk() as sdk:
        box = sdk.create("running", workspace=str(own_installation.workspace))
        assert box.exec(["true"]).ok
        pid = box.refresh().pid
    daemon = own_installation.kill_daemon()
    assert not alive(daemon)
    with contextlib.closing(sqlite3.connect(own_installation.state / "paddock.db")) as database:
        database.execute("update boxes set state = 'stopped', pid = null, start_ticks = null, boot_id = null")
        database.commit()
    with own_installation.sdk() as sdk:
        assert sdk.get("running").info.pid == pid
        assert sdk.named("running").exec(["echo", "fine"]).stdout == b"fine\n"


def test_errors_of_init_keep_their_kind(box: Box) -> None:
    """The oracle of the clean errors: an honest init's refusals arrive as what they are."""
    with pytest.raises(UserError) as missing:
        box.files.read("/nowhere")
    assert missing.value.code == "no-file"
    with pytest.raises(UserError) as absent:
        box.exec(["no-such-program"])
    assert absent.value.exit_code == 127
    assert not isinstance(absent.value, Unavailable)
    assert IS_ROOT or os.getuid() != 0
