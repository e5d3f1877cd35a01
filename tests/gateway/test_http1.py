from __future__ import annotations

import time
import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paddock.gateway.http1 import (
    END,
    BadRequest,
    BadResponse,
    Body,
    End,
    Head,
    RequestParser,
    ResponseHead,
    ResponseParser,
    chunk,
    last_chunk,
    serialise,
)
from paddock.limits import HTTP_HEAD_BYTES, HTTP_INTERIM_MAX, KIB, MIB
from tests.support.streams import ANSWERS, CHUNKED, CLOSE, CONNECT, GET, HEAD, OK, PARTS, POST, WEBSOCKET, streams

Parser = RequestParser | ResponseParser
Outcome = tuple[list[object], str]


def by_bytes(data: bytes) -> list[bytes]:
    return [data[n : n + 1] for n in range(len(data))]


def outcome(parser: Parser, chunks: list[bytes]) -> Outcome:
    """What came out, bodies joined, and how it ended: the error, or the state."""
    got: list[object] = []
    try:
        for data in [*chunks, b""]:
            for event in parser.feed(data):
                last = got[-1] if got else None
                if isinstance(event, Body) and isinstance(last, Body):
                    got[-1] = Body(last.data + event.data)
                else:
                    got.append(event)
    except (BadRequest, BadResponse) as error:
        assert parser.error is not None
        return got, f"{error.status} {error.reason}"
    return got, repr(parser)


def shown(events: list[object]) -> list[object]:
    """Heads by their targets or status, to be read in a table."""
    return [e.target if isinstance(e, Head) else e.status if isinstance(e, ResponseHead) else e for e in events]


def requests(data: bytes) -> Outcome:
    whole = outcome(RequestParser(), [data])
    assert outcome(RequestParser(), by_bytes(data)) == whole
    return shown(whole[0]), whole[1]


def head_of(raw: bytes) -> Head:
    event = RequestParser().feed(raw)[0]
    assert isinstance(event, Head)
    return event


def responses(data: bytes, *sent: bytes) -> Outcome:
    def parser() -> ResponseParser:
        made = ResponseParser()
        for raw in sent or (GET,):
            made.expect(head_of(raw))
        return made

    whole = outcome(parser(), [data])
    assert outcome(parser(), by_bytes(data)) == whole
    return shown(whole[0]), whole[1]


IDLE = "<RequestParser head, 0 bytes pending>"


@pytest.mark.parametrize(
    ("data", "events"),
    [
        (b"", []),
        (GET, ["/", END]),
        (GET + GET, ["/", END, "/", END]),
        (POST + b"hello", ["/p", Body(b"hello"), END]),
        (POST + b"hello" + GET, ["/p", Body(b"hello"), END, "/", END]),
        (CHUNKED + b"0\r\n\r\n" + GET, ["/c", END, "/", END]),
        (CHUNKED + b"5\r\nhello\r\n0001\r\n!\r\n0\r\n\r\n", ["/c", Body(b"hello!"), END]),
        (CHUNKED + b"1\r\nx\r\n0\r\nX-Sum: 1\r\n\r\n", ["/c", Body(b"x"), End((("X-Sum", "1"),))]),
        (CHUNKED + b"A\r\n" + b"\r\n" * 5 + b"\r\n00\r\n\r\n", ["/c", Body(b"\r\n" * 5), END]),
    ],
)
def test_requests_come_one_after_the_other(data: bytes, events: list[object]) -> None:
    assert requests(data) == (events, IDLE)


@pytest.mark.parametrize(
    ("data", "state"),
    [
        (GET[:-1], f"head, {len(GET) - 1} bytes"),
        (POST + b"hel", "body, 0 bytes"),
        (CHUNKED, "chunk_size, 0 bytes"),
        (CHUNKED + b"5", "chunk_size, 1 bytes"),
        (CHUNKED + b"5\r\nhello\r", "chunk_end, 1 bytes"),
        (CHUNKED + b"0\r\n\r", "trailers, 1 bytes"),
        (CLOSE, "closed, 0 bytes"),
    ],
)
def test_a_parser_shows_where_it_stands(data: bytes, state: str) -> None:
    assert requests(data)[1] == f"<RequestParser {state} pending>"


