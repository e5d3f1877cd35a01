"""Agents are installed by the real npm and pip in a box that reaches the registry alone, and nothing else is left."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paddock.tools import Store, staging
from tests.network.test_programs import require
from tests.support.internet import PUBLIC
from tests.support.registry import Shelf, usual
from tests.support.tools import text

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from tests.support.internet import Internet, Online
    from tests.support.perkind import PerKind

pytestmark = pytest.mark.box


@pytest.fixture(scope="module")
def shelf(internets_of_kinds: PerKind[Internet], tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    require("npm")
    internet = internets_of_kinds.get()
    made = Shelf(internet.root, tmp_path_factory.mktemp("packages"))
    internet.name(usual(), [PUBLIC])
    made.npm("demo", "1.0.0", "1.1.0", script="touch ran-a-script")
    made.npm("demo", "3.0.0", host="packages.example", under="npm/")
    made.npm("wander", "1.0.0", files="elsewhere.example")
    made.wheel("pdemo", "1.5")
    return made


@pytest.fixture
def store(online: Online, shelf: Shelf) -> Iterator[Store]:
    """Empty before and after; nothing is left of an install, whatever came of it."""
    found = Store(f"{online.state}/tools")
    yield found
    begins = staging.scratch_prefix(found.directory)
    assert [name for name in os.listdir("/var/tmp") if name.startswith(begins)] == []
    assert [name for name in os.listdir(found.directory) if name not in {".lock", *found.names()}] == []
    for name in found.names():
        assert online.cli("agent", "rm", name).returncode == 0
    (online.state / "probes.json").unlink(missing_ok=True)


def _file(online: Online, **rest: str) -> str:
    file = online.workspace.parent / "agent.toml"
    file.write_text(text(**rest))
    return str(file)


def _install(online: Online, *words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
    home = {"HOME": str(online.home), "PIP_CONFIG_FILE": "/dev/null"}
    return online.cli("agent", "install", *words, env={**home, **(env or {})})


def test_a_package_of_npm_becomes_a_tool_that_boxes_run(online: Online, store: Store, internet: Internet) -> None:
    file = _file(online)
    done = _install(online, "--agent-file", file)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(b"demo 1.0.0: "), "the version that the definition was tested with"
    assert done.stderr == b"npm fetches demo@1.0.0 in a box that reaches *.npmjs.org alone\n"
    tool = store.current("demo")
    assert tool is not None
    record = tool.record
    assert (record.source, record.package, record.version) == ("npm", "demo", "1.0.0")
    assert record.integrity["node_modules/demo"].startswith("sha512-")
    assert tool.changed() == ()
    assert _scripts_ran(Path(tool.tree)) == []
    outside = online.workspace / "outside"
    outside.mkdir()
    trust = "NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt"
    words = ["env", f"HOME={outside}", trust, "npm", "install", "--prefix", str(outside), "demo@1.0.0"]
    assert internet.run(words).returncode == 0
    assert len(_scripts_ran(outside)) == 1, "the oracle: without our flag its script runs"
    shutil.rmtree(outside)
    checked = online.cli("agent", "check", "--json", "--agent-file", file)
    assert checked.returncode == 0, checked.stdout
    [row] = json.loads(checked.stdout)
    assert (row["origin"], row["version"], row["missing"]) == ("tool", "1.0.0", [])


def _scripts_ran(tree: Path) -> list[Path]:
    return list(tree.rglob("ran-a-script"))


def test_an_update_happens_on_request_alone(online: Online, store: Store) -> None:
    file = _file(online)
    assert _install(online, "--agent-file", file).returncode == 0
    newest = _install(online, "--agent-file", file, "@latest")
    assert newest.stdout.startswith(b"demo 1.1.0: "), newest.stderr
    assert store.versions("demo") == ("1.0.0", "1.1.0")
    again = _install(online, "--agent-file", file)
    assert again.stderr == b"demo 1.0.0 is installed already\n"
    current = store.current("demo")
    assert current is not None
    assert current.record.version == "1.0.0"
    missing = _install(online, "--agent-file", file, "demo@9.9.9")
    assert missing.returncode == 125
    assert b"npm: code ETARGET" in missing.stderr
    assert b"hint: check the name and the version of the package" in missing.stderr
    os.chmod(f"{current.tree}/bin/demo", 0o755)
    damaged = _install(online, "--agent-file", file)
    assert damaged.returncode == 125
    assert b"its files changed: bin/demo" in damaged.stderr
    checked = online.cli("agent", "check", "--agent-file", file)
    assert checked.returncode == 1
    assert b"its files are not those that were installed: bin/demo" in checked.stdout


def test_another_registry_is_taken_from_the_users_settings(online: Online, store: Store) -> None:
    (online.home / ".npmrc").write_text("registry=https://packages.example/npm/\n")
    (online.workspace / ".npmrc").write_text("registry=https://other.example/\n")  # a project's, which is not asked
    try:
        done = _install(online, "--agent-file", _file(online), "demo@latest")
    finally:
        (online.home / ".npmrc").unlink()
        (online.workspace / ".npmrc").unlink()
    assert done.stdout.startswith(b"demo 3.0.0: "), done.stderr
    assert b"reaches packages.example alone" in done.stderr


def test_a_wheel_becomes_a_tool_that_boxes_run(online: Online, store: Store) -> None:
    require("pip3")
    file = _file(online, name="pdemo", program="pdemo", install='pip = "pdemo"')
    done = _install(online, "--agent-file", file, "@latest")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(b"pdemo 1.5: ")
    assert b"reaches pypi.org, *.pythonhosted.org alone" in done.stderr
    tool = store.current("pdemo")
    assert tool is not None
    assert tool.record.integrity["pdemo==1.5"].startswith("sha256=")
    checked = online.cli("agent", "check", "--json", "--agent-file", file)
    assert json.loads(checked.stdout)[0]["version"] == "1.5"
    assert checked.returncode == 0


def test_an_install_reaches_the_registry_and_nothing_else(online: Online, store: Store) -> None:
    """A registry may send npm anywhere for the files of a package."""
    file = _file(online, name="wander", program="wander", install='npm = "wander"')
    refused = _install(online, "--agent-file", file)
    assert refused.returncode == 125
    said = refused.stderr.decode()
    assert "npm: 403 403 Forbidden - GET https://elsewhere.example/wander-1.0.0.tgz" in said
    assert "error: npm could not install wander@1.0.0: exit code 1" in said
    assert "hint: `paddock network log --denied` says what it was refused" in said
    assert store.names() == ()
    log = online.cli("network", "log", "--denied").stdout
    assert b"elsewhere.example:443" in log
    assert online.cli("policy", "allow", "--user", "elsewhere.example").returncode == 0
    try:
        opened = _install(online, "--agent-file", file)
    finally:
        assert online.cli("policy", "rm", "--user", "elsewhere.example").returncode == 0
    assert opened.stdout.startswith(b"wander 1.0.0: "), "the oracle: a rule of its user's opens it"
