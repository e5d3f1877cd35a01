"""Requests and answers pass one by one, in any chunking the same, and nothing passes that was not understood."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.gateway.audit import Audit, Denials, open_log
from paddock.gateway.conversation import Conversation
from paddock.gateway.desk import Desk
from paddock.gateway.http1 import BadRequest, Body, Head, RequestParser
from paddock.gateway.inspection import Inspection
from paddock.gateway.refusal import Refusal
from paddock.limits import INSPECTED_UNREAD_BYTES
from paddock.policy import Evaluator, Host
from tests.support.inspecting import API, OTHER, PLACEHOLDER, VALUE, document, get, secret
from tests.support.properties import bounded
from tests.support.scene import policy
from tests.support.streams import streams

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path
    from typing import Self

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
SECRET = document(secret())


class Talk:
    """A conversation with a real desk; it is connected at once when it wants to be, unless a test does that."""

    def __init__(
        self, directory: Path, content: bytes = SECRET, *, connects: bool = True, requests: Sequence[str] = ()
    ) -> None:
        self._files = [directory / name for name in ("0", "1", "denials")]
        fds = [open_log(os.fspath(path)) for path in self._files]
        self._audit, self._denials = Audit(fds[0], fds[1], box="box"), Denials(fds[2])
        self.desk = Desk("box", self._audit, self._denials, Inspection.parse(content))
        self.desk.rules = Evaluator(policy(requests=requests)).requests
        self.talk = Conversation(self.desk, Host(API), 443, lambda: 1.0)
        self._connects = connects
        self._sent = self._said = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._audit.close()
        self._denials.close()

    def client(self, data: bytes, step: int = 1 << 20) -> None:
        for at in range(0, len(data), step):
            self.talk.feed_client(data[at : at + step])
            if self.talk.wants_server and self._connects:
                self.talk.connected()

    def server(self, data: bytes, step: int = 1 << 20) -> None:
        for at in range(0, len(data), step):
            self.talk.feed_server(data[at : at + step])

    def sent(self) -> bytes:
        """To the server, since the last time."""
        data = b"".join(self.talk.to_server)
        self.talk.to_server.clear()
        return data

    def said(self) -> bytes:
        """To the client."""
        data = b"".join(self.talk.to_client)
        self.talk.to_client.clear()
        return data

    def records(self) -> list[dict[str, Any]]:
        lines = [line for path in self._files[:2] for line in path.read_text().splitlines()]
        return [record for line in lines if "event" in (record := json.loads(line))]

    def refusals(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._files[2].read_text().splitlines()]


def test_requests_follow_each_other_and_each_is_recorded(tmp_path: Path) -> None:
    with Talk(tmp_path) as talk:
        talk.client(get("/a?q=1", f"X-Api-Key: {PLACEHOLDER}"))
        assert talk.sent() == get("/a?q=1", f"X-Api-Key: {VALUE}")
        talk.server(OK)
        assert talk.said() == OK
        talk.client(get("/b", "Connection: close"))
        assert talk.sent() == get("/b", "Connection: close")
        talk.server(OK)
        assert talk.said() == OK
        assert talk.talk.done
        first, second = talk.records()
        assert (first["event"], first["method"], first["path"], first["status"]) == ("request", "GET", "/a", 200)
        assert (first["secrets"], first["received_bytes"], first["decision"]) == ("api", 2, "allow")
        assert "secrets" not in second
        assert VALUE not in json.dumps(talk.records())


def test_what_is_sent_ahead_waits_for_the_answer_before_it(tmp_path: Path) -> None:
    with Talk(tmp_path) as talk:
        talk.client(get("/a") + get("/b") + get("/c"))
        for path in ("/a", "/b", "/c"):
            assert talk.sent() == get(path)
            talk.server(OK)
            assert talk.said() == OK
        assert talk.talk.idle


def test_a_client_that_sends_ahead_without_end_is_not_read_from_any_more(tmp_path: Path) -> None:
    with Talk(tmp_path) as talk:
        talk.client(get("/a"))
        assert talk.talk.hungry
        talk.client(b"x" * INSPECTED_UNREAD_BYTES)
        assert not talk.talk.hungry
    with Talk(tmp_path, connects=False) as talk:
        talk.client(get("/a", "Content-Length: 1000000"))
        while talk.talk.hungry:
            talk.client(b"x" * 4096)
        assert talk.sent() == b""
        talk.talk.connected()
        assert len(talk.sent()) > INSPECTED_UNREAD_BYTES
        assert talk.talk.hungry


@pytest.mark.parametrize("step", [1, 3, 1 << 20])
def test_bodies_pass_both_ways(tmp_path: Path, step: int) -> None:
    with Talk(tmp_path) as talk:
        body = bytes(range(256)) * 20
        talk.client(get("/a", f"Content-Length: {len(body)}", method="PUT") + body, step)
        assert talk.sent() == get("/a", f"Content-Length: {len(body)}", method="PUT") + body
        talk.server(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nX: y\r\n\r\n", step
        )
        head, _, said = talk.said().partition(b"\r\n\r\n")
        assert b"Transfer-Encoding: chunked" in head
        assert said.endswith(b"0\r\nX: y\r\n\r\n")
        assert b"".join(said.replace(b"\r\n", b"\n").split(b"\n")[1:-4:2]) == b"abcde"
        assert talk.talk.idle


def test_trailers_of_a_request_go_nowhere(tmp_path: Path) -> None:
    with Talk(tmp_path) as talk:
        chunks = f"2\r\nhi\r\n0\r\nX-Key: {PLACEHOLDER}\r\n\r\n".encode()
        talk.client(get("/", "Transfer-Encoding: chunked", method="POST") + chunks)
        assert talk.sent().endswith(b"\r\n\r\n2\r\nhi\r\n0\r\n\r\n")


def test_an_event_stream_is_not_held_back(tmp_path: Path) -> None:
    with Talk(tmp_path) as talk:
        talk.client(get("/stream", f"X-Api-Key: {PLACEHOLDER}"))
        talk.server(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert talk.said()
        for number in range(3):
            talk.server(b"b\r\ndata: {%d}\n\n\r\n" % number)
            assert talk.said() == b"b\r\ndata: {%d}\n\n\r\n" % number


def test_a_client_that_waits_to_be_told_to_go_on_is_told_by_the_server(tmp_path: Path) -> None:
    with Talk(tmp_path) as talk:
        talk.client(get("/", "Expect: 100-continue", "Content-Length: 2", method="POST"))
        assert b"Expect: 100-continue" in talk.sent()
        talk.server(b"HTTP/1.1 100 Continue\r\n\r\n")
        assert talk.said() == b"HTTP/1.1 100 Continue\r\n\r\n"
        talk.client(b"hi")
        assert talk.sent() == b"hi"
        talk.server(OK)
        assert talk.said() == OK


def test_a_refused_client_that_waits_hears_so_at_once(tmp_path: Path) -> None:  # PRX-10
    with Talk(tmp_path, document(), requests=[f"allow GET {API}"]) as talk:
        talk.client(get("/up", "Expect: 100-continue", "Content-Length: 999999", method="POST"))
        assert talk.said().startswith(b"HTTP/1.1 403 ")
        assert talk.talk.done
        assert not talk.talk.wants_server
        assert talk.refusals()[0]["reason"] == "request: no request rule of the box policy allows POST here"


def test_an_early_answer_reaches_the_client_and_the_rest_of_its_body_is_still_sent(tmp_path: Path) -> None:
    with Talk(tmp_path) as talk:
        talk.client(get("/", "Content-Length: 10", method="POST") + b"12345")
        talk.server(OK)
        assert talk.said() == OK
        assert not talk.talk.idle
        talk.client(b"67890" + get("/next"))
        assert talk.sent().endswith(b"1234567890" + get("/next"))
        talk.server(OK)
        assert talk.talk.idle
    with Talk(tmp_path) as talk:
        talk.client(get("/", "Content-Length: 10", method="POST") + b"12345")
        talk.server(b"HTTP/1.1 413 No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        assert talk.said().startswith(b"HTTP/1.1 413 No")
        assert talk.talk.done


def test_a_client_that_waits_and_gets_its_answer_early_is_told_to_close(tmp_path: Path) -> None:
    with Talk(tmp_path) as talk:
        talk.client(get("/", "Expect: 100-continue", f"Content-Length: {len(get('/smuggled'))}", method="POST"))
        talk.sent()
        talk.server(OK)
        assert talk.said().startswith(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n")
        talk.client(get("/smuggled"))
        assert talk.sent() == b"", "nobody knows whether this is a body or a request"
        assert talk.talk.done


def test_a_body_that_ends_with_the_connection_ends_the_clients_too(tmp_path: Path) -> None:
    with Talk(tmp_path) as talk:
        talk.client(get("/"))
        talk.server(b"HTTP/1.1 200 OK\r\n\r\nall of it")
        talk.talk.server_ended()
        assert talk.said() == b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall of it"
        assert talk.talk.done
        assert not talk.talk.broken
        assert "reason" not in talk.records()[0]


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
def test_answers_without_a_body_have_none(tmp_path: Path, status: str) -> None:
    with Talk(tmp_path) as talk:
        talk.client(get("/") + get("/", method="HEAD"))
        talk.server(f"HTTP/1.1 {status}\r\n\r\n".encode())
        assert talk.said() == f"HTTP/1.1 {status}\r\n\r\n".encode()
        talk.server(b"HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n")
        assert talk.said() == b"HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n"
        assert talk.talk.idle


UPGRADE = get("/ws", "Connection: Upgrade", "Upgrade: websocket")


def test_a_websocket_leaves_http_when_the_server_agrees(tmp_path: Path) -> None:
    with Talk(tmp_path) as talk:
        talk.client(UPGRADE + b"early")
        assert talk.sent() == UPGRADE
        talk.server(b"HTTP/1.1 101 Yes\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nfirst")
        assert talk.said().endswith(b"\r\n\r\nfirst")
        assert talk.sent() == b"early"
        talk.client(get("/smuggled", f"X-Api-Key: {PLACEHOLDER}"))
        assert PLACEHOLDER.encode() in talk.sent(), "nothing is swapped in a websocket"
        talk.server(b"more")
        assert talk.said() == b"more"
        talk.talk.client_ended()
        assert talk.talk.done
        assert [record["status"] for record in talk.records()] == [101]


def test_a_message_of_a_websocket_does_not_wait_though_a_secret_might_begin_in_it(tmp_path: Path) -> None:
    with Talk(tmp_path) as talk:
        talk.client(get("/ws", "Connection: Upgrade", "Upgrade: websocket"))
        talk.server(b"HTTP/1.1 101 Yes\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        talk.said()
        for end in (VALUE[:1], VALUE[:-1]):
            talk.server(b"\x81\x05" + end.encode())
            assert talk.said() == b"\x81\x05" + end.encode()
        talk.server(b"\x81\x26" + VALUE.encode())
        assert talk.said() == b"\x81\x26" + PLACEHOLDER.encode()


def test_trailers_of_an_answer_pass_without_the_secret(tmp_path: Path) -> None:
    with Talk(tmp_path) as talk:
        talk.client(get("/"))
        talk.server(CHUNKED + f"2\r\nok\r\n0\r\nX-Echo: {VALUE}\r\nX-Sum: 1\r\n\r\n".encode())
        assert talk.said().endswith(f"0\r\nX-Echo: {PLACEHOLDER}\r\nX-Sum: 1\r\n\r\n".encode())


def test_a_websocket_that_the_server_refuses_stays_http(tmp_path: Path) -> None:
    with Talk(tmp_path) as talk:
        talk.client(UPGRADE + get("/next"))
        assert talk.sent() == UPGRADE
        talk.server(OK)
        assert talk.sent() == get("/next")
        talk.server(OK)
        assert talk.said() == OK + OK


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (get("/", host=OTHER), 421),
        (get("/", host=f"{API}:8443"), 421),
        (get("/", "Content-Length: 4", "Transfer-Encoding: chunked"), 400),
        (get("/", " folded: 1"), 400),
        (b"GET / HTTP/1.1\nHost: api.test\n\n", 400),
        (f"GET http://{API}/ HTTP/1.1\r\nHost: {API}\r\n\r\n".encode(), 421),
        (f"GET https://{API}/ HTTP/1.1\r\nHost: {API}\r\n\r\n".encode(), 400),
        (f"CONNECT {API}:443 HTTP/1.1\r\nHost: {API}:443\r\n\r\n".encode(), 403),
        (f"TRACE / HTTP/1.1\r\nHost: {API}\r\n\r\n".encode(), 405),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        (get("/", "Transfer-Encoding: chunked", method="POST") + b"zz\r\n", 400),
        (b"\x16\x03\x01\x00", 400),
    ],
)
def test_a_request_that_must_not_be_is_answered_and_never_sent(tmp_path: Path, data: bytes, status: int) -> None:
    with Talk(tmp_path, connects=False) as talk:
        talk.client(get("/fine") if status == 0 else data)
        if talk.talk.wants_server:  # a malformed body shows when its head has gone
            talk.talk.connected()
            assert b"zz" not in talk.sent()
        assert talk.sent() == b""
        assert talk.said().startswith(f"HTTP/1.1 {status} ".encode())
        assert talk.talk.done
        assert [record["decision"] for record in talk.records()] == ["deny"]


def test_after_a_refusal_nothing_more_is_heard(tmp_path: Path) -> None:
    with Talk(tmp_path) as talk:
        talk.client(get("/a"))
        talk.sent()
        talk.server(OK)
        talk.client(get("/", host=OTHER) + get("/smuggled"))
        talk.client(get("/smuggled"))
        assert talk.sent() == b""
        assert not talk.talk.hungry


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n",
        b"HTTP/1.1 200 OK\nContent-Length: 2\n\n",
        b"HTTP/1.1 200 OK\r\n folded: 1\r\n\r\n",
        b"HTTP/1.1 204 OK\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 100,
        b"\x16\x03",
    ],
)
def test_an_answer_that_cannot_be_understood_is_a_502(tmp_path: Path, data: bytes) -> None:  # PRX-11
    with Talk(tmp_path) as talk:
        talk.client(get("/"))
        talk.server(data)
        said = talk.said()
        assert b"HTTP/1.1 502 Bad Gateway\r\n" in said
        assert b"the answer of api.test cannot be passed on" in said
        assert talk.talk.done
        assert talk.records()[0]["reason"].startswith("the answer of api.test")


def test_a_cut_answer_looks_cut_and_more_than_an_answer_ends_it(tmp_path: Path) -> None:
    for rest in (
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    ):
        with Talk(tmp_path) as talk:
            talk.client(get("/"))
            talk.server(rest)
            talk.talk.server_ended()
            assert talk.talk.broken
    with Talk(tmp_path) as talk:
        talk.client(get("/"))
        talk.server(OK + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
        assert talk.said() == OK, "and nothing that the client could take for its next answer"
        assert talk.talk.done
        assert not talk.talk.broken


def test_a_server_that_closes_without_an_answer_is_told_of_the_first_time(tmp_path: Path) -> None:
    with Talk(tmp_path) as talk:
        talk.client(get("/"))
        talk.talk.server_ended()
        assert talk.said().startswith(b"HTTP/1.1 502 ")
    with Talk(tmp_path) as talk:
        talk.client(get("/"))
        talk.server(OK)
        talk.said()
        talk.client(get("/again"))
        talk.talk.server_ended()
        assert talk.said() == b"", "as it would have met it without us; it tries again by itself"
        assert talk.talk.done
    with Talk(tmp_path) as talk:
        talk.client(get("/"))
        talk.server(OK)
        talk.talk.server_ended()
        assert talk.talk.done
        assert not talk.talk.broken


def test_a_client_that_hangs_up_is_not_answered_for(tmp_path: Path) -> None:
    with Talk(tmp_path) as talk:
        talk.client(get("/"))
        talk.talk.client_ended()
        assert talk.talk.broken
        assert talk.records()[0]["reason"] == "the client ended it"
    with Talk(tmp_path) as talk:
        talk.talk.client_ended()
        assert talk.talk.done
        assert not talk.talk.broken


@pytest.mark.parametrize(("denied", "events"), [(False, "allow"), (True, "deny")])
def test_a_server_that_cannot_be_had_is_told_of(tmp_path: Path, denied: bool, events: str) -> None:
    with Talk(tmp_path, connects=False) as talk:
        talk.client(get("/"))
        talk.talk.failed(Refusal(status=502, reason="no way", text="paddock: no way\n"), denied=denied)
        assert talk.said().endswith(b"paddock: no way\n")
        assert [(record["decision"], record["reason"]) for record in talk.records()] == [(events, "no way")]
        talk.talk.failed(Refusal(status=502, reason="again", text=""), denied=denied)
        assert talk.said() == b""


def test_a_change_of_secrets_counts_for_the_next_request(tmp_path: Path) -> None:  # CRED-10
    with Talk(tmp_path) as talk:
        talk.client(get("/", f"X-Api-Key: {PLACEHOLDER}"))
        assert VALUE.encode() in talk.sent()
        talk.server(OK)
        talk.desk.inspection = Inspection.parse(document(secret(value="rotated-rotated"))).after(talk.desk.inspection)
        talk.client(get("/", f"X-Api-Key: {PLACEHOLDER}"))
        assert b"X-Api-Key: rotated-rotated" in talk.sent()
        talk.server(OK)
        talk.said()
        talk.client(get("/", f"X-Api-Key: {VALUE}"))
        assert talk.said().startswith(b"HTTP/1.1 403 ")


PARTS = [
    get("/"),
    get("/", f"X-Api-Key: {PLACEHOLDER}"),
    get("/p", "Content-Length: 5", method="POST"),
    get("/c", "Transfer-Encoding: chunked", method="POST"),
    get("/last", "Connection: close"),
    get("/", host=OTHER),
    UPGRADE,
    *(b"hello", b"5\r\nhello\r\n", b"0\r\n\r\n", b"\r\n", b"\n", b"\0", b"X: y\r\n", b"Content-Length: 3\r\n"),
    PLACEHOLDER.encode(),
    VALUE.encode(),
]


def outcome(directory: Path, pieces: Iterable[bytes]) -> tuple[list[object], bytes, bool]:
    """(what the server got, what the client got, whether it is over) when each request is answered at once."""
    got = b""
    with Talk(directory) as talk:
        asked = 0
        for piece in pieces:
            talk.client(piece)
            while True:
                got += talk.sent()
                heads = sum(isinstance(event, Head) for event in understood(got))
                if heads == asked or not talk.talk._asked:
                    break
                asked += 1
                talk.server(OK)
        return understood(got), talk.said(), talk.talk.done


def understood(data: bytes) -> list[object]:
    """The requests in `data`, with bodies whole."""
    found: list[object] = []
    try:
        for event in RequestParser().feed(data):
            if isinstance(event, Body) and found and isinstance(found[-1], bytes):
                found[-1] += event.data
            elif isinstance(event, Body):
                found.append(event.data)
            else:
                found.append(event)
    except BadRequest:
        assert not data, "what was sent to a server is malformed"
    return found


@bounded
@given(streams(PARTS), st.integers(1, 40))
def test_any_bytes_give_the_same_in_any_chunking(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, step: int
) -> None:
    directory = tmp_path_factory.getbasetemp()  # PRX-16
    whole = outcome(directory, [data])
    for size in (1, step):
        assert outcome(directory, [data[at : at + size] for at in range(0, len(data), size)]) == whole


ANSWERS = [
    OK,
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n\r\n",
    b"HTTP/1.1 304 No\r\n\r\n",
    b"5\r\nhello\r\n",
    b"0\r\n\r\n",
    b"\r\n",
    b"X: y\r\n",
    VALUE.encode(),
]


@bounded
@given(streams(ANSWERS))
def test_any_answer_gives_the_same_in_any_chunking_and_no_secret(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    said = []
    for step in (1 << 20, 1, 7):
        with Talk(tmp_path_factory.getbasetemp()) as talk:
            talk.client(get("/", f"X-Api-Key: {PLACEHOLDER}"))
            talk.server(data, step)
            talk.talk.server_ended()
            out = talk.said()
            assert VALUE.encode() not in out
            assert talk.talk.done
            said.append((out.partition(b"\r\n\r\n")[0], talk.talk.broken, unchunked(out)))
    assert said[0] == said[1] == said[2]


def unchunked(data: bytes) -> bytes:
    """The body without the framing, which follows the pieces."""
    return bytes(byte for byte in data.partition(b"\r\n\r\n")[2] if byte not in b"0123456789abcdef\r\n")
