"""What TLS says of its name decides; the gate itself is met in test_intake.py."""

from __future__ import annotations

import pytest

from paddock.gateway.hello import Hello, NotTls
from paddock.gateway.sniffer import tls_problem
from paddock.policy import Host


def hello(sni: str | None, *, ech: bool = False) -> Hello:
    return Hello(sni=sni, ech=ech, alpn=())


@pytest.mark.parametrize(
    ("found", "strictly", "loosely"),
    [
        (hello("name.test"), True, True),
        (hello("NAME.test"), True, True),
        (hello("name.test."), True, True),
        (hello("other.test"), False, False),
        (hello("sub.name.test"), False, False),
        (hello("name.test", ech=True), False, False),
        (hello("127.0.0.1"), False, False),
        (hello("name.test\0.evil.test"), False, False),
        (hello(None), False, True),
        (NotTls("it is not"), False, True),
    ],
)
def test_tls_passes_for_its_own_name_alone(found: Hello | NotTls, strictly: bool, loosely: bool) -> None:
    assert (tls_problem(found, Host("name.test"), strict=True) is None) == strictly
    assert (tls_problem(found, Host("name.test"), strict=False) is None) == loosely
