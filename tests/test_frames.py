from __future__ import annotations

import json
import math
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paddock import frames
from paddock.errors import Unavailable
from paddock.frames import Decoder, decode_message, encode, encode_message
from paddock.limits import FRAME_DATA_BYTES, FRAME_MESSAGE_BYTES, FRAME_NESTING

FRAMES = st.lists(st.tuples(st.sampled_from(sorted(frames.KINDS)), st.binary(max_size=64)), max_size=8)
# Bytes that look enough like frames to get past the first header.
STREAMS = st.binary() | st.builds(
    lambda good, bad: b"".join(encode(*frame) for frame in good) + bad, FRAMES, st.binary(max_size=16)
)
MESSAGES = st.dictionaries(
    st.text(),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    ),
)


def outcome(chunks: list[bytes]) -> tuple[list[tuple[int, bytes]], int | str]:
    """The frames of a stream and how it ends: the bytes left over, or the error."""
    decoder = Decoder()
    got = []
    try:
        for chunk in [*chunks, b""]:
            got += decoder.feed(chunk)
    except Unavailable as error:
        return got, error.message
    return got, decoder.pending


@given(FRAMES)
def test_frames_come_back_as_they_were_sent(sent: list[tuple[int, bytes]]) -> None:
    assert outcome([b"".join(encode(kind, payload) for kind, payload in sent)]) == (sent, 0)


@given(STREAMS)
def test_any_bytes_are_frames_or_one_error(data: bytes) -> None:
    got, end = outcome([data])
    assert b"".join(encode(kind, payload) for kind, payload in got) == data[: sum(5 + len(p) for _, p in got)]
    assert isinstance(end, str) or end == len(data) - sum(5 + len(payload) for _, payload in got)


@given(STREAMS, st.data())
@example(encode(frames.STDOUT, b"x") + b"\xff" * 5, None)
def test_chunking_changes_nothing(data: bytes, draw: st.DataObject | None) -> None:
    whole = outcome([data])
    assert outcome([data[n : n + 1] for n in range(len(data))]) == whole
    if draw:
        cut = draw.draw(st.integers(0, len(data)))
        assert outcome([data[:cut], data[cut:]]) == whole


@pytest.mark.parametrize(
    ("kind", "most"), [(kind, FRAME_MESSAGE_BYTES if kind == 0 else FRAME_DATA_BYTES) for kind in sorted(frames.KINDS)]
)
def test_a_frame_over_its_limit_is_neither_sent_nor_read(kind: int, most: int) -> None:
    assert outcome([encode(kind, bytes(most))]) == ([(kind, bytes(most))], 0)
    with pytest.raises(Unavailable, match="over the limit"):
        encode(kind, bytes(most + 1))
    # Refused on sight of the header, before a byte of the payload is waited for.
    with pytest.raises(Unavailable, match="malformed"):
        Decoder().feed(frames.HEADER.pack(most + 1, kind))


@pytest.mark.parametrize("kind", [5, 127, 255])
def test_an_unknown_kind_is_refused(kind: int) -> None:
    with pytest.raises(Unavailable, match=f"kind {kind}") as caught:
        Decoder().feed(frames.HEADER.pack(0, kind))
    assert caught.value.code == "protocol"


def test_a_failed_decoder_stays_failed_and_keeps_nothing() -> None:
    decoder = Decoder()
    good = encode(frames.STDOUT, b"x")
    assert decoder.feed(good + b"\xff" * 5 + good) == [(frames.STDOUT, b"x")]
    for data in (b"", good, good):
        with pytest.raises(Unavailable, match="malformed"):
            decoder.feed(data)
    assert decoder.pending == 0
    assert repr(decoder) == "<Decoder frame of kind 255 and 4294967295 bytes>"


def test_a_decoder_shows_what_it_holds() -> None:
    decoder = Decoder()
    decoder.feed(b"abc")
    assert repr(decoder) == "<Decoder 3 bytes pending>"


@given(MESSAGES)
def test_a_message_comes_back_as_it_was_sent(message: frames.Message) -> None:
    [(kind, payload)] = Decoder().feed(encode_message(message))
    assert kind == frames.MESSAGE
    assert decode_message(payload) == message


@given(st.binary() | st.text().map(str.encode) | MESSAGES.map(lambda message: json.dumps(message).encode()))
def test_any_payload_is_a_message_or_one_error(payload: bytes) -> None:
    try:
        message = decode_message(payload)
    except Unavailable:
        return
    assert decode_message(encode_message(message)[frames.HEADER.size :]) == message


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"null",
        b"[]",
        b'"text"',
        b"7",
        b"{} {}",
        b"{}x",
        b"{'a': 1}",
        b'{"a": 1,}',
        b'{"a": 1} // comment',
        b'{"a": 1, "a": 1}',
        b'{"x": [{"a": 1, "b": 2, "a": 3}]}',
        b'{"a": 1, "\\u0061": 2}',
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": [-Infinity]}',
        b'{"a": 1e999}',
        b'{"a": -1e999}',
        b'{"a": "\xff"}',
        b'\xef\xbb\xbf{"a": 1}',
        '{"a": 1}'.encode("utf-16"),
        b'{"a": ' + b"9" * 5000 + b"}",
    ],
    ids=lambda payload: ascii(payload)[:24],
)
def test_what_is_no_plain_json_object_is_refused(payload: bytes) -> None:
    with pytest.raises(Unavailable, match="not a JSON object"):
        decode_message(payload)


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_deep_nesting_is_refused_wherever_the_caller_stands(opening: bytes, closing: bytes) -> None:
    def nested(levels: int) -> bytes:
        inner = levels - 1  # the object around it is the first level
        return b'{"a":' + opening * inner + b"1" + closing * inner + b"}"

    decode_message(nested(FRAME_NESTING))
    for levels in (FRAME_NESTING + 1, 900, 100_000):
        with pytest.raises(Unavailable, match=r"nested too deep|not a JSON object"):
            decode_message(nested(levels))


def test_brackets_in_text_do_not_nest() -> None:
    message: frames.Message = {"argv": ["echo", "[{" * 1000], "many": [[]] * 100}
    assert decode_message(encode_message(message)[frames.HEADER.size :]) == message


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_the_peer_would_refuse_is_not_sent(value: float) -> None:
    with pytest.raises(Unavailable, match="cannot be sent") as caught:
        encode_message({"a": value})
    assert caught.value.code == "protocol"


def test_the_largest_message_is_sent_and_one_byte_more_is_not() -> None:
    around = len('{"a":""}')
    assert len(encode_message({"a": "x" * (FRAME_MESSAGE_BYTES - around)})) == frames.HEADER.size + FRAME_MESSAGE_BYTES
    with pytest.raises(Unavailable, match="over the limit"):
        encode_message({"a": "x" * (FRAME_MESSAGE_BYTES - around + 1)})


def test_bytes_that_are_no_text_travel_in_a_message() -> None:
    message: frames.Message = {"argv": ["caf\udce9"]}
    assert decode_message(encode_message(message)[frames.HEADER.size :]) == message


def test_the_largest_finite_number_is_finite() -> None:
    assert decode_message(b'{"a": %r}' % sys.float_info.max) == {"a": sys.float_info.max}
