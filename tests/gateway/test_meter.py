"""Whoever counts is asked before a metered request is sent, and hears the answer as it streams by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.gateway.refusal import Refusal
from tests.gateway.test_conversation import OK, Talk
from tests.gateway.test_exchange import Counting
from tests.support.inspecting import API, document, get

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.gateway.heads import Head
    from paddock.gateway.meter import Meter, Metered


class Purse:
    """Pays for one request."""

    def __init__(self) -> None:
        self.counting = Counting()
        self.asked: list[tuple[str, str]] = []

    def request(self, host: str, head: Head) -> Metered | Refusal | None:
        self.asked.append((host, head.path))
        if head.path == "/free":
            return None
        if len(self.asked) > 1:
            return Refusal(status=402, reason="budget: 1 request", text="paddock: the budget is used up\n")
        return self.counting


def test_a_request_is_counted_and_one_over_the_budget_is_refused(tmp_path: Path) -> None:
    purse: Purse = Purse()
    meter: Meter = purse
    with Talk(tmp_path, document(meter=[API])) as talk:
        talk.desk.meter = meter
        talk.client(get("/v1/messages", "Accept-Encoding: gzip"))
        assert b"Accept-Encoding: identity" in talk.sent()
        talk.server(OK)
        assert purse.counting.calls == [("head", 200), ("received", b"ok"), ("end", True)]
        talk.client(get("/v1/messages"))
        said = talk.said()
        assert said.startswith(b"HTTP/1.1 200 OK")
        assert b"HTTP/1.1 402 Payment Required\r\n" in said
        assert said.endswith(b"paddock: the budget is used up\n")
        assert talk.talk.done
        assert talk.sent() == b"", "the server hears nothing of it"
        assert purse.asked == [(API, "/v1/messages")] * 2
        allowed, refused = talk.records()
        assert (refused["decision"], refused["status"], refused["reason"]) == ("deny", 402, "budget: 1 request")
        assert allowed["decision"] == "allow"


def test_a_request_that_was_cut_off_is_told_as_such(tmp_path: Path) -> None:
    purse = Purse()
    with Talk(tmp_path, document(meter=[API])) as talk:
        talk.desk.meter = purse
        talk.client(get("/v1/messages"))
        talk.server(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        talk.talk.client_ended()
        assert purse.counting.calls[-1] == ("end", False)


def test_hosts_that_are_not_metered_and_requests_that_cost_nothing_are_left_alone(tmp_path: Path) -> None:
    purse = Purse()
    with Talk(tmp_path, document(meter=["other.test"])) as talk:
        talk.desk.meter = purse
        talk.client(get("/v1/messages"))
        assert purse.asked == []
    with Talk(tmp_path, document(meter=[API])) as talk:
        talk.desk.meter = purse
        talk.client(get("/free", "Accept-Encoding: gzip"))
        assert b"Accept-Encoding: gzip" in talk.sent()
