"""What a box or the daemon says becomes a value or an error of ours, whatever it is."""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock import frames
from paddock.client import answers
from paddock.errors import PaddockError, Unavailable, UserError
from paddock.limits import FRAME_DATA_BYTES
from paddock.model import EngineName, ExecResult, Limits, Mount

if TYPE_CHECKING:
    from pathlib import Path

_numbers = st.sampled_from([-1, 0, 1, 1 << 63, 10**400, -(10**400)]) | st.floats(allow_nan=False, allow_infinity=False)
_json = st.recursive(
    st.none() | st.booleans() | _numbers | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
_KEYS = ["event", "code", "signal", "timed_out", "pid", "tty", "message", "errno", "path", "kind", "size", "mode"]
_KEYS += ["mtime", "link", "entries"]
_messages = st.dictionaries(st.sampled_from(_KEYS), _json | st.sampled_from(["error", "exit", "started"]))


@given(_messages)
def test_no_message_of_a_box_raises_anything_but_our_errors(message: dict[str, object]) -> None:
    payload = json.dumps(message).encode()
    for parse in (
        lambda: answers.message((frames.MESSAGE, payload)),
        lambda: answers.started((frames.MESSAGE, payload)),
        lambda: answers.exited(payload),
        lambda: answers.entry(message),
        lambda: answers.change(message),
        lambda: answers.refusal(message),
    ):
        with contextlib.suppress(PaddockError):
            parse()


@given(st.integers(0, 4), st.binary(max_size=100))
def test_no_bytes_of_a_box_raise_anything_but_our_errors(kind: int, payload: bytes) -> None:
    for parse in (answers.message, answers.started, answers.output_of):
        try:
            parse((kind, payload))
        except PaddockError:
            continue


@pytest.mark.parametrize("kind", [frames.MESSAGE, frames.STDIN, frames.FILE])
def test_only_output_is_output(kind: int) -> None:
    with pytest.raises(Unavailable, match="out of turn"):
        answers.output_of((kind, b"x"))
    assert answers.output_of((frames.STDOUT, b"x")) == (frames.STDOUT, b"x")


def test_a_box_that_hung_up_is_unavailable() -> None:
    with pytest.raises(Unavailable) as caught:
        answers.message(None)
    assert caught.value.code == "gone"


@pytest.mark.parametrize(
    ("code", "exit_code"), [("not-found", 127), ("not-executable", 126), ("bad-cwd", 126), ("no-file", 2), (None, 2)]
)
def test_a_refusal_ends_the_command_line_as_a_shell_would(code: str | None, exit_code: int) -> None:
    error = answers.refusal({"event": "error", "code": code, "message": "m"})
    assert isinstance(error, UserError)
    assert error.exit_code == exit_code


def test_a_refusal_is_short_whatever_the_box_says() -> None:
    error = answers.refusal({"code": "c" * 10_000, "message": "m" * 10_000})
    assert (len(error.code), len(error.message)) == (40, 400)


def test_an_end_is_a_result() -> None:
    payload = json.dumps({"event": "exit", "code": 137, "signal": 9, "timed_out": False}).encode()
    result = answers.ended(answers.exited(payload), b"out", b"err")
    assert result == ExecResult(exit_code=137, signal=9, stdout=b"out", stderr=b"err")
    assert not result.ok


@pytest.mark.parametrize("message", [{"event": "started"}, {"event": "exit"}, {"event": "exit", "code": "0"}, {}])
def test_what_is_no_end_is_refused(message: dict[str, object]) -> None:
    with pytest.raises(Unavailable):
        answers.exited(json.dumps(message).encode())


def test_a_file_of_a_box() -> None:
    row = {"path": "/a", "kind": "file", "size": 5, "mode": 0o100644, "mtime": 1.5, "uid": 0, "gid": 0}
    assert answers.entry(row) == answers.Entry(path="/a", kind="file", size=5, mode=0o644, mtime=1.5)


@pytest.mark.parametrize("mtime", [10**400, -(10**400), "x", None, [], 1e300])
def test_a_time_that_no_clock_shows_is_none(mtime: object) -> None:
    assert answers.entry({"size": 0, "mode": 0, "mtime": mtime}).mtime == 0.0


@given(st.binary(max_size=3 * FRAME_DATA_BYTES))
def test_input_is_framed_whole_and_ends(data: bytes) -> None:
    found = frames.Decoder().feed(answers.stdin_frames(data))
    assert b"".join(payload for _, payload in found) == data
    assert {kind for kind, _ in found} == {frames.STDIN}
    assert [payload for _, payload in found].index(b"") == len(found) - 1


def test_a_request_is_made_in_the_callers_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/usr")
    monkeypatch.setenv("PATH", "/opt/bin")
    mounts = [Mount(source="/a", target="/b")]
    made = answers.box_request(workspace="share", mounts=mounts, env={"A": "1"}, limits=Limits(pids=5))
    assert (made.workspace, made.caller_path, made.env) == ("/usr/share", "/opt/bin", {"A": "1"})
    assert (made.mounts, made.limits.pids, made.ephemeral) == (tuple(mounts), 5, False)


@pytest.mark.parametrize("count", [0, 2, 3])
def test_one_channel_is_one_descriptor_and_others_are_closed(count: int) -> None:
    fds = [os.open("/dev/null", os.O_RDONLY) for _ in range(count)]
    with pytest.raises(Unavailable, match="no channel"):
        answers.one_channel(fds)
    for fd in fds:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)


@pytest.mark.parametrize("value", [None, [], "x", 1])
def test_a_malformed_answer_is_named(value: object) -> None:
    with pytest.raises(Unavailable, match="not an object"):
        answers.expect_object(value)
    if not isinstance(value, list):
        with pytest.raises(Unavailable, match="not a list"):
            answers.expect_list(value)


def test_a_template_makes_a_container_and_a_place_is_the_callers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plain = answers.box_request(workspace=".")
    assert answers.rooted(plain, "", "", "") is plain
    named = answers.rooted(plain, "team:v1", "", "runc")
    assert (named.engine, named.template, named.runtime) == (EngineName.CONTAINER, "team:v1", "runc")
    assert answers.rooted(plain, "./image.tar", "", "").template == f"{tmp_path}/image.tar"
    assert answers.rooted(plain, "", "process", "").engine is EngineName.PROCESS
    with pytest.raises(UserError, match="there is no engine 'docker'"):
        answers.rooted(plain, "", "docker", "")
