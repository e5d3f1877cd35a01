"""Usage is read from what the providers really send, in any pieces; what is cut or unreadable is estimated."""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.limits import METER_ANSWER_TOKENS_MAX, METER_TOKENS_MAX
from paddock.metering.usage import Reader, Usage
from tests.metering.test_scanner import cut
from tests.support.properties import bounded

SSE = "text/event-stream; charset=utf-8"


def sse(*events: object, done: bool = False) -> bytes:
    lines = [b"event: x\ndata: " + json.dumps(event).encode() + b"\n\n" for event in events]
    return b"".join(lines) + (b"data: [DONE]\n\n" if done else b"")


ANTHROPIC_USAGE = {
    "input_tokens": 10,
    "cache_creation_input_tokens": 300,
    "cache_read_input_tokens": 2000,
    "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 200},
    "output_tokens": 50,
    "service_tier": "standard",
}
ANTHROPIC = Usage(model="claude-opus-4-7", input=10, output=50, cache_read=2000, cache_write=100, cache_write_long=200)
ANTHROPIC_JSON = json.dumps(
    {
        "id": "msg_1",
        "type": "message",
        "model": "claude-opus-4-7",
        "content": [{"type": "tool_use", "input": {"usage": {"output_tokens": 9_999_999}, "model": "evil"}}],
        "usage": ANTHROPIC_USAGE,
    }
).encode()
ANTHROPIC_EVENTS = (
    {
        "type": "message_start",
        "message": {"model": "claude-opus-4-7", "content": [], "usage": {**ANTHROPIC_USAGE, "output_tokens": 1}},
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "ping"},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello " * 20}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"usage":'}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 50}},
    {"type": "message_stop"},
)
CHAT_USAGE = {
    "prompt_tokens": 1000,
    "completion_tokens": 30,
    "total_tokens": 1030,
    "prompt_tokens_details": {"cached_tokens": 600, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 20},
}
CHAT = Usage(model="gpt-5.4", input=400, output=30, cache_read=600)
CHAT_JSON = json.dumps(
    {"model": "gpt-5.4", "choices": [{"message": {"content": "hi"}}], "usage": CHAT_USAGE}, indent=1
).encode()
CHAT_EVENTS = (
    {"model": "gpt-5.4", "choices": [{"delta": {"content": "h"}}], "usage": None},
    {"model": "gpt-5.4", "choices": [{"delta": {"content": "i"}}], "usage": None},
    {"model": "gpt-5.4", "choices": [], "usage": CHAT_USAGE},
)
RESPONSES_USAGE = {
    "input_tokens": 1000,
    "input_tokens_details": {"cached_tokens": 600},
    "output_tokens": 30,
    "output_tokens_details": {"reasoning_tokens": 20},
    "total_tokens": 1030,
}
RESPONSES_EVENTS = (
    {"type": "response.created", "response": {"model": "gpt-5.4", "instructions": "x" * 900, "usage": None}},
    {"type": "response.output_text.delta", "delta": "hi"},
    {"type": "response.completed", "response": {"model": "gpt-5.4", "usage": RESPONSES_USAGE}},
)
GEMINI_USAGE = {
    "promptTokenCount": 1000,
    "candidatesTokenCount": 20,
    "thoughtsTokenCount": 10,
    "cachedContentTokenCount": 600,
    "totalTokenCount": 1030,
}
GEMINI = Usage(model="gemini-2.5-pro", input=400, output=30, cache_read=600)
GEMINI_PARTS = (
    {
        "candidates": [{"content": {"parts": [{"text": "he"}]}}],
        "usageMetadata": {"promptTokenCount": 1000, "candidatesTokenCount": 2, "cachedContentTokenCount": 600},
        "modelVersion": "gemini-2.5-pro",
    },
    {
        "candidates": [{"content": {"parts": [{"text": "llo"}]}, "finishReason": "STOP"}],
        "usageMetadata": GEMINI_USAGE,
        "modelVersion": "gemini-2.5-pro",
    },
)
CASES = {
    "anthropic json": ("application/json", ANTHROPIC_JSON, ANTHROPIC),
    "anthropic stream": (SSE, sse(*ANTHROPIC_EVENTS), ANTHROPIC),
    "chat json": ("application/json", CHAT_JSON, CHAT),
    "chat stream": (SSE, sse(*CHAT_EVENTS, done=True), CHAT),
    "responses json": (
        "application/json",
        json.dumps({"model": "gpt-5.4", "output": [], "usage": RESPONSES_USAGE}).encode(),
        CHAT,
    ),
    "responses stream": (SSE, sse(*RESPONSES_EVENTS), CHAT),
    "gemini json": ("application/json; charset=UTF-8", json.dumps(GEMINI_PARTS[1]).encode(), GEMINI),
    "gemini stream": (SSE, sse(*GEMINI_PARTS), GEMINI),
    "gemini list": ("application/json", json.dumps(GEMINI_PARTS, indent=2).encode(), GEMINI),
    "thoughts beside the output": (
        "application/json",
        b'{"model":"grok","usage":{"prompt_tokens":5,"completion_tokens":7,"total_tokens":32}}',
        Usage(model="grok", input=5, output=27),
    ),
    "cache hits": (
        "application/json",
        b'{"model":"d","usage":{"prompt_tokens":50,"completion_tokens":7,"prompt_cache_hit_tokens":40}}',
        Usage(model="d", input=10, output=7, cache_read=40),
    ),
    "dearer processing": (
        SSE,
        sse(
            {
                "type": "response.completed",
                "response": {"model": "m", "service_tier": "priority", "usage": RESPONSES_USAGE},
            }
        ),
        Usage(model="m:priority", input=400, output=30, cache_read=600),
    ),
    "faster processing": (
        "application/json",
        b'{"model":"m","usage":{"input_tokens":5,"output_tokens":7,"speed":"fast","service_tier":"standard"}}',
        Usage(model="m:fast", input=5, output=7),
    ),
    "usual processing": (
        "application/json",
        b'{"model":"m","service_tier":"default","usage":{"input_tokens":5,"output_tokens":7,"speed":"standard"}}',
        Usage(model="m", input=5, output=7),
    ),
    "embeddings": (
        "application/json",
        b'{"model":"e","data":[{"embedding":[0.1,2]}],"usage":{"prompt_tokens":8,"total_tokens":8}}',
        Usage(model="e", input=8),
    ),
}


