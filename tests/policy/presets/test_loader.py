from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from paddock import agents
from paddock.errors import UserError
from paddock.policy import presets
from paddock.policy.evaluator import Evaluator
from paddock.policy.host import Host
from paddock.policy.layering import Statement, compose
from paddock.policy.presets import loader
from paddock.policy.rules import Action, Default, Source, SourceKind

WANTED = {"github", "vscode", "balanced", "locked-down", "open"}
ECOSYSTEMS = {"python", "node", "go", "rust", "java", "ruby", "php", "debian"}


def test_there_is_one_for_every_agent_and_ecosystem() -> None:
    assert set(presets.names()) >= WANTED | ECOSYSTEMS | (set(agents.built_in()) - {"shell"})


@pytest.mark.parametrize("name", presets.names())
def test_a_preset_is_well_formed(name: str) -> None:
    preset = presets.find(name)
    assert preset.name == name
    assert preset.description
    assert preset.rules
    assert all(rule.source.kind is SourceKind.PRESET for rule in preset.rules)
    if name not in {"open", "locked-down"}:
        told = agents.of(name, "").hosts.telemetry if name in agents.built_in() else ()
        denied = {rule.pattern for rule in preset.rules if rule.action is Action.DENY}
        assert denied == set(told), "where an agent reports what people do, and nothing else"
        assert all(rule.pattern.rpartition(":")[2].isdecimal() for rule in preset.rules), "ports are named"
        assert not any(rule.pattern.startswith("*:") for rule in preset.rules)
        assert not any(rule.bypass for rule in preset.rules)


@pytest.mark.parametrize("name", sorted(ECOSYSTEMS))
def test_registries_are_domains_with_all_below_them(name: str) -> None:
    data = tomllib.loads((Path(loader.__file__).parent / f"{name}.toml").read_text())
    assert "allow" not in data
    found = {rule.pattern for rule in presets.find(name).rules}
    for domain in data["domains"]:
        assert domain.count(".") <= 2
        for port in data.get("ports", [443]):
            assert {f"{domain}:{port}", f"*.{domain}:{port}"} <= found


def test_where_an_agent_logs_in_is_opened_by_no_preset_of_its_own() -> None:
    assert set(presets.logins()) == {"claude", "codex", "gemini", "copilot", "kiro"}
    for name in presets.logins():
        hosts = [text.removesuffix(":443").replace("*.", "a.") for text in presets.login(name)]
        assert hosts
        assert [host for host in hosts if judge(name).decide(Host(host), 443).allowed] == []
    with pytest.raises(UserError):
        presets.login("opencode")


def judge(*names: str, default: Default = Default.DENY) -> Evaluator:
    return Evaluator(compose(flags=Statement(source=Source(SourceKind.FLAG), default=default, presets=names)))


def test_an_including_preset_has_the_rules_of_all_with_their_names() -> None:
    balanced = presets.find("balanced")
    assert {rule.source.detail for rule in balanced.rules} == set(balanced.include)
    assert judge("balanced").decide(Host("api.github.com"), 443).allowed
    assert not judge("balanced").decide(Host("example.com"), 443).allowed


def test_open_and_locked_down_are_what_they_say() -> None:
    host = Host("example.com")
    assert judge("open").decide(host, 443).allowed
    assert not judge("open").decide(Host("localhost"), 443).allowed
    assert not judge("open").decide(Host("10.0.0.1"), 443).allowed
    assert not judge("locked-down", default=Default.ALLOW).decide(host, 443).allowed
    assert not judge("open", "locked-down").decide(host, 443).allowed
    assert judge("claude", "locked-down").decide(Host("api.anthropic.com"), 443).allowed


@pytest.mark.parametrize("name", ["", "nothing", "../loader", "Github", "\x1b"])
def test_an_unknown_preset_is_refused_with_the_list(name: str) -> None:
    with pytest.raises(UserError) as caught:
        presets.find(name)
    assert caught.value.code == "unknown-preset"
    assert "github" in caught.value.hint


def test_an_unknown_key_in_a_preset_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "odd.toml").write_text("description = 'x'\nallowed = []\n")
    monkeypatch.setattr(loader, "_DIRECTORY", str(tmp_path))
    loader.names.cache_clear()
    try:
        with pytest.raises(UserError, match="allowed"):
            loader.find("odd")
    finally:
        loader.names.cache_clear()
