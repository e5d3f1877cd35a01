"""A box gets placeholders, the gateway the values, and nothing is in both."""

from __future__ import annotations

import json

import pytest

from paddock import codec
from paddock.errors import UserError
from paddock.secrets.binding import Words, bind
from paddock.secrets.boxes import Exported, Held, entries, environment, exported, hold
from paddock.secrets.value import Secret

TEXT = "sk-real-0123456789"
GITHUB = bind("github", Words(repos=["me/a:ro"]))
SHOP = bind("shop", Words(hosts=["http://api.shop.example:8080"], headers=["X-Key"], body=True))


def test_a_box_has_a_placeholder_in_every_variable() -> None:
    held = hold([GITHUB, SHOP])
    env = environment(held)
    assert set(env) == {"GH_TOKEN", "GITHUB_TOKEN", "SHOP_API_KEY", "PADDOCK_GIT"}
    assert env["PADDOCK_GIT"] == f"https://github.com={held[0].placeholder}"
    assert env["GH_TOKEN"] == env["GITHUB_TOKEN"] == held[0].placeholder
    assert env["GH_TOKEN"].startswith("ghp_")
    assert env["GH_TOKEN"] != env["SHOP_API_KEY"]


def test_every_box_has_its_own() -> None:
    assert hold([GITHUB])[0].placeholder != hold([GITHUB])[0].placeholder


def test_what_a_box_has_already_it_keeps() -> None:
    first = hold([GITHUB])
    more = hold([GITHUB, SHOP], {"github": first[0].placeholder})
    assert more[0] == first[0]
    assert more[1].placeholder not in {"", first[0].placeholder}


def test_what_is_kept_with_a_box_has_no_value_and_comes_back() -> None:
    [held] = hold([GITHUB])
    entries([held], {"github": Secret(TEXT)})
    written = json.dumps(codec.to_wire(held))
    assert TEXT not in written
    assert codec.from_wire(Held, json.loads(written)) == held


def test_the_gateway_is_told_all_it_needs() -> None:
    held = hold([GITHUB, SHOP])
    first, second = entries(held, {"github": Secret(TEXT)})
    assert first == {
        "name": "github",
        "placeholder": held[0].placeholder,
        "value": TEXT,
        "missing": False,
        "hosts": ["github.com"],
        "port": 443,
        "scheme": "https",
        "headers": ["authorization"],
        "body": False,
        "query": False,
        "git": {"repos": ["me/a"], "write": False},
    }
    assert (second["value"], second["missing"]) == ("", True)
    assert (second["hosts"], second["port"], second["scheme"]) == (["api.shop.example"], 8080, "http")
    assert (second["headers"], second["body"], second["git"]) == (["x-key"], True, None)
    json.dumps([first, second])


@pytest.mark.parametrize(
    "bindings",
    [
        [GITHUB, GITHUB],
        [GITHUB, bind("other", Words(hosts=["a.example"], env=["GH_TOKEN"]))],
    ],
)
def test_a_name_or_a_variable_stands_for_one_secret(bindings: list[object]) -> None:
    with pytest.raises(UserError, match="the secrets 'github' and"):
        hold(bindings)  # type: ignore[arg-type]  # a table of bindings


def test_a_secret_may_be_named_as_its_variable() -> None:
    [held] = hold([bind("x", Words(hosts=["a.example"], env=["x"]))])
    assert environment([held])["x"] == held.placeholder


def test_keys_exported_in_the_callers_shell_are_found() -> None:
    environ = {"ANTHROPIC_API_KEY": TEXT, "GOOGLE_API_KEY": TEXT, "GH_TOKEN": "", "CODEX_API_KEY": TEXT, "HOME": "/"}
    assert exported(environ) == (
        Exported(service="anthropic", variable="ANTHROPIC_API_KEY"),
        Exported(service="openai", variable="CODEX_API_KEY"),
        Exported(service="google", variable="GOOGLE_API_KEY"),
    )
    assert exported({}) == ()


def test_an_exported_key_is_bound_as_its_service_and_known_by_its_own_variable() -> None:
    found = Exported(service="google", variable="GOOGLE_API_KEY")
    assert found.binding().hosts == ("generativelanguage.googleapis.com",)
    assert found.binding().env == ("GEMINI_API_KEY", "GOOGLE_API_KEY")
    assert found.source().words == ("GOOGLE_API_KEY",)
