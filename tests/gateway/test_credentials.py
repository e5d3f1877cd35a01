"""A secret is bound to names, and no part of the program can show its value by accident."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from typing import Any

import pytest

from paddock.errors import UserError
from paddock.gateway.credentials import Credential, parse
from paddock.policy import Host
from tests.support.inspecting import API, PLACEHOLDER, VALUE, secret


def one(**more: Any) -> Credential:
    return parse([secret(**more)])[0]


def test_a_secret_is_for_the_hosts_port_and_scheme_it_is_bound_to() -> None:
    found = one(hosts=[API, "*.api.test"])
    assert found.is_for(Host(API), 443, "https")
    assert found.is_for(Host("eu.api.test"), 443, "https")
    for host, port, scheme in ((API, 443, "http"), (API, 8443, "https"), ("notapi.test", 443, "https")):
        assert not found.is_for(Host(host), port, scheme)  # type: ignore[arg-type]
    assert not found.is_for(Host("192.0.2.1"), 443, "https")
    assert one(scheme="http", port=80).is_for(Host(API), 80, "http")


def test_the_value_is_in_no_text_and_no_copy() -> None:
    found = one()
    assert found.reveal() == VALUE
    assert found.leaks == (VALUE.encode(),)
    assert one(value="a+b/c=d.e-f_g").leaks == (b"a+b/c=d.e-f_g", b"a%2Bb%2Fc%3Dd.e-f_g"), "and as a URL has it"
    for shown in (repr(found), str(found), f"{found}", repr([found]), repr(dataclasses.asdict(found.binding))):
        assert VALUE not in shown
    for carry in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError):
            carry(found)
    with pytest.raises(TypeError):
        json.dumps(found)


def test_a_missing_secret_has_no_value_and_a_short_one_is_not_looked_for() -> None:
    assert one(missing=True, value="").reveal() == ""
    assert one(missing=True).reveal() == "", "whatever was sent with it"
    assert one(value="short").leaks == ()


@pytest.mark.parametrize(
    "wrong",
    [
        {"value": ""},
        {"value": VALUE + "\r\nX-Evil: 1"},
        {"value": VALUE + "\n"},
        {"value": VALUE + "\0"},
        {"value": " " + VALUE},
        {"value": VALUE + "é"},
        {"value": VALUE * 1000},
        {"value": "v" * 1025, "placeholder": "0123456789abcdef"},
        {"value": VALUE + PLACEHOLDER},
        {"value": 7919791979197919},
        {"value": [VALUE]},
        {"value": None},
        {"name": "No Name"},
        {"name": ""},
        {"placeholder": "short"},
        {"placeholder": "with\r\nlines-with\r\nlines"},
        {"hosts": ["*"]},
        {"hosts": ["10.0.0.0/8"]},
        {"hosts": ["192.0.2.1"]},
        {"hosts": "api.test"},
        {"headers": ["X-Api-Key"]},
        {"headers": ["a b"]},
        {"scheme": "ftp"},
        {"port": "443"},
        {"git": {"repos": "me/x"}},
        {"unknown": 1},
    ],
)
def test_what_cannot_be_a_secret_is_an_error_without_its_value(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError) as error:
        parse([secret(**wrong)])
    for text in (str(error.value), repr(error.value), str(error.value.to_wire())):
        assert VALUE not in text
        assert "7919791979197919" not in text


@pytest.mark.parametrize("wrong", [None, {}, "x", [1], ["x"], [None]])
def test_what_is_no_list_of_secrets_is_an_error(wrong: object) -> None:
    with pytest.raises(UserError):
        parse(wrong)


def test_two_secrets_have_two_names_and_two_placeholders() -> None:
    with pytest.raises(UserError):
        parse([secret(), secret(placeholder=PLACEHOLDER + "2")])
    with pytest.raises(UserError):
        parse([secret(), secret("other")])
    assert len(parse([secret(), secret("other", placeholder=PLACEHOLDER + "2")])) == 2