@pytest.mark.parametrize(
    ("data", "delivered"),
    [
        (GET + b"\r\n" + GET, 2),
        (GET + b"get / HTTP/1.1\r\nHost: a.test\r\n\r\n", 2),
        (GET + b"GET / HTTP/1.1\r\n\r\n", 2),
        (POST + b"helloworld", 3),  # what was beyond the length begins no request
        (CLOSE + GET, 2),
        # PRX-09
        (CHUNKED + b"5;a=b\r\nhello\r\n0\r\n\r\n", 1),
        (CHUNKED + b"5 \r\nhello\r\n0\r\n\r\n", 1),
        (CHUNKED + b" 5\r\nhello\r\n0\r\n\r\n", 1),
        (CHUNKED + b"5\nhello\n0\n\n", 1),
        (CHUNKED + b"-5\r\nhello\r\n0\r\n\r\n", 1),
        (CHUNKED + b"+5\r\nhello\r\n0\r\n\r\n", 1),
        (CHUNKED + b"0x5\r\nhello\r\n0\r\n\r\n", 1),
        (CHUNKED + b"5_0\r\nhello\r\n0\r\n\r\n", 1),
        (CHUNKED + b"\r\n", 1),
        (CHUNKED + b"g\r\n", 1),
        (CHUNKED + b"f" * 16 + b"\r\n", 1),
        (CHUNKED + b"0" * 17 + b"\r\n\r\n", 1),
        (CHUNKED + b"5\r\nhelloXX0\r\n\r\n", 2),  # CVE-2025-43859
        (CHUNKED + b"5\r\nhello\n0\r\n\r\n", 2),
        (CHUNKED + b"5\r\nhello\rX0\r\n\r\n", 2),
        (CHUNKED + b"0\r\nHost: b.test\r\n\r\n", 1),
        (CHUNKED + b"0\r\nContent-Length: 5\r\n\r\n", 1),
        (CHUNKED + b"0\r\nX: a\r\n b\r\n\r\n", 1),
        (CHUNKED + b"0\r\n GET / HTTP/1.1\r\n\r\n", 1),
        (CHUNKED + b"0\r\nX: " + b"a" * HTTP_HEAD_BYTES, 1),
    ],
    ids=lambda value: ascii(value)[-40:],
)
def test_a_malformed_stream_ends_where_it_is_malformed(data: bytes, delivered: int) -> None:
    events, end = requests(data)
    assert len(events) == delivered
    assert end.startswith(("400 ", "431 "))


def test_events_before_a_fault_come_first_and_then_every_feed_raises() -> None:
    parser = RequestParser()
    assert len(parser.feed(GET + b"\0" + GET)) == 2
    assert isinstance(parser.error, BadRequest)
    for data in (b"", GET):
        with pytest.raises(BadRequest, match="not an HTTP request"):
            parser.feed(data)
    with pytest.raises(BadRequest):
        parser.feed_end()
    assert repr(parser) == "<RequestParser failed: not an HTTP request, 0 bytes pending>"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01", 400),
        (b"g", 400),
        (b"A" * 33, 400),
        (b"SSH-2.0-OpenSSH\r\n", 400),
        (b"PRI * HTTP/2.0\r\n", 505),
        (b"GET / HTTP/1.1\n", 400),
        (b"TRACE / HTTP/1.1\r\n", 405),
    ],
)
def test_what_is_no_http_is_refused_without_waiting_for_more(data: bytes, status: int) -> None:
    with pytest.raises(BadRequest) as caught:
        RequestParser().feed(data)
    assert caught.value.status == status


@pytest.mark.parametrize("filler", [b"X: y\r\n", b"X" * 100])
def test_a_head_is_bounded(filler: bytes) -> None:
    data = b"GET / HTTP/1.1\r\n" + filler * HTTP_HEAD_BYTES
    assert outcome(RequestParser(), [data]) == ([], "431 more than 65536 bytes of headers")
    parts = [data[n : n + 1000] for n in range(0, len(data), 1000)]
    assert outcome(RequestParser(), parts)[1] == "431 more than 65536 bytes of headers"
    assert outcome(RequestParser(), [b"GET /" + b"a" * HTTP_HEAD_BYTES])[1].startswith("431")


