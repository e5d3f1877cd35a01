"""A stored secret is lent by its name, and what is said of it has no value in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.model import SecretUse
from paddock.secrets import sources, stored
from paddock.secrets.binding import Words, bind
from paddock.secrets.store import opened
from paddock.secrets.value import Secret

if TYPE_CHECKING:
    from pathlib import Path

VALUE = "live-5f0c2a7741d94e6b9f"


def test_another_name_of_the_service_is_found_and_none_is_none(tmp_path: Path) -> None:
    store = opened(str(tmp_path / "secrets"), {})
    assert stored.use(store, "gemini") is None
    store.put(bind("gemini", Words()), Secret(VALUE))
    found = stored.use(store, "google", read_only=True)
    assert found is not None
    assert found[0] == SecretUse(name="gemini", read_only=True)


def test_only_a_value_of_the_callers_environment_has_a_variable(tmp_path: Path) -> None:
    store = opened(str(tmp_path / "secrets"), {})
    store.put(bind("openai", Words()), Secret(VALUE))
    store.put(bind("groq", Words()), sources.from_env("MY_GROQ"))
    assert stored.variable(store, SecretUse(name="openai")) == ""
    assert stored.variable(store, SecretUse(name="groq")) == "MY_GROQ"
    assert stored.variable(store, SecretUse(name="mistral", variable="MISTRAL_API_KEY")) == "MISTRAL_API_KEY"
    assert stored.variable(store, SecretUse(name="gone")) == ""


def test_what_is_said_names_hosts_and_variables() -> None:
    said = stored.said(SecretUse(name="openai"), bind("openai", Words()))
    assert said.startswith("secret openai: goes to api.openai.com")
    assert "; the box has a placeholder in OPENAI_API_KEY" in said
    shells = stored.said(SecretUse(name="openai", variable="MINE"), bind("openai", Words()))
    assert shells.startswith("secret openai: is MINE of your shell; goes to")
    assert "new to kept" in stored.said_new(SecretUse(name="openai"), "kept")
