"""A box that installs reaches the registry of its user's own settings, and no password of theirs."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.tools import registry

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("https://registry.npmjs.org/", ("registry.npmjs.org:443",)),
        ("https://pypi.org/simple/", ("pypi.org:443", "files.pythonhosted.org:443")),
        ("http://packages.example:4873/npm/", ("packages.example:4873",)),
        ("http://localhost:4873", ("localhost:4873",)),
        ("http://packages.example", ("packages.example:80",)),
    ],
)
def test_an_address_opens_its_host_and_port(url: str, hosts: tuple[str, ...]) -> None:
    found = registry.parse(url)
    assert (found.url, found.hosts) == (url, hosts)
    network = found.network
    assert (network.default, network.on_deny, network.presets) == ("deny", "deny", ())
    assert [(rule.action, rule.pattern, rule.bypass) for rule in network.rules] == [
        ("allow", host, False) for host in hosts
    ]


@pytest.mark.parametrize(
    "url",
    [
        *(
            "",
            "registry",
            "ftp://x/",
            "file:///etc",
            "https://",
            "https://x:99999/",
            "https://x y/",
            "https://ä.example/",
        ),
        *("https://user:password@packages.example/", "https://token@packages.example/", "https://x/" + "a" * 500),
    ],
)
def test_what_is_no_plain_address_is_refused(url: str) -> None:
    with pytest.raises(UserError) as caught:
        registry.parse(url)
    assert "password@" not in caught.value.message + caught.value.hint


def _environ(home: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home)}


def test_npm_is_asked_for_its_users_settings_and_not_for_a_projects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not shutil.which("npm"):
        pytest.skip("npm is not installed")
    (tmp_path / ".npmrc").write_text("registry=https://packages.example/npm/\n//packages.example/npm/:_authToken=abc\n")
    project = tmp_path / "project"
    project.mkdir()
    (project / ".npmrc").write_text("registry=https://evil.example/\n")
    (project / "package.json").write_text("{}")
    monkeypatch.chdir(project)
    assert registry.of("npm", _environ(tmp_path)).url == "https://packages.example/npm/"


def test_pip_is_asked_likewise(tmp_path: Path) -> None:
    (tmp_path / ".config/pip").mkdir(parents=True)
    (tmp_path / ".config/pip/pip.conf").write_text("[global]\nindex-url = https://packages.example/simple/\n")
    environ = _environ(tmp_path)
    assert (
        registry.of("pip", {**environ, "PIP_INDEX_URL": "https://other.example/s/"}).url == "https://other.example/s/"
    )
    if not shutil.which("pip3"):
        pytest.skip("pip is not installed")
    assert registry.of("pip", environ).url == "https://packages.example/simple/"


def test_who_has_no_settings_gets_the_public_ones(tmp_path: Path) -> None:
    environ = {"PATH": "/nonexistent", "HOME": str(tmp_path)}
    assert registry.of("npm", environ).url == "https://registry.npmjs.org/"
    assert registry.of("pip", environ).url == "https://pypi.org/simple/"
