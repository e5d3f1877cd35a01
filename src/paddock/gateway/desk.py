"""One box's inspected requests: what they are judged by, request by request, and where they are recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from paddock.gateway.exchange import Exchange
from paddock.gateway.http1 import End
from paddock.gateway.injection import Swapped, body_words, masks, redact, redact_trailers, swap
from paddock.gateway.records import Decided, Decision
from paddock.gateway.refusal import Refusal
from paddock.policy import Verdict
from paddock.text import neutralise

if TYPE_CHECKING:
    from paddock.gateway.audit import Audit, Denials
    from paddock.gateway.heads import Head, ResponseHead
    from paddock.gateway.inspection import Inspection, Place
    from paddock.gateway.judging import Grant
    from paddock.gateway.meter import Meter
    from paddock.policy import Host

HTTPS: Final = "https"
_SHOWN_CHARS: Final = 200


class Desk:
    """`inspection` is replaced at any time; a request that has begun keeps what it was begun with."""

    def __init__(self, box: str, audit: Audit, denials: Denials, inspection: Inspection) -> None:
        self._box = box
        self._audit = audit
        self._denials = denials
        self.inspection = inspection
        self.meter: Meter | None = None
        self.refused = 0
        audit.clean = denials.clean = self._clean

    def __repr__(self) -> str:
        return f"<Desk {self._box} {self.inspection!r}>"

    def _clean(self, text: str) -> str:
        return self.inspection.redacted(text)

    def place(self, host: Host, port: int) -> Place:
        return self.inspection.place(host, port)

    def must_see(self, grant: Grant) -> bool:
        """Whether requests to this destination may not pass unseen: by a bypass they may if they are but metered."""
        if not self.inspection or grant.inside or grant.host.address is not None:
            return False
        place = self.place(grant.host, grant.port)
        return bool(place.bound) or place.rules is not None or (place.metered and not grant.verdict.bypass)

    # -- requests inside TLS -------------------------------------------------------------------------------------------

    def begin(self, head: Head, host: Host, port: int, now: float) -> Exchange | Refusal:
        """What becomes of a request on a connection to `host` and `port`."""
        place = self.place(host, port)
        refusal = _not_for(head, place) or self._against_rules(head, place)
        if refusal is not None:
            return refusal
        swapped = swap(head, place, self.inspection)
        if isinstance(swapped, Refusal):
            return swapped
        metered = self.meter.request(host.text, head) if self.meter is not None and place.metered else None
        if isinstance(metered, Refusal):
            return metered
        body = body_words(place, head.fields.get("content-type", "")) if head.version == "HTTP/1.1" else {}
        words = {each.needle: each.name for each in place.bound} if body else {}
        return Exchange(head, swapped, started=now, metered=metered, words=words, body=body, masks=masks(place))

    def answer(self, head: ResponseHead) -> ResponseHead:
        """The head of an answer as the box gets it."""
        return redact(head, self.inspection)

    def answer_end(self, end: End) -> End:
        return End(redact_trailers(end.trailers, self.inspection)) if end.trailers else end

    def ended(self, exchange: Exchange, host: Host, port: int, now: float, *, reason: str = "") -> None:
        """A request that was sent on, or was to be: once for each."""
        exchange.end(complete=not reason)
        self._audit.request(
            Decided(protocol=HTTPS, host=host.text, port=port, decision=Decision.ALLOW, reason=reason),
            method=exchange.head.method,
            path=exchange.path,
            status=exchange.status,
            secrets=",".join(exchange.names),
            sent_bytes=exchange.sent,
            received_bytes=exchange.received,
            duration_ms=int((now - exchange.started) * 1000),
        )

    def refuse(self, refusal: Refusal, head: Head | None, host: Host, port: int) -> None:
        """A request that was not sent on."""
        self.refused += 1
        decided = Decided(
            protocol=HTTPS,
            host=host.text,
            port=port,
            decision=Decision.DENY,
            rule=refusal.rule,
            reason=refusal.reason,
        )
        self._audit.request(
            decided,
            method=head.method if head else "",
            path=head.path.partition("?")[0] if head else "",
            status=refusal.status,
        )
        self._denials.add(decided, allow="")

    # -- requests in the clear -----------------------------------------------------------------------------------------

    def plain_problem(self, head: Head, host: Host, port: int) -> Verdict | None:
        """Why a request over plain HTTP must not be sent on, whatever policy says of its host."""
        if not self.inspection or head.form == "authority":
            return None
        place = self.inspection.place(host, port, "http")
        if place.metered:
            return _no("requests to this host are metered, which needs https")
        refusal = self._against_rules(head, place)
        if refusal is None:
            swapped = swap(head, place, self.inspection)
            refusal = swapped if isinstance(swapped, Refusal) else None
        return _no(refusal.reason) if refusal is not None else None

    def plain(self, head: Head, host: Host, port: int) -> Swapped:
        """What is sent in place of a request that has no problem."""
        if not self.inspection:
            return Swapped(head.headers, head.path, ())
        swapped = swap(head, self.inspection.place(host, port, "http"), self.inspection)
        return swapped if isinstance(swapped, Swapped) else Swapped(head.headers, head.path, ())

    def _against_rules(self, head: Head, place: Place) -> Refusal | None:
        if place.rules is None:
            return None
        verdict = place.rules.decide(head)
        if verdict.allowed:
            return None
        shown = neutralise(self._clean(head.path.partition("?")[0]), _SHOWN_CHARS)
        lines = (
            f"paddock: {head.method} {place.host.text}{shown} is denied for box {neutralise(self._box)}",
            f"why: {verdict.reason}",
            f"rule: {neutralise(str(verdict.rule)) if verdict.rule else 'what no request rule allows is denied'}",
        )
        rule = str(verdict.rule) if verdict.rule else ""
        return Refusal(status=403, reason=f"request: {verdict.reason}", text="\n".join(lines) + "\n", rule=rule)


def _not_for(head: Head, place: Place) -> Refusal | None:
    """A connection to one host carries requests for that host."""
    if head.form in {"origin", "asterisk"} and head.host == place.host and head.port in {None, place.port}:
        return None
    if head.form == "authority":
        reason = "CONNECT is for the proxy at gateway.paddock:3128"
    elif head.form == "absolute":
        reason = "this is no proxy: the target of a request is a path here"
    else:
        asked = head.host.text if head.port is None else head.host.with_port(head.port)
        reason = f"the request is for {asked} and came on a connection to {place.host.with_port(place.port)}"
    return Refusal(status=403 if head.form == "authority" else 421, reason=reason, text=f"paddock: {reason}\n")


def _no(reason: str) -> Verdict:
    return Verdict(False, None, reason, final=True)