def used(content_type: str, *pieces: bytes, encoding: str = "", request_bytes: int = 0) -> Usage:
    reader = Reader(content_type, encoding)
    for piece in pieces:
        reader.feed(piece)
    return reader.so_far(request_bytes)


@pytest.mark.parametrize("case", CASES)
def test_what_a_provider_says_is_read(case: str) -> None:
    content_type, data, expected = CASES[case]
    assert used(content_type, data) == expected


@pytest.mark.parametrize("case", CASES)
def test_byte_by_byte_is_the_same(case: str) -> None:
    content_type, data, expected = CASES[case]
    assert used(content_type, *(data[n : n + 1] for n in range(len(data)))) == expected


@bounded
@given(st.sampled_from(sorted(CASES)), st.lists(st.integers(0, 100_000), max_size=12), st.booleans())
def test_any_pieces_give_the_same_also_compressed(case: str, places: list[int], folded: bool) -> None:
    content_type, data, expected = CASES[case]
    if folded:
        data = gzip.compress(data)
    assert used(content_type, *cut(data, places), encoding="gzip" if folded else "") == expected


# -- estimates ---------------------------------------------------------------------------------------------------------


def test_a_stream_that_was_cut_is_estimated_from_what_was_said() -> None:
    got = used(SSE, sse(*ANTHROPIC_EVENTS[:5]), request_bytes=100_000)
    assert got.estimated
    assert (got.model, got.input, got.cache_read) == ("claude-opus-4-7", 10, 2000)
    said_bytes = 6 * 20 + len('{\\"usage\\":')
    assert got.output == said_bytes // 3


