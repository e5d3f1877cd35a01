"""A box's document says which hosts are inspected and by what; another one takes its place."""

from __future__ import annotations

import pytest

from paddock.errors import UserError
from paddock.gateway.inspection import Inspection
from paddock.limits import PLACES_PER_BOX, SECRETS_PER_BOX, SECRETS_RETIRED_MAX
from paddock.policy import Host
from tests.support.inspecting import API, OTHER, VALUE, document, secret


def test_nothing_is_inspected_without_a_document() -> None:
    assert not Inspection.parse(b"")
    assert Inspection.parse(b"") is Inspection.parse(b""), "boxes without one share it"
    for content in (b"", document()):
        place = Inspection.parse(content).place(Host(API), 443)
        assert not place.needed
        assert (place.bound, place.metered) == ((), False)


@pytest.mark.parametrize(
    ("content", "at", "needed"),
    [
        (document(secret()), (API, 443), True),
        (document(secret()), (API, 8443), False),
        (document(secret()), (OTHER, 443), False),
        (document(secret(missing=True)), (API, 443), True),
        (document(secret(hosts=["localhost:8000"], port=8000)), ("localhost", 8000), True),
        (document(secret(hosts=["localhost:8000"], port=8000)), ("host.docker.internal", 8000), True),
        (document(meter=[API]), (API, 443), True),
        (document(meter=["*.test:443"]), (API, 443), True),
        (document(meter=["*.test:443"]), (API, 80), False),
    ],
)
def test_a_secret_and_a_meter_each_need_inspection(content: bytes, at: tuple[str, int], needed: bool) -> None:
    assert Inspection.parse(content).place(Host(at[0]), at[1]).needed is needed


@pytest.mark.parametrize(
    "wrong",
    [
        b"x" + VALUE.encode(),
        b"[]",
        b"[" * 100_000,
        b'{"secrets": {}}',
        b'{"more": []}',
        b'{"meter": [1]}',
        b'{"meter": ["not a host"]}',
        b'{"requests": []}',
        b'{"secrets": [{"value": "' + VALUE.encode() + b'"}]}',
        b'{"secrets": ["' + VALUE.encode() + b'"]}',
        b'{"secrets": [' + VALUE.encode() + b"]}",
        document(*(secret(f"s{n}", placeholder=f"placeholder-number-{n:08}") for n in range(SECRETS_PER_BOX + 1))),
    ],
)
def test_a_document_that_is_none_is_an_error_without_values(wrong: bytes) -> None:
    with pytest.raises(UserError) as error:
        Inspection.parse(wrong)
    assert VALUE not in str(error.value.to_wire())
    assert VALUE not in repr(error.value.__cause__)


def test_what_applies_to_a_host_is_remembered_within_bounds() -> None:
    inspection = Inspection.parse(document(secret()))
    assert inspection.place(Host(API), 443) is inspection.place(Host(API), 443)
    for number in range(PLACES_PER_BOX * 3):
        inspection.place(Host(f"n{number}.test"), 443)
    assert len(inspection._places) <= PLACES_PER_BOX


def test_values_that_were_replaced_are_remembered_within_bounds() -> None:  # CRED-10
    now = Inspection.parse(document(secret()))
    assert now.retired == ()
    assert now.after(now) is now
    for number in range(SECRETS_RETIRED_MAX * 2):
        before, now = now, Inspection.parse(document(secret(value=f"another-value-{number}"))).after(now)
        assert now.retired[0] == before.secrets[0].leaks[0]
    assert len(now.retired) == SECRETS_RETIRED_MAX
    back = Inspection.parse(document(secret(value="another-value-30"))).after(now)
    assert b"another-value-30" not in back.retired, "one that came back is valid again"


def test_records_have_no_values() -> None:
    before = Inspection.parse(document(secret(value="the-value-before")))
    inspection = Inspection.parse(document(secret())).after(before)
    assert inspection.redacted(f"/bot{VALUE}/x/the-value-before") == "/bot***/x/***"
    assert inspection.redacted(f"{VALUE.upper()}.api.test") == "***.api.test", "names come in one case"
    assert Inspection().redacted(VALUE) == VALUE
    assert VALUE not in repr(inspection) + repr(inspection.place(Host(API), 443))
