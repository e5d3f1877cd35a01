"""Starting a command: the message init gets, the files of its journal, and init's answer as hostile bytes."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock import frames, limits
from paddock.errors import PaddockError, Unavailable, UserError
from paddock.model import EngineName, ExecSpec, ImageRun, TtySize
from paddock.runtime import commands

if TYPE_CHECKING:
    from pathlib import Path


# -- the message -------------------------------------------------------------------------------------------------------


def test_a_command_is_told_in_full() -> None:
    spec = ExecSpec(argv=("a", "b"), env={"A": "2"}, cwd="sub", stdin=True, timeout_s=5.0)
    assert commands.start_message(spec, "job", {"A": "1", "B": "1"}, "/w") == {
        "op": "start",
        "id": "job",
        "argv": ["a", "b"],
        "env": {"A": "2", "B": "1", "PAGER": "cat", "GIT_PAGER": "cat"},
        "cwd": "/w/sub",
        "tty": None,
        "stdin": True,
        "keep": False,
        "main": False,
        "detached": False,
        "timeout_s": 5.0,
        "journal_bytes": 0,
    }


@pytest.mark.parametrize(
    ("cwd", "found"), [("", "/w"), (".", "/w"), ("..", "/"), ("/x", "/x"), ("a/../b", "/w/b"), ("/../..", "/")]
)
def test_a_directory_begins_at_the_boxs_own(cwd: str, found: str) -> None:
    assert commands.start_message(ExecSpec(argv=("x",), cwd=cwd), "j", {}, "/w")["cwd"] == found


@pytest.mark.parametrize(("keep", "detach", "journalled"), [(False, False, 0), (True, False, 1), (False, True, 1)])
def test_what_may_outlive_its_caller_is_journalled(keep: bool, detach: bool, journalled: int) -> None:
    message = commands.start_message(ExecSpec(argv=("x",), keep=keep, detach=detach), "j", {}, "/")
    assert message["journal_bytes"] == limits.JOURNAL_BYTES * journalled
    assert (message["keep"], message["detached"]) == (bool(journalled), detach)


def test_a_journal_alone_keeps_the_output_and_not_the_command() -> None:
    message = commands.start_message(ExecSpec(argv=("x",), journal=True), "j", {}, "/")
    assert message["journal_bytes"] == limits.RUN_JOURNAL_BYTES
    assert (message["keep"], message["detached"]) == (False, False)
    small = commands.start_message(ExecSpec(argv=("x",), journal=True), "j", {}, "/", 4096)
    assert small["journal_bytes"] == 4096
    both = commands.start_message(ExecSpec(argv=("x",), journal=True, keep=True), "j", {}, "/")
    assert both["journal_bytes"] == limits.JOURNAL_BYTES


@pytest.mark.parametrize(("env", "term"), [({}, "xterm-256color"), ({"TERM": "vt100"}, "vt100")])
def test_a_terminal_has_a_name(env: dict[str, str], term: str) -> None:
    message = commands.start_message(ExecSpec(argv=("x",), env=env, tty=TtySize(rows=1, cols=2)), "j", {}, "/")
    assert message["tty"] == {"rows": 1, "cols": 2}
    assert message["env"] == {"TERM": term}


@pytest.mark.parametrize("user", ["", "agent"])
def test_the_boxs_own_user_may_be_named(user: str) -> None:
    commands.check_user(user)


@pytest.mark.parametrize("user", ["root", "0", "nobody", "agent "])
def test_any_other_user_is_refused_with_what_would_have_one(user: str) -> None:
    with pytest.raises(UserError, match="has no user") as caught:
        commands.check_user(user)
    assert "-t base" in caught.value.hint


def test_a_box_with_a_root_of_its_own_knows_its_users_itself() -> None:
    commands.check_user("anybody", EngineName.CONTAINER)
    image = ImageRun(user="me", entrypoint=("/start",), command=("it",), workdir="/srv")
    own = commands.start_message(ExecSpec(argv=("x",)), "j", {}, "/w", image=image)
    assert (own["user"], own.get("login"), own["cwd"]) == ("me", None, "/w")
    other = commands.start_message(ExecSpec(argv=("x",), user="root"), "j", {}, "/w", image=image)
    assert (other["user"], other["login"]) == ("root", True)
    assert "user" not in commands.start_message(ExecSpec(argv=("x",)), "j", {}, "/w")


def test_what_a_template_runs_is_its_entrypoint_and_what_follows_that() -> None:
    image = ImageRun(entrypoint=("/start",), command=("it",), workdir="/srv")
    whole = commands.start_message(ExecSpec(argv=(), of_image=True), "j", {}, "/w", image=image)
    assert (whole["argv"], whole["cwd"]) == (["/start", "it"], "/srv")
    assert commands.argv(ExecSpec(argv=("other",), of_image=True), image) == ("/start", "other")
    assert commands.argv(ExecSpec(argv=("other",)), image) == ("other",)
    for none in (ImageRun(), None):
        with pytest.raises(UserError, match="no command of its own"):
            commands.argv(ExecSpec(argv=(), of_image=True), none)


def test_job_ids_do_not_repeat() -> None:
    assert len({commands.new_job_id() for _ in range(1000)}) == 1000


# -- journal files -----------------------------------------------------------------------------------------------------


def test_journal_files_are_new_private_and_closed_again(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    with commands.journal_files(os.fspath(tmp_path), "job") as fds:
        assert [os.fstat(fd).st_mode & 0o777 for fd in fds] == [0o600, 0o600]
    for fd in fds:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)


@pytest.mark.parametrize("name", ["job.0", "job.1"])
def test_a_file_or_link_in_the_way_is_not_written(tmp_path: Path, name: str) -> None:
    (tmp_path / "journal").mkdir()
    target = tmp_path / "target"
    target.write_text("precious")
    (tmp_path / "journal" / name).symlink_to(target)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(FileExistsError), commands.journal_files(os.fspath(tmp_path), "job"):
        pass
    assert target.read_text() == "precious"
    assert len(os.listdir("/proc/self/fd")) == before


# -- the answer --------------------------------------------------------------------------------------------------------


def _asked(answer: bytes, *, close: bool = True) -> frames.Message:
    async def act() -> frames.Message:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.sendall(answer)
            if close:
                theirs.shutdown(socket.SHUT_WR)
            return await commands.ask(ours, {"op": "ping"})

    return asyncio.run(act())


def test_the_first_message_is_the_answer() -> None:
    assert _asked(frames.encode_message({"event": "a"}) * 2) == {"event": "a"}


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "gone"),
        (b"\xff" * 20, "protocol"),
        (frames.encode_message({"event": "a"})[:-1], "gone"),
        (frames.HEADER.pack(2, frames.MESSAGE) + b"[]", "protocol"),
        (frames.encode(frames.STDOUT, b"noise") + frames.encode_message({"event": "a"}), "protocol"),
    ],
)
def test_a_box_that_says_nothing_of_use_is_unavailable(data: bytes, code: str) -> None:
    with pytest.raises(Unavailable) as caught:
        _asked(data)
    assert caught.value.code == code


@given(st.binary(max_size=100))
def test_any_answer_is_a_message_or_an_error_of_ours(data: bytes) -> None:
    try:
        commands.expect(_asked(data), "pong")
    except PaddockError:
        return


def test_a_box_that_does_not_answer_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "REPLY_TIMEOUT_S", 0.05)
    with pytest.raises(Unavailable) as caught:
        _asked(b"", close=False)
    assert caught.value.code == "no-answer"


def test_a_box_that_does_not_read_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "REPLY_TIMEOUT_S", 0.05)

    async def act() -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs, pytest.raises(Unavailable, match="does not answer"):
            await commands.ask(ours, {"op": "x" * 1_000_000})

    asyncio.run(act())


@pytest.mark.parametrize(
    ("message", "kind", "code"),
    [
        ({"event": "error", "code": "not-found", "message": "m"}, UserError, "not-found"),
        ({"event": "error", "code": "protocol"}, Unavailable, "protocol"),
        ({"event": "error"}, Unavailable, "protocol"),
        ({"event": "other"}, Unavailable, "protocol"),
        ({}, Unavailable, "protocol"),
        ({"event": "error", "code": ["x"] * 100, "message": {"a": 1}}, UserError, str(["x"] * 100)[:40]),
    ],
)
def test_what_was_not_expected_is_an_error_of_ours(
    message: frames.Message, kind: type[PaddockError], code: str
) -> None:
    with pytest.raises(kind) as caught:
        commands.expect(message, "started")
    assert caught.value.code == code
    assert len(caught.value.message) < 500


def test_descriptors_go_with_a_message_larger_than_the_socket_takes_at_once(tmp_path: Path) -> None:
    received: list[bytes] = []

    def read_all(sock: socket.socket) -> list[int]:
        data, fds, _, _ = socket.recv_fds(sock, 65536, 4)
        received.append(data)
        while sum(map(len, received)) < 900_000:
            received.append(sock.recv(65536))
        return list(fds)

    async def act() -> int:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            reading = asyncio.to_thread(read_all, theirs)
            task = asyncio.create_task(reading)
            await commands.send(ours, {"op": "x" * 900_000}, [0, 1])
            fds = await task
            for fd in fds:
                os.close(fd)
            return len(fds)

    assert asyncio.run(act()) == 2
