"""init's frames, loop and connections: whatever a client sends, init lives and its other clients notice nothing."""

from __future__ import annotations

import json
import os
import select
import socket
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paddock import frames, limits
from paddock.engines.guest import wire

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from paddock.engines.guest.init import Init
    from tests.support.guest import Client, Guest


# -- the copy of the frame format --------------------------------------------------------------------------------------


def test_the_copy_of_the_frame_format_is_the_original() -> None:
    ours = (wire.MESSAGE, wire.STDIN, wire.STDOUT, wire.STDERR, wire.FILE, wire.DATA_BYTES, wire.MESSAGE_BYTES)
    original = (frames.MESSAGE, frames.STDIN, frames.STDOUT, frames.STDERR, frames.FILE)
    assert ours == (*original, limits.FRAME_DATA_BYTES, limits.FRAME_MESSAGE_BYTES)
    assert wire.HEADER.format == frames.HEADER.format


@given(st.integers(0, 4), st.binary(max_size=200))
def test_a_frame_is_encoded_as_the_host_encodes_it(kind: int, payload: bytes) -> None:
    assert wire.frame(kind, payload) == frames.encode(kind, payload)


def test_a_name_that_is_not_utf8_survives_a_message() -> None:
    name = os.fsdecode(b"caf\xe9")
    data = wire.message({"path": name})
    assert frames.decode_message(data[frames.HEADER.size :]) == {"path": name}


# -- the loop ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def pipes() -> Iterator[list[tuple[int, int]]]:
    opened = [os.pipe() for _ in range(2)]
    yield opened
    for pair in opened:
        for fd in pair:
            try:
                os.close(fd)
            except OSError:
                continue


def test_a_ready_descriptor_calls_its_handler(pipes: list[tuple[int, int]]) -> None:
    loop = wire.Loop()
    seen: list[int] = []
    loop.want(pipes[0][0], wire.READABLE, seen.append)
    os.write(pipes[0][1], b"x")
    loop.run_once()
    assert seen == [select.EPOLLIN]


def test_a_forgotten_descriptor_calls_nobody(pipes: list[tuple[int, int]]) -> None:
    loop = wire.Loop()
    seen: list[int] = []
    loop.want(pipes[0][0], wire.READABLE, seen.append)
    loop.forget(pipes[0][0])
    loop.forget(pipes[0][0])
    os.write(pipes[0][1], b"x")
    loop.at(time.monotonic(), lambda: None)
    loop.run_once()
    assert seen == []


def test_an_event_of_a_closed_descriptor_is_not_taken_for_one_of_its_successor(pipes: list[tuple[int, int]]) -> None:
    """A number is free again as soon as it is closed, and the kernel's list of events may still name it."""
    (first, first_end), (second, second_end) = pipes
    loop = wire.Loop()
    stale: list[int] = []
    fresh = os.pipe()

    def replace(own: int, number: int) -> None:
        os.read(own, 1)
        loop.forget(number)
        os.dup2(fresh[0], number)  # another pipe under the same number, with nothing to read
        loop.want(number, wire.READABLE, stale.append)

    loop.want(first, wire.READABLE, lambda _: replace(first, second))
    loop.want(second, wire.READABLE, lambda _: replace(second, first))
    for end in (first_end, second_end):
        os.write(end, b"x")
    loop.run_once()
    assert stale == []
    os.write(fresh[1], b"x")
    loop.run_once()
    assert stale, "a later event reaches the successor"
    for fd in fresh:
        os.close(fd)


def test_timers_run_in_the_order_of_their_times() -> None:
    loop = wire.Loop()
    seen: list[int] = []
    now = time.monotonic()
    for number in (3, 1, 2):
        loop.at(now + number / 1000, lambda number=number: seen.append(number))  # type: ignore[misc]
    while len(seen) < 3:
        loop.run_once()
    assert seen == [1, 2, 3]


@pytest.mark.parametrize("seconds", [2_147_484.0, 1e12, float(1 << 60)])
def test_a_timer_may_be_further_away_than_the_kernel_can_wait(pipes: list[tuple[int, int]], seconds: float) -> None:
    loop = wire.Loop()
    seen: list[int] = []
    loop.at(time.monotonic() + seconds, lambda: None)
    loop.want(pipes[0][0], wire.READABLE, seen.append)
    os.write(pipes[0][1], b"x")
    loop.run_once()
    assert seen


# -- connections: any bytes --------------------------------------------------------------------------------------------


_settings = settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([-(1 << 70), -1, 0, 1, 70_000, 1 << 31, 1 << 63, 10**400]),
    st.sampled_from([float("inf"), float("nan"), 1e300, -0.5]),
    st.sampled_from(["", "/", "/nonexistent", "\0", "\ud800", "x" * 5000, "true", "/proc/self/exe"]),
)
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
_FIELDS = ["id", "argv", "env", "cwd", "tty", "stdin", "keep", "timeout_s", "journal_bytes", "path", "to", "offset"]
_FIELDS += ["length", "depth", "recursive", "signal", "pid", "rows", "cols", "mode", "append", "parents", "follow"]
# Not `shutdown` and not `main`: those end init because they are asked to.
_OPS = [
    "start",
    "connect",
    "list",
    "signal",
    "ping",
    "resize",
    "stat",
    "read",
    "list_dir",
    "symlink",
    "watch",
    "nothing",
]
_VALID = {"id": "1", "argv": ["true"], "env": {}, "cwd": "/", "path": "/etc/passwd", "signal": 15, "rows": 1, "cols": 1}
_requests = st.builds(
    lambda op, base, rest: {**base, **rest, "op": op},
    st.sampled_from(_OPS),
    st.sampled_from([{}, _VALID]),
    st.dictionaries(st.sampled_from(_FIELDS), _values),
)


