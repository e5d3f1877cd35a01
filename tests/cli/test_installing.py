"""What an install says when it cannot be done; tests/network/test_agent_install.py does it."""

from __future__ import annotations

import ipaddress
import shutil
import socket
import urllib.request
from typing import TYPE_CHECKING

import pytest

from paddock.cli import installing
from paddock.errors import UserError
from paddock.tools import Store, packages
from tests.support.registry import usual
from tests.support.tools import agent, define

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.installation import Installation


@pytest.mark.parametrize(
    ("said", "line", "hint"),
    [
        ("npm error code E404\nnpm error 404 Not Found", "npm: code E404", "check the name and the version"),
        ("npm ERR! code ENOTFOUND\n", "npm: code ENOTFOUND", "reaches the registry"),
        ("npm error 403 Forbidden", "npm: 403 Forbidden", "paddock network log --denied"),
        ("something \x1b[2J else", r"npm: something \x1b[2J else", "see what it said"),
        ("", "", "see what it said"),
    ],
)
def test_the_package_managers_own_words_are_told(
    capsys: pytest.CaptureFixture[str], said: str, line: str, hint: str
) -> None:
    error = installing._failed(packages.order(agent(), ""), 7, said)
    assert error.message == "npm could not install demo@1.0.0: exit code 7"
    assert hint in error.hint
    assert line in capsys.readouterr().err


def test_only_the_first_lines_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    installing._failed(packages.order(agent(), ""), 1, "npm error x\n" * 500)
    assert len(capsys.readouterr().err.splitlines()) == 8


def test_without_a_package_manager_a_person_is_told_what_to_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("paddock.engines.process.hostprograms.SYSTEM_PATH", ())
    with pytest.raises(UserError, match="cannot install Demo: there is no npm") as caught:
        installing._require_manager(agent(), packages.order(agent(), ""), str(tmp_path))
    assert "apt install npm" in caught.value.hint
    own = agent(install='npm = "demo"\notherwise = "run its installer"')
    with pytest.raises(UserError) as caught:
        installing._require_manager(own, packages.order(own, ""), str(tmp_path))
    assert caught.value.hint == "run its installer"


@pytest.mark.box
def test_what_cannot_be_installed_is_said_before_anything_happens(own_installation: Installation) -> None:
    home = own_installation
    define(home.home / "config", install='otherwise = "get it from its maker"')
    for words, said in (
        (["demo"], b"hint: get it from its maker"),
        (["claud"], b"did you mean 'claude'?"),
        (["claude@../x"], b"is not a version"),
        ([], b"which agent?"),
    ):
        done = home.cli("agent", "install", *words)
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert not (home.state / "tools").exists()


INTEGRITY = "sha512-41Cifkg6e8TylSpdtTpeLVMqvSBEVzTttHvERD741+pnZ8ANv0004MRL43QKPDlK9cGvNp6NZWZUBlbGXYxxng=="


@pytest.mark.box
def test_a_package_of_the_real_registry_is_installed(own_installation: Installation) -> None:
    """What anyone sees who installs this version: its digest is public."""
    home = own_installation
    address = _reached()
    if not ipaddress.ip_address(address).is_global:  # a mirror on a network of one's own, which a person would allow
        assert home.cli("policy", "allow", "--user", f"{address}:443").returncode == 0
    install = 'npm = "is-number"\nentry = "node_modules/is-number/index.js"'
    define(home.home / "config", "tiny", install=install, more="version = []\nhelp = []")
    done = home.cli("agent", "install", "tiny@7.0.0", env={"HOME": str(home.home), "NPM_CONFIG_REGISTRY": ""})
    assert done.returncode == 0, done.stderr
    tool = Store(f"{home.state}/tools").current("tiny")
    assert tool is not None
    assert tool.record.integrity == {"node_modules/is-number": INTEGRITY}
    assert tool.changed() == ()
    assert home.cli("agent", "rm", "tiny").returncode == 0


def _reached() -> str:
    """Its address, or the test is skipped with the reason."""
    if not shutil.which("npm"):
        pytest.skip("npm is not installed")
    host = usual()
    try:
        address = str(socket.getaddrinfo(host, 443, socket.AF_INET)[0][4][0])
        with urllib.request.urlopen(f"https://{host}/is-number/7.0.0", timeout=10):
            return address
    except OSError as error:
        pytest.skip(f"{host} is not reached: {error}")
