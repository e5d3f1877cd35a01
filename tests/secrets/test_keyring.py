"""A keyring is used if it gives back what it was given, and is never told a value but by standard input."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from paddock.errors import Unavailable
from paddock.secrets.keyring import Keyring
from paddock.secrets.value import Secret
from tests.secrets.standin import Desktop

if TYPE_CHECKING:
    from pathlib import Path

TEXT = "sk-real-0123456789"


@pytest.fixture
def desktop(tmp_path: Path) -> Desktop:
    return Desktop(tmp_path / "desktop")


def test_it_answers_and_keeps_nothing_of_the_question(desktop: Desktop) -> None:
    assert desktop.keyring().answers()
    assert desktop.items() == []


def test_it_gives_back_what_it_was_given_and_drops_it(desktop: Desktop) -> None:
    keyring = desktop.keyring()
    keyring.keep("github", "slot", Secret(TEXT))
    assert desktop.keyring().read("github", "slot").reveal() == TEXT
    assert keyring.drop("github", "slot")
    assert desktop.items() == []
    with pytest.raises(Unavailable, match="does not give 'github'"):
        keyring.read("github", "slot")


def test_a_value_is_in_no_argument_and_in_no_environment(desktop: Desktop) -> None:
    desktop.environ["OTHER_SECRET"] = "not yours"
    desktop.keyring().keep("github", "slot", Secret(TEXT))
    desktop.keyring().read("github", "slot")
    assert desktop.items() == [TEXT]
    assert TEXT not in desktop.calls()
    assert "OTHER_SECRET" not in desktop.calls()


def test_installations_and_slots_do_not_see_each_other(desktop: Desktop) -> None:
    desktop.keyring("here").keep("github", "slot", Secret(TEXT))
    for keyring, slot in ((desktop.keyring("there"), "slot"), (desktop.keyring("here"), "other")):
        with pytest.raises(Unavailable):
            keyring.read("github", slot)


def test_a_locked_one_does_not_answer(desktop: Desktop) -> None:
    keyring = desktop.keyring()
    keyring.keep("github", "slot", Secret(TEXT))
    desktop.lock()
    assert not keyring.answers()
    assert not keyring.drop("github", "slot")
    with pytest.raises(Unavailable, match="did not take"):
        keyring.keep("github", "slot", Secret(TEXT))
    with pytest.raises(Unavailable, match="does not give"):
        keyring.read("github", "slot")


def test_without_a_session_or_without_the_program_there_is_none(desktop: Desktop, tmp_path: Path) -> None:
    places = (str(desktop.home),)
    assert not Keyring("here", {}, places).answers()
    assert not Keyring("here", desktop.environ, (str(tmp_path / "empty"),)).answers()
    bus = tmp_path / "run" / "bus"
    bus.parent.mkdir()
    bus.touch()
    assert Keyring("here", {"XDG_RUNTIME_DIR": str(bus.parent)}, places).answers()


def test_a_program_in_the_callers_path_is_not_asked(desktop: Desktop) -> None:
    """A PATH may lead into a workspace."""
    keyring = Keyring("here", {**desktop.environ, "PATH": str(desktop.home)})
    assert not keyring.answers() or not (desktop.home / "calls").exists()
