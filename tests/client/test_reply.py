"""One question to the daemon and the pieces of its answer."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock import frames
from paddock._version import VERSION
from paddock.client.reply import FrameQueue, Reply, lost, request
from paddock.errors import Denied, PaddockError, Unavailable, UserError


def test_a_request_names_the_version_the_verb_and_its_arguments() -> None:
    data = request("create", {"name": "a"})
    assert frames.decode_message(data[frames.HEADER.size :]) == {
        "version": VERSION,
        "verb": "create",
        "args": {"name": "a"},
    }


def test_an_answer_in_one_message() -> None:
    reply = Reply()
    assert reply.feed(frames.encode_message({"ok": True, "result": {"a": 1}}), [])
    assert (reply.result, reply.whole) == ({"a": 1}, True)


@given(st.integers(1, 200))
def test_a_long_answer_in_any_chunks(size: int) -> None:
    parts: list[frames.Message] = [
        {"ok": True, "more": True, "result": [1, 2]},
        {"ok": True, "more": True, "result": [3]},
        {"ok": True, "result": [4]},
    ]
    data = b"".join(frames.encode_message(part) for part in parts)
    reply = Reply()
    chunks = [data[start : start + size] for start in range(0, len(data), size)]
    done = [reply.feed(chunk, []) for chunk in chunks]
    assert done == [False] * (len(chunks) - 1) + [True]
    assert reply.result == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"kind": "user", "code": "bad-name", "message": "m", "hint": "h"}, UserError),
        ({"kind": "denied", "message": "m"}, Denied),
        ({"kind": "unavailable", "message": "m"}, Unavailable),
        ({"kind": "something new", "message": "m"}, Unavailable),
        (None, Unavailable),
        ("text", Unavailable),
    ],
)
def test_an_error_is_raised_and_leaves_the_connection_in_step(error: object, kind: type[PaddockError]) -> None:
    reply = Reply()
    with pytest.raises(kind):
        reply.feed(frames.encode_message({"ok": False, "error": error}), [])
    assert reply.whole


def test_hanging_up_before_the_end_is_noticed() -> None:
    reply = Reply()
    reply.feed(frames.encode_message({"ok": True, "more": True, "result": [1]}), [])
    with pytest.raises(EOFError):
        reply.feed(b"", [])
    assert not reply.whole


@given(st.binary(max_size=200))
def test_any_bytes_are_an_answer_or_an_error_of_ours(data: bytes) -> None:
    reply = Reply()
    try:
        reply.feed(data, [])
    except (PaddockError, EOFError):
        return


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(["ok", "more", "result", "error"]), _json))
def test_any_message_is_an_answer_or_an_error_of_ours(message: frames.Message) -> None:
    reply = Reply()
    try:
        reply.feed(frames.encode_message(message), [])
    except PaddockError:
        assert reply.whole


def test_descriptors_are_kept_for_the_caller_or_closed() -> None:
    read, write = os.pipe()
    reply = Reply()
    reply.feed(frames.encode_message({"ok": True, "more": True, "result": []}), [read])
    reply.feed(frames.encode_message({"ok": True, "result": []}), [write])
    assert reply.fds == [read, write]
    reply.drop()
    for fd in (read, write):
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)


def test_frames_come_out_in_the_order_they_went_in() -> None:
    queue = FrameQueue()
    assert queue.pop() is None
    data = frames.encode(frames.STDOUT, b"one") + frames.encode(frames.STDERR, b"two")
    queue.feed(data[:6])
    assert queue.pop() is None
    queue.feed(data[6:])
    assert [queue.pop(), queue.pop(), queue.pop()] == [(frames.STDOUT, b"one"), (frames.STDERR, b"two"), None]


def test_a_lost_daemon_says_that_boxes_are_not() -> None:
    assert "boxes keep running" in lost().hint


def test_its_repr_counts() -> None:
    assert repr(Reply()) == "<Reply 0 items, 0 descriptors>"
