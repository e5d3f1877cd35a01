"""One box's inspected requests: what they are judged by, request by request, and where they are recorded.

A request to a host that rules about requests speak of is judged and recorded in the clear as well; what was answered
there is not looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from paddock.gateway.exchange import Exchange
from paddock.gateway.http1 import End
from paddock.gateway.injection import Swapped, body_words, masks, redact, redact_trailers, swap
from paddock.gateway.records import Decided, Decision
from paddock.gateway.refusal import Refusal
from paddock.policy import RequestRules, Verdict, explain
from paddock.policy.layering import ORGANISATION
from paddock.policy.requests import WEBSOCKET
from paddock.text import neutralise

if TYPE_CHECKING:
    from paddock.gateway.audit import Audit, Denials
    from paddock.gateway.heads import Head, ResponseHead
    from paddock.gateway.inspection import Inspection, Place
    from paddock.gateway.judging import Grant
    from paddock.gateway.meter import Meter
    from paddock.policy import Host

    Scheme = Literal["https", "http"]

HTTPS: Final = "https"
HTTP: Final = "http"
NO_RULES: Final = RequestRules()
_SHOWN_CHARS: Final = 200
_LINE_CHARS: Final = 4096


class Desk:
    """`inspection` and `rules` are replaced at any time; a request that has begun keeps what it was begun with."""

    def __init__(self, box: str, audit: Audit, denials: Denials, inspection: Inspection) -> None:
        self._box = box
        self._audit = audit
        self._denials = denials
        self.inspection = inspection
        self.rules = NO_RULES
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
        if not (self.inspection or self.rules) or grant.inside or grant.host.address is not None:
            return False
        if self.rules.at(grant.host, grant.port) is not None:
            return True
        place = self.place(grant.host, grant.port)
        return bool(place.bound) or (place.metered and not grant.verdict.bypass)

    # -- requests inside TLS -------------------------------------------------------------------------------------------

    def begin(self, head: Head, host: Host, port: int, now: float) -> Exchange | Refusal:
        """What becomes of a request on a connection to `host` and `port`."""
        place = self.place(host, port)
        refusal = _not_for(head, place) or self._against_rules(head, host, port)
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

    def refuse(self, refusal: Refusal, head: Head | None, host: Host, port: int, protocol: Scheme = HTTPS) -> None:
        """A request that was not sent on."""
        self.refused += 1
        decided = Decided(
            protocol=protocol,
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
        self._denials.add(decided, allow=refusal.allow)

    # -- requests in the clear -----------------------------------------------------------------------------------------

    def plain_problem(self, head: Head, host: Host, port: int) -> Verdict | None:
        """Why a request over plain HTTP must not be sent on, whatever policy says of its host."""
        if not self.inspection or head.form == "authority":
            return None
        place = self.inspection.place(host, port, "http")
        if place.metered:
            return _no("requests to this host are metered, which needs https")
        swapped = swap(head, place, self.inspection)
        return _no(swapped.reason) if isinstance(swapped, Refusal) else None

    def plain_refusal(self, head: Head, host: Host, port: int) -> Refusal | None:
        """Why a rule about requests refuses one over plain HTTP."""
        return None if head.form == "authority" else self._against_rules(head, host, port)

    def plain_sent(self, head: Head, host: Host, port: int) -> None:
        """A request over plain HTTP goes on its way: recorded where it was judged by itself."""
        if self.rules.at(host, port) is not None:
            decided = Decided(protocol=HTTP, host=host.text, port=port, decision=Decision.ALLOW)
            self._audit.request(decided, method=head.method, path=head.path.partition("?")[0], status=0)

    def plain(self, head: Head, host: Host, port: int) -> Swapped:
        """What is sent in place of a request that has no problem."""
        if not self.inspection:
            return Swapped(head.headers, head.path, ())
        swapped = swap(head, self.inspection.place(host, port, "http"), self.inspection)
        return swapped if isinstance(swapped, Swapped) else Swapped(head.headers, head.path, ())

    def _against_rules(self, head: Head, host: Host, port: int) -> Refusal | None:
        rules = self.rules.at(host, port)
        if rules is None:
            return None
        method = WEBSOCKET if head.websocket else head.method
        path = self._clean(head.path.partition("?")[0])
        verdict = rules.decide(method, head.path.partition("?")[0], head.fields)
        if verdict.allowed:
            return None
        command = explain.allow_request_command(method, host, port, path, self._box, verdict)
        if verdict.layer == ORGANISATION:
            last = "this machine's administrator decides about it: /etc/paddock/policy.toml"
        else:
            last = f"to allow it, run outside the box: {command}" if command else "no rule can allow it"
        lines = (
            f"paddock: {method} {host.text}{neutralise(path, _SHOWN_CHARS)} is denied for box {neutralise(self._box)}",
            f"why: {neutralise(verdict.reason, _LINE_CHARS)}",
            f"rule: {neutralise(str(verdict.rule), _LINE_CHARS) if verdict.rule else 'none speaks of it'}",
            neutralise(last, _LINE_CHARS),
        )
        return Refusal(
            status=403,
            reason=f"request: {verdict.reason}",
            text="\n".join(lines) + "\n",
            rule=str(verdict.rule) if verdict.rule else "",
            allow=command,
        )


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
