"""One request: what is sent for what came, in any chunking, and what is known of it in the end."""

from __future__ import annotations

from typing import Any

import pytest

from paddock.gateway.exchange import Exchange
from paddock.gateway.heads import ResponseHead, parse_request, parse_response
from paddock.gateway.http1 import Body, End, RequestParser
from paddock.gateway.injection import Swapped
from tests.support.inspecting import API, PLACEHOLDER, VALUE


def exchange(data: bytes, **more: Any) -> Exchange:
    head = parse_request(data)
    return Exchange(head, Swapped(head.headers, head.path, ()), started=0.0, **more)


def post(*headers: str) -> bytes:
    return "\r\n".join(["POST /p?q HTTP/1.1", f"Host: {API}", *headers, "", ""]).encode()


def sent(one: Exchange, *pieces: bytes) -> tuple[bytes, bytes]:
    """(the head, the body) as a server reads them."""
    data = one.opening() + b"".join(map(one.outward, pieces)) + one.asked()
    events = RequestParser().feed(data)
    assert isinstance(events[-1], End)
    return data.partition(b"\r\n\r\n")[0], b"".join(event.data for event in events if isinstance(event, Body))


def test_a_body_passes_as_it_is_framed() -> None:
    head, body = sent(exchange(post("Content-Length: 5")), b"he", b"llo")
    assert b"Content-Length: 5" in head
    assert body == b"hello"
    head, body = sent(exchange(post("Transfer-Encoding: chunked")), b"he", b"llo")
    assert b"Transfer-Encoding: chunked" in head
    assert body == b"hello"


SAME = {PLACEHOLDER.encode(): VALUE.encode()}
LONGER = {PLACEHOLDER.encode(): VALUE.encode() + b"longer"}


@pytest.mark.parametrize("step", [1, 5, 1000])
@pytest.mark.parametrize("words", [SAME, LONGER])
def test_a_placeholder_in_a_body_is_replaced_across_pieces(step: int, words: dict[bytes, bytes]) -> None:
    data = b"<" + PLACEHOLDER.encode() + b"|" + PLACEHOLDER.encode()[:-1] + b">"
    one = exchange(post(f"Content-Length: {len(data)}"), body=words, words={PLACEHOLDER.encode(): "api"})
    head, body = sent(one, *(data[at : at + step] for at in range(0, len(data), step)))
    assert body == data.replace(PLACEHOLDER.encode(), words[PLACEHOLDER.encode()])
    assert (b"chunked" in head) is (words is LONGER), "a length that stays is kept"
    assert (b"Content-Length" in head) is (words is SAME)
    assert one.names == ("api",)
    assert VALUE not in repr(one)


def test_a_body_without_the_placeholder_used_no_secret() -> None:
    one = exchange(post("Content-Length: 2"), body=SAME, words={PLACEHOLDER.encode(): "api"})
    assert sent(one, b"{}")[1] == b"{}"
    assert one.names == ()


class Counting:
    def __init__(self) -> None:
        self.calls: list[object] = []

    def sent(self, data: bytes) -> None:
        self.calls.append(("sent", data))

    def head(self, head: ResponseHead) -> None:
        self.calls.append(("head", head.status))

    def received(self, data: bytes) -> None:
        self.calls.append(("received", data))

    def end(self, *, complete: bool) -> None:
        self.calls.append(("end", complete))


def answer(*headers: str) -> ResponseHead:
    return parse_response("\r\n".join(["HTTP/1.1 200 OK", *headers, "", ""]).encode(), bodiless=False)


def test_a_metered_request_is_told_of_all_that_passes_and_asks_for_plain_bytes() -> None:
    meter = Counting()
    one = exchange(post("Accept-Encoding: gzip, br", "Content-Length: 2"), metered=meter)
    head, _ = sent(one, b"{}")
    assert b"gzip" not in head
    assert head.endswith(b"Accept-Encoding: identity")
    one.answered(answer("Content-Length: 3"))
    assert one.inward(b"abc") == b"abc"
    one.through(b"ws")
    one.end(complete=True)
    one.end(complete=False)
    assert meter.calls == [
        ("sent", b"{}"),
        ("head", 200),
        ("received", b"abc"),
        ("sent", b"ws"),
        ("end", True),
    ]
    assert (one.status, one.sent, one.received, one.path) == (200, 4, 3, "/p")


def test_an_answer_that_repeats_the_secret_is_masked_unless_it_is_compressed() -> None:
    one = exchange(post("Content-Length: 0"), masks={VALUE.encode(): PLACEHOLDER.encode()})
    one.answered(answer("Content-Length: 99"))
    said = one.inward(b"x" + VALUE.encode()[:10]) + one.inward(VALUE.encode()[10:] + b"sk") + one.answer_ended()
    assert said == b"x" + PLACEHOLDER.encode() + b"sk"
    packed = exchange(post("Content-Length: 0"), masks={VALUE.encode(): PLACEHOLDER.encode()})
    packed.answered(answer("Content-Encoding: gzip", "Content-Length: 99"))
    assert packed.inward(b"sk-test") == b"sk-test"