def _unharmed(guest: Guest, bystander: Client) -> None:
    bystander.send(op="ping")
    assert bystander.message()["event"] == "pong"
    guest.catch_up()


@_settings
@given(st.lists(st.binary(max_size=64), max_size=4))
def test_any_bytes_leave_init_and_its_other_clients_unharmed(shared: Guest, chunks: list[bytes]) -> None:
    with shared.client() as bystander, shared.client() as hostile:
        _send(hostile, b"".join(chunks))
        _unharmed(shared, bystander)


@_settings
@given(st.integers(0, 255), st.integers(0, 1 << 32 - 1), st.binary(max_size=64))
def test_any_header_leaves_init_unharmed(shared: Guest, kind: int, length: int, payload: bytes) -> None:
    with shared.client() as bystander, shared.client() as hostile:
        _send(hostile, frames.HEADER.pack(length % (1 << 32), kind) + payload)
        _unharmed(shared, bystander)


@_settings
@given(st.lists(_requests, min_size=1, max_size=3))
def test_any_values_in_a_request_leave_init_unharmed(shared: Guest, requests: list[dict[str, object]]) -> None:
    with shared.client() as bystander, shared.client() as hostile:
        _send(hostile, b"".join(frames_of(request) for request in requests))
        _unharmed(shared, bystander)
    shared.await_idle()


@_settings
@given(
    st.sampled_from([{"op": "resize"}, {"op": "signal"}, {"op": "ping"}, {}]),
    st.dictionaries(st.sampled_from(["rows", "cols", "signal"]), _values),
)
def test_any_control_of_a_command_leaves_init_unharmed(
    shared: Guest, request_: dict[str, Any], rest: dict[str, Any]
) -> None:
    with shared.client() as bystander, shared.client() as hostile:
        hostile.start("sleep", "60", tty={"rows": 24, "cols": 80})
        _send(hostile, frames_of({**request_, **rest}))
        _unharmed(shared, bystander)


def frames_of(request: dict[str, object]) -> bytes:
    payload = json.dumps(request).encode()  # with NaN and infinity, which our own encoder refuses
    return frames.HEADER.pack(len(payload), frames.MESSAGE) + payload


def _send(client: Client, data: bytes) -> None:
    try:
        client.socket.sendall(data)
    except (BrokenPipeError, ConnectionResetError):
        return  # it hung up on us already


@pytest.mark.parametrize(
    "data",
    [
        frames.HEADER.pack(limits.FRAME_MESSAGE_BYTES + 1, frames.MESSAGE),
        frames.HEADER.pack(limits.FRAME_DATA_BYTES + 1, frames.STDIN),
        frames.HEADER.pack(2, 9) + b"xx",
        frames.HEADER.pack(4, frames.MESSAGE) + b"[[[[",
        frames.HEADER.pack(2, frames.MESSAGE) + b"[]",
        frames.HEADER.pack(4, frames.MESSAGE) + b"null",
        frames.HEADER.pack(200_000, frames.MESSAGE) + b"[" * 200_000,
    ],
)
def test_a_malformed_frame_is_named_and_ends_its_connection(guest: Guest, data: bytes) -> None:
    client = guest.client()
    client.socket.sendall(data)
    answer = client.message()
    assert (answer["event"], answer["code"]) == ("error", "protocol")
    assert client.hung_up()


def test_a_request_may_arrive_byte_by_byte(guest: Guest) -> None:
    client = guest.client()
    for byte in frames.encode_message({"op": "ping"}):
        client.socket.send(bytes([byte]))
    assert client.message()["event"] == "pong"


def test_many_requests_may_arrive_at_once(guest: Guest) -> None:
    client = guest.client()
    client.socket.sendall(frames.encode_message({"op": "ping"}) * 50)
    assert [client.message()["event"] for _ in range(50)] == ["pong"] * 50


def test_unknown_requests_are_refused_by_name(guest: Guest) -> None:
    answer = guest.ask(op="explode")
    assert (answer["code"], answer["message"]) == ("unknown", "unknown request explode")


# -- connections: descriptors ------------------------------------------------------------------------------------------


def test_descriptors_that_nobody_takes_are_closed(guest: Guest) -> None:
    client = guest.client()
    client.send(fds=[0, 1, 2], op="ping")
    client.message()
    assert guest.descriptors() == guest.idle_descriptors + 1, "the connection itself"


def test_descriptors_without_a_request_go_with_their_connection(guest: Guest) -> None:
    with guest.client() as client:
        socket.send_fds(client.socket, [frames.HEADER.pack(10, frames.MESSAGE)], [0, 1, 2])
        guest.catch_up()
    guest.await_idle()


# -- connections: fairness and back-pressure ---------------------------------------------------------------------------


def test_a_source_that_has_nothing_to_say_yet_lets_others_have_their_turn() -> None:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    loop = wire.Loop()
    connection = wire.Connection(cast("Init", SimpleNamespace(loop=loop, connections=set())), theirs)
    pieces = iter([b"", b"", b"", wire.message({"event": "done"})])
    connection.source = pieces
    connection.update()
    loop.run_once()
    assert len(list(pieces)) == 3
    connection.close()
    ours.close()


def test_a_client_that_does_not_read_a_file_costs_no_memory(guest: Guest, tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(64 * limits.MIB)
    before = guest.resident_kib()
    client = guest.client()
    client.send(op="read", path=os.fspath(path))
    assert client.message()["entry"]["size"] == 64 * limits.MIB
    for _ in range(20):
        guest.catch_up()
    assert guest.resident_kib() - before < 4 * 1024
    assert len(client.file()) == 64 * limits.MIB