def test_the_largest_head_is_read() -> None:
    start = b"GET / HTTP/1.1\r\nHost: a.test\r\nX: "
    data = start + b"a" * (HTTP_HEAD_BYTES - len(start) - 4) + b"\r\n\r\n"
    assert requests(data)[0] == ["/", END]
    assert outcome(RequestParser(), [data.replace(b"X:", b"XX:")])[1].startswith("431")


# -- leaving HTTP ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("raw", [CONNECT, WEBSOCKET])
def test_nothing_is_parsed_behind_a_request_that_may_leave_http(raw: bytes) -> None:  # PRX-05
    parser = RequestParser()
    assert len(parser.feed(raw + GET)) == 2
    assert parser.paused
    assert parser.feed(b"\0\xff") == []
    assert parser.take_rest() == GET + b"\0\xff"
    with pytest.raises(BadRequest, match="left HTTP"):
        parser.feed(GET)


def test_a_refused_upgrade_goes_on_with_the_next_request() -> None:
    parser = RequestParser()
    parser.feed(WEBSOCKET + GET)
    assert shown(list(parser.resume())) == ["/", END]
    assert parser.idle


def test_a_tunnel_does_not_buffer_without_end() -> None:
    parser = RequestParser()
    parser.feed(CONNECT)
    parser.feed(b"x" * HTTP_HEAD_BYTES)
    with pytest.raises(BadRequest, match="ahead of an answer"):
        parser.feed(b"x")


# -- the end of the connection -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("data", [b"", GET, CLOSE, CONNECT, POST + b"hello"])
def test_a_client_may_end_between_requests(data: bytes) -> None:
    parser = RequestParser()
    parser.feed(data)
    assert parser.feed_end() == []


@pytest.mark.parametrize("data", [b"G", GET[:-1], POST, POST + b"hell", CHUNKED, CHUNKED + b"0\r\n"])
def test_a_client_may_not_end_inside_a_request(data: bytes) -> None:
    parser = RequestParser()
    parser.feed(data)
    with pytest.raises(BadRequest, match="ended inside a message"):
        parser.feed_end()


# -- responses ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("data", "sent", "events"),
    [
        (OK, [GET], [200, Body(b"ok"), END]),
        (OK + OK, [GET, POST], [200, Body(b"ok"), END] * 2),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n" + OK, [HEAD, GET], [200, END, 200, Body(b"ok"), END]),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, [POST], [100, 200, Body(b"ok"), END]),
        (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" * 3 + OK, [GET], [103, 103, 103, 200, Body(b"ok"), END]),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n" + OK, [GET, GET], [304, END, 200, Body(b"ok"), END]),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", [GET], [200, Body(b"ok"), END]),
        (b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nno", [CONNECT], [400, Body(b"no"), END]),
        (b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nno", [WEBSOCKET], [400, Body(b"no"), END]),
    ],
)
def test_answers_come_in_the_order_of_the_requests(data: bytes, sent: list[bytes], events: list[object]) -> None:
    assert responses(data, *sent) == (events, "<ResponseParser head, 0 bytes pending>")


@pytest.mark.parametrize(
    ("data", "sent", "delivered", "reason"),
    [  # PRX-11
        (OK + OK, [GET], 3, "nobody asked for"),
        (OK + b"x", [GET], 3, "nobody asked for"),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nokx", [GET, GET], 3, "the last"),
        (b"HTTP/1.1 103 Hm\r\n\r\n" * (HTTP_INTERIM_MAX + 1), [GET], HTTP_INTERIM_MAX, "too many"),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", [GET], 0, "change of protocol"),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", [CONNECT], 0, "change of protocol"),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", [WEBSOCKET], 0, "another protocol"),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n", [WEBSOCKET], 0, "another protocol"),
        (b"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nok", [GET], 0, "with a body"),
        (b"HTTP/1.1 204 No Content\r\n\r\nok", [GET, GET], 2, "malformed status line"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n", [GET], 0, "both"),
        (b"HTTP/1.1 200 OK\nContent-Length: 2\r\n\r\n", [GET], 0, "malformed status line"),
        (b"SSH-2.0-x\r\n", [GET], 0, "malformed status line"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x\r\nok", [GET], 1, "malformed chunk"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * HTTP_HEAD_BYTES, [GET], 0, "bytes of headers"),
    ],
    ids=lambda value: ascii(value)[-40:],
)
def test_a_malformed_answer_ends_where_it_is_malformed(
    data: bytes, sent: list[bytes], delivered: int, reason: str
) -> None:
    events, end = responses(data, *sent)
    assert len(events) == delivered
    assert end.startswith("502 ")
    assert reason in end


def test_an_answer_without_length_ends_with_the_connection() -> None:
    parser = ResponseParser()
    parser.expect(head_of(GET))
    events = parser.feed(b"HTTP/1.1 200 OK\r\n\r\nab") + parser.feed(b"c") + parser.feed_end()
    assert shown(list(events)) == [200, Body(b"ab"), Body(b"c"), END]
    assert parser.outstanding == 0
    with pytest.raises(BadResponse):
        parser.feed(OK)


def test_a_server_may_end_only_when_nothing_is_outstanding() -> None:
    parser = ResponseParser()
    assert parser.feed_end() == []
    parser.expect(head_of(GET))
    with pytest.raises(BadResponse, match="ended inside a message"):
        parser.feed_end()


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (WEBSOCKET, b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"),
        (CONNECT, b"HTTP/1.1 200 Connection established\r\n\r\n"),
    ],
)
def test_an_accepted_change_of_protocol_pauses(sent: bytes, answer: bytes) -> None:
    parser = ResponseParser()
    parser.expect(head_of(sent))
    assert len(parser.feed(answer + b"\x81\x00")) == 2
    assert parser.paused
    assert parser.outstanding == 0
    assert parser.take_rest() == b"\x81\x00"
    with pytest.raises(BadResponse, match="left HTTP"):
        parser.feed(b"x")


