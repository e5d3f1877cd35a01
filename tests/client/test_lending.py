"""Which secret a word means, whose value goes along, and what is said of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from paddock.client import lending
from paddock.errors import UserError
from paddock.model import Lent, SecretUse
from paddock.paths import Paths
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


def lend(*words: str) -> Lent:
    return lending.lend(words, Paths())


def test_a_stored_secret_goes_by_its_name_alone(store: Store) -> None:
    store.put(bind("shop", Words(hosts=["api.shop.example"])), Secret(VALUE))
    lent = lend("shop:ro")
    assert (lent.uses, lent.given) == ((SecretUse(name="shop", read_only=True),), {})
    assert lent.said == ("secret shop: goes to api.shop.example; the box has a placeholder in SHOP_API_KEY",)


@pytest.mark.parametrize(("name", "asked"), [("google", "gemini"), ("gemini", "google"), ("gemini", "gemini")])
def test_a_service_with_two_names_is_found_by_both(store: Store, name: str, asked: str) -> None:
    store.put(bind(name, Words()), Secret(VALUE))
    assert lend(asked).uses == (SecretUse(name=name),)


def test_the_value_of_a_variable_goes_along_if_it_is_set(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put(bind("shop", Words(hosts=["api.shop.example"])), sources.from_env("MY_KEY"))
    assert lend("shop").given == {}
    monkeypatch.setenv("MY_KEY", VALUE)
    lent = lend("shop")
    assert lent.given == {"shop": VALUE}
    assert VALUE not in repr(lent)


def test_an_exported_key_is_used_and_said(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", VALUE)
    lent = lend("openai")
    assert (lent.uses, lent.given) == (
        (SecretUse(name="openai", variable="OPENAI_API_KEY"),),
        {"openai": VALUE},
    )
    (said,) = lent.said
    assert said.startswith("secret openai: is OPENAI_API_KEY of your shell; goes to api.openai.com")
    assert VALUE not in said
    assert VALUE not in repr(lent)
    assert lending.own_values([*lent.uses, SecretUse(name="nobody")], Paths()) == {"openai": VALUE}
    store.put(bind("openai", Words()), Secret(VALUE))
    assert lend("openai").uses == (SecretUse(name="openai"),)  # what was set is meant first


@pytest.mark.parametrize(("name", "hint"), [("openai", "or export OPENAI_API_KEY"), ("shop", "--host HOST")])
def test_a_secret_that_is_neither_set_nor_exported_is_named(store: Store, name: str, hint: str) -> None:
    with pytest.raises(UserError) as caught:
        lend(name)
    assert (caught.value.code, name in caught.value.message, hint in caught.value.hint) == (
        "unknown-secret",
        True,
        True,
    )


def test_one_word_is_not_taken_for_many(store: Store) -> None:
    with pytest.raises(UserError) as caught:
        lending.lend("github", Paths())
    assert caught.value.hint == "write ('github',)"