def test_an_estimate_is_never_less_than_what_was_admitted() -> None:
    parts = ({**GEMINI_PARTS[0], "usageMetadata": GEMINI_USAGE},)
    got = used(SSE, sse(*parts))
    assert got.estimated
    assert (got.input, got.output, got.cache_read) == (400, 30, 600)


def test_a_stream_without_usage_is_estimated_from_both_sides() -> None:
    got = used(SSE, sse(*({"model": "m", "choices": [{"delta": {"content": "x" * 30}}]},) * 10), request_bytes=401)
    assert got == Usage(model="m", input=101, output=100, estimated=True)


@pytest.mark.parametrize("encoding", ["br", "zstd"])
def test_what_cannot_be_read_is_estimated_from_its_bytes(encoding: str) -> None:
    assert used(SSE, b"x" * 500, encoding=encoding, request_bytes=400) == Usage(input=100, output=500, estimated=True)


@pytest.mark.parametrize(
    ("content_type", "data"),
    [
        ("application/json", b'{"status":"queued","background":true,"model":"gpt-5","usage":null}'),
        (SSE, sse({"response": {"status": "queued", "model": "gpt-5"}}, {"response": {"status": "in_progress"}})),
    ],
)
def test_what_is_answered_when_nobody_looks_costs_the_most_that_can_be_said(content_type: str, data: bytes) -> None:
    got = used(content_type, data, request_bytes=400)
    assert got == Usage(model="gpt-5", input=100, output=METER_ANSWER_TOKENS_MAX, estimated=True)
    seen = data.replace(b"queued", b"completed")
    assert used(content_type, seen, request_bytes=400).output == 0


def test_what_was_thought_and_not_shown_is_estimated_by_its_time() -> None:
    reader = Reader(SSE)
    reader.feed(sse({"model": "m", "choices": [{"delta": {"content": "x" * 30}}]}))
    assert (reader.so_far(4).output, reader.so_far(4, 60.0).output) == (10, 6000)
    reader.feed(sse({"usage": {"prompt_tokens": 5, "completion_tokens": 7}}))
    assert reader.so_far(4, 60.0).output == 7


def test_nothing_at_all_is_what_was_sent() -> None:
    assert used("application/json", request_bytes=400) == Usage(input=100, estimated=True)


@pytest.mark.parametrize("case", [case for case in CASES if case != "embeddings"])
def test_a_cut_anywhere_costs_something_and_is_marked(case: str) -> None:
    content_type, data, expected = CASES[case]
    for at in range(0, len(data), 7):
        got = used(content_type, data[:at], request_bytes=4)
        assert got.tokens > 0
        assert got.estimated or got.tokens <= expected.tokens


# -- hostile answers ---------------------------------------------------------------------------------------------------


def test_nonsense_counts_are_bounded() -> None:
    got = used("application/json", b'{"usage":{"input_tokens":999999999999999,"output_tokens":999999999999999}}')
    assert (got.input, got.output) == (METER_TOKENS_MAX, METER_TOKENS_MAX)
    assert (
        used(
            "application/json", b'{"usage":{"prompt_tokens":5,"completion_tokens":1,"prompt_cache_hit_tokens":9}}'
        ).input
        == 0
    )


@pytest.mark.parametrize("model", ["", "x" * 129, "a b", "a\\n", "<script>", "\\u0061"])
def test_a_model_of_no_plain_name_has_none(model: str) -> None:
    text = f'{{"model":"{model}","usage":{{"prompt_tokens":5}}}}'
    assert used("application/json", text.encode()).model == ""


@bounded
@given(st.binary(max_size=300), st.sampled_from(["application/json", SSE, ""]), st.sampled_from(["", "gzip"]))
def test_any_bytes_give_a_usage(data: bytes, content_type: str, encoding: str) -> None:
    assert used(content_type, data, encoding=encoding, request_bytes=4).tokens >= 0
