from __future__ import annotations

import pytest

from paddock import errors
from paddock.errors import Denied, PaddockError, Unavailable, UserError


@pytest.mark.parametrize(
    ("cls", "kind", "exit_code"), [(UserError, "user", 2), (Denied, "denied", 77), (Unavailable, "unavailable", 125)]
)
def test_each_error_has_its_kind_and_exit_code(cls: type[PaddockError], kind: str, exit_code: int) -> None:
    error = cls("no rule allows api.example.com:443", hint="ask", code="no-rule")
    assert (error.kind, error.exit_code) == (kind, exit_code)
    assert (str(error), error.hint, error.code) == ("no rule allows api.example.com:443", "ask", "no-rule")
    assert repr(error) == f"<{cls.__name__} no-rule: no rule allows api.example.com:443>"


def test_the_tree_is_one_level_deep() -> None:
    children = PaddockError.__subclasses__()  # parsers of the gateway, where they are loaded, have one of their own
    assert {child for child in children if child.__module__ == errors.__name__} == {UserError, Denied, Unavailable}
    assert len(children) <= 10
    assert not any(child.__subclasses__() for child in children)


def test_without_a_code_the_kind_is_the_code() -> None:
    assert Denied("no").code == "denied"


@pytest.mark.parametrize("cls", [UserError, Denied, Unavailable])
def test_an_error_survives_the_wire(cls: type[PaddockError]) -> None:
    error = cls("box 'a' is gone", hint="create it", code="no-box")
    back = errors.from_wire(error.to_wire())
    assert type(back) is cls
    assert back.to_wire() == error.to_wire()


@pytest.mark.parametrize(
    "data",
    [None, [], "text", 7, {}, {"kind": "error"}, {"kind": 7, "message": []}, {"kind": "Denied"}, {"message": None}],
)
def test_a_malformed_error_is_unavailable(data: object) -> None:
    back = errors.from_wire(data)
    assert type(back) is Unavailable
    assert back.message
