"""--secret on the command line: which secret is meant, whose value goes along, and what is said of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from paddock.cli import lending
from paddock.errors import UserError
from paddock.model import SecretUse
from paddock.secrets import sources
from paddock.secrets.binding import Words, bind
from paddock.secrets.keyring import Keyring
from paddock.secrets.store import Store
from paddock.secrets.value import Secret

if TYPE_CHECKING:
    from pathlib import Path

VALUE = "live-5f0c2a7741d94e6b9f"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    for variable in ("OPENAI_API_KEY", "CODEX_API_KEY", "MY_KEY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path))
    (tmp_path / "state").mkdir()
    directory = str(tmp_path / "state/secrets")
    return Store(directory, Keyring(directory, {}))


def test_a_stored_secret_goes_by_its_name_alone(store: Store) -> None:
    store.put(bind("shop", Words(hosts=["api.shop.example"])), Secret(VALUE))
    lent = lending.lend(["shop:ro"])
    assert (lent.uses, lent.given) == ((SecretUse(name="shop", read_only=True),), {})
    assert lent.said == ("secret shop: goes to api.shop.example; the box has a placeholder in SHOP_API_KEY",)


def test_the_value_of_a_variable_goes_along_if_it_is_set(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put(bind("shop", Words(hosts=["api.shop.example"])), sources.from_env("MY_KEY"))
    assert lending.lend(["shop"]).given == {}
    monkeypatch.setenv("MY_KEY", VALUE)
    lent = lending.lend(["shop"])
    assert lent.given == {"shop": VALUE}
    assert VALUE not in repr(lent)


def test_an_exported_key_is_used_and_said(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", VALUE)
    lent = lending.lend(["openai"])
    assert (lent.uses, lent.given) == (
        (SecretUse(name="openai", variable="OPENAI_API_KEY"),),
        {"openai": VALUE},
    )
    lending.say(lent, quiet=True)
    assert capsys.readouterr().err == ""
    lending.say(lent, quiet=False)
    said = capsys.readouterr().err
    assert said.startswith("paddock: secret openai: is OPENAI_API_KEY of your shell; goes to api.openai.com")
    assert VALUE not in said
    store.put(bind("openai", Words()), Secret(VALUE))
    assert lending.lend(["openai"]).uses == (SecretUse(name="openai"),)  # what was set is meant first


@pytest.mark.parametrize(("name", "hint"), [("openai", "or export OPENAI_API_KEY"), ("shop", "--host HOST")])
def test_a_secret_that_is_neither_set_nor_exported_is_named(store: Store, name: str, hint: str) -> None:
    with pytest.raises(UserError) as caught:
        lending.lend([name])
    assert (caught.value.code, name in caught.value.message, hint in caught.value.hint) == (
        "unknown-secret",
        True,
        True,
    )
