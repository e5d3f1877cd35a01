"""A box that installs reaches the registry of its user's own settings, and no password of theirs."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Literal

import pytest

from paddock.errors import UserError
from paddock.tools import registry
from paddock.tools.registry import Registry

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("https://packages.example/", ("packages.example:443",)),
        ("https://pypi.org/simple/", ("pypi.org:443", "*.pythonhosted.org:443")),
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


def test_npm_s_settings_are_its_users_and_not_a_projects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".npmrc").write_text(
        "; registry=https://old.example/\nregistry = https://packages.example/${TEAM}/\n"
        "//packages.example/npm/:_authToken=abc\n@scope:registry=https://scope.example/\n"
    )
    project = tmp_path / "project"
    project.mkdir()
    (project / ".npmrc").write_text("registry=https://evil.example/\n")
    monkeypatch.chdir(project)
    environ = {**_environ(tmp_path), "TEAM": "npm"}
    assert registry.of("npm", environ).url == "https://packages.example/npm/"
    (tmp_path / "other").write_text('registry="https://third.example/"\n')
    assert registry.of("npm", {**environ, "NPM_CONFIG_USERCONFIG": f"{tmp_path}/other"}).url == "https://third.example/"
    assert registry.of("npm", {**environ, "npm_config_registry": "https://v.example/"}).url == "https://v.example/"


def test_pip_s_likewise(tmp_path: Path) -> None:
    (tmp_path / ".config/pip").mkdir(parents=True)
    file = tmp_path / ".config/pip/pip.conf"
    file.write_text(
        "[search]\nindex-url = https://evil.example/\n[global]\nindex-url = https://packages.example/simple/\n"
    )
    environ = _environ(tmp_path)
    assert registry.of("pip", environ).url == "https://packages.example/simple/"
    assert (
        registry.of("pip", {**environ, "PIP_INDEX_URL": "https://other.example/s/"}).url == "https://other.example/s/"
    )


@pytest.mark.parametrize(("source", "name"), [("npm", "npm"), ("pip", "python3")])
def test_no_program_of_the_path_is_run(tmp_path: Path, source: Literal["npm", "pip"], name: str) -> None:
    """A box that is gone may have left it in a project whose programs are on the PATH."""
    planted = tmp_path / "bin" / name
    planted.parent.mkdir()
    planted.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\necho https://evil.example/\n")
    planted.chmod(0o755)
    environ = {**_environ(tmp_path), "PATH": f"{planted.parent}:{os.environ['PATH']}"}
    assert "evil" not in registry.of(source, environ).url
    assert not (tmp_path / "ran").exists()
    subprocess.run([name], env=environ, check=True, stdout=subprocess.DEVNULL)
    assert (tmp_path / "ran").exists(), "the oracle: it is what that name runs"


def test_who_has_no_settings_gets_the_machines_or_the_public_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_all = tmp_path / "of all"
    monkeypatch.setattr(registry, "_OF_ALL", {"npm": (str(of_all),), "pip": (str(of_all),)})
    environ = {"PATH": "/nonexistent", "HOME": str(tmp_path)}
    assert registry.of("npm", environ) == Registry(url="", hosts=("*.npmjs.org:443",))
    assert registry.of("pip", environ) == Registry(url="", hosts=("pypi.org:443", "*.pythonhosted.org:443"))
    of_all.write_text("registry=https://machine.example/\n")
    assert registry.of("npm", environ).url == "https://machine.example/"
