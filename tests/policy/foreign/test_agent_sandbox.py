from __future__ import annotations

import sys

import pytest

from paddock.errors import Unavailable, UserError
from paddock.policy.foreign import read_agent_sandbox, write_agent_sandbox
from paddock.policy.layering import Statement, compose
from paddock.policy.rules import Default, Layer, Source, SourceKind

TEXT = """
services:
  - claude
  - name: github
    merge_mode: replace
domains:
  - api.example.org
  - "*.example.com"
  - host: only.example.net
    rules:
      - schemes: [https]
"""


def layer(**words: object) -> Layer:
    return compose(user=Statement(source=Source(SourceKind.USER), **words)).layers[-1]  # type: ignore[arg-type]


def test_services_become_presets_and_domains_rules() -> None:
    pytest.importorskip("yaml")
    found = read_agent_sandbox(TEXT, "policy.yaml")
    assert found.statement.default is Default.DENY
    assert found.statement.presets == ("claude", "github")
    assert found.statement.allow == (
        "api.example.org:443",
        "api.example.org:80",
        "example.com:443",
        "example.com:80",
        "*.example.com:443",
        "*.example.com:80",
        "only.example.net:443",
    )
    assert found.notes == ("preset github opens ssh too",)


def test_an_entry_that_replaces_drops_what_stood_before() -> None:
    pytest.importorskip("yaml")
    text = "domains:\n  - a.com\n  - {host: a.com, merge_mode: replace, rules: [{schemes: [https]}]}\n"
    assert read_agent_sandbox(text, "p").statement.allow == ("a.com:443",)


@pytest.mark.parametrize("text", ["", "services:\n", "domains: []\n"])
def test_an_empty_file_allows_nothing(text: str) -> None:
    pytest.importorskip("yaml")
    assert list(read_agent_sandbox(text, "p").statement.rules()) == []


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("service: []", 1, "unknown key 'service'"),
        ("services:\n  - nothing", 2, "unknown service 'nothing'"),
        ("services:\n  - name: github\n    readonly: true", 3, "unknown key 'readonly'"),
        ("services:\n  - name: github\n    repos: [a/b]", 3, "unknown key 'repos'"),
        ("services:\n  - merge_mode: replace", 2, "missing key 'name'"),
        ("services:\n  - name: github\n    merge_mode: add", 3, "merge_mode must be replace"),
        ("domains:\n  - a.com\n  - host: b.com\n    rules:\n      - methods: [GET]", 5, "unknown key 'methods'"),
        ("domains:\n  - host: b.com\n    rules:\n      - path: {prefix: /v1/}", 4, "unknown key 'path'"),
        ("domains:\n  - host: b.com\n    transform: {}", 3, "unknown key 'transform'"),
        ("domains:\n  - host: b.com\n    rules:\n      - schemes: [ftp]", 4, "schemes are http and https"),
        ("domains:\n  - a..com", 2, "is not a pattern"),
        ("domains:\n  - a.com:22", 2, "is not a domain"),
        ("domains:\n  - 10.0.0.1", 2, "is not a domain"),
        ("domains:\n  - '*'", 2, "is not a domain"),
        ("domains:\n  - 7", 2, "must be a word"),
        ("domains: a.com", 1, "must be a list"),
        ("domains:\n  - [a]", 2, "must be a mapping"),
        ("- a", 1, "must be a mapping"),
        ("domains: []\ndomains: []", 2, "appears twice"),
        ("services: &a [*a]", 1, ""),
        ("a: [", 1, ""),
        ("a: !!python/object:os.system []", 1, "unknown key 'a'"),
        ("[" * 3_000, 1, ""),
    ],
)
def test_a_mistake_is_named_with_file_and_line(text: str, line: int, said: str) -> None:
    pytest.importorskip("yaml")
    with pytest.raises(UserError) as caught:
        read_agent_sandbox(text, "p.yaml")
    assert caught.value.message.startswith(f"p.yaml:{line}: ")
    assert said in caught.value.message


def test_what_is_written_is_read_back() -> None:
    pytest.importorskip("yaml")
    before = read_agent_sandbox(TEXT, "p").statement
    written = write_agent_sandbox(compose(user=before).layers[-1])
    again = read_agent_sandbox(written.text, "p").statement
    assert set(again.allow) == set(before.allow)
    assert set(again.presets) == set(before.presets)


def test_a_file_is_written_without_yaml() -> None:
    written = write_agent_sandbox(layer(allow=("a.com", "b.com:443"), presets=("claude",)))
    assert written.text == (
        'services:\n  - claude\ndomains:\n  - "a.com"\n  - host: "b.com"\n    rules:\n      - schemes: [https]\n'
    )
    assert write_agent_sandbox(layer()).text == "domains: []\n"


@pytest.mark.parametrize("pattern", ["10.0.0.0/8", "*", "*:443", "localhost:80", "a.com:22"])
def test_what_has_no_form_there_is_left_out_and_noted(pattern: str) -> None:
    written = write_agent_sandbox(layer(allow=(pattern,)))
    assert written.text == "domains: []\n"
    assert written.notes == (f"allow {pattern} is left out: it has no form there",)


@pytest.mark.parametrize("words", [{"deny": ("a.com",)}, {"default": Default.ALLOW}, {"default": Default.OBSERVE}])
def test_what_would_become_wider_there_is_refused(words: dict[str, object]) -> None:
    with pytest.raises(UserError) as caught:
        write_agent_sandbox(layer(**words))
    assert caught.value.code == "not-expressible"


def test_without_pyyaml_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(Unavailable) as caught:
        read_agent_sandbox(TEXT, "p.yaml")
    assert "pyyaml" in caught.value.hint