# -- streams -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("chunked", [False, True])
def test_bodies_pass_in_constant_memory(chunked: bool) -> None:
    piece, count = bytes(64 * KIB), 256
    parser = RequestParser()
    length = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % (len(piece) * count)
    parser.feed(b"PUT / HTTP/1.1\r\nHost: a.test\r\n" + length + b"\r\n\r\n")
    tracemalloc.start()
    got = 0
    for _ in range(count):
        for event in parser.feed(chunk(piece) if chunked else piece):
            got += len(event.data) if isinstance(event, Body) else 0
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    if chunked:
        assert parser.feed(last_chunk()) == [END]
    assert got == len(piece) * count
    assert peak < MIB
    assert parser.idle


def test_a_small_request_costs_little() -> None:
    """2,500 Host-checked requests a second leave 400 µs for each, of which reading it may take 60 (it takes 7)."""
    raw = GET.replace(b"\r\n\r\n", b"\r\nUser-Agent: curl/8.0\r\nAccept: */*\r\nAccept-Encoding: gzip\r\n\r\n")
    parser = RequestParser()

    def batch() -> float:
        start = time.process_time()
        for _ in range(200):
            for event in parser.feed(raw):
                if isinstance(event, Head):
                    serialise(event, forward=True)
        return (time.process_time() - start) / 200

    assert min(batch() for _ in range(5)) < 60e-6


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=5))
def test_chunks_are_read_as_they_are_written(pieces: list[bytes]) -> None:
    end = End((("X-Sum", "1"),))
    data = CHUNKED + b"".join(map(chunk, pieces)) + last_chunk(end)
    body = [Body(b"".join(pieces))] if pieces else []
    assert requests(data)[0] == ["/c", *body, end]


# -- any bytes --------------------------------------------------------------------------------------------------------
@given(streams(PARTS))
@example(b"GET\r\n")
@example(b"GET / HTTP/2.0\nx HTTP/2.0\r\n\r\n")
@example(b"GET /\nx HTTP/2.0\r\n\r\n")
def test_any_bytes_are_requests_or_one_error_in_any_chunking(data: bytes) -> None:
    requests(data)


@given(streams(ANSWERS))
def test_any_bytes_are_answers_or_one_error_in_any_chunking(data: bytes) -> None:
    responses(data, HEAD, GET, WEBSOCKET, GET)


@given(streams(PARTS))
def test_what_is_forwarded_is_read_again_as_the_same(data: bytes) -> None:  # PRX-15
    for event in outcome(RequestParser(), [data])[0]:
        if isinstance(event, Head) and event.form != "authority":
            again = head_of(serialise(event, forward=True))
            for name in ("method", "host", "path", "length", "keep_alive", "websocket", "expects_continue"):
                assert getattr(again, name) == getattr(event, name)
