"""A package manager, or a package, that means harm leaves nothing; what is good of it becomes a tool."""

from __future__ import annotations

import glob
import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from paddock.tools import Store, staging
from tests.support import contract
from tests.support.installation import until
from tests.support.tools import text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.FULL

HOSTILE = {
    "a link to a file of the host": ("ln -s /etc/passwd node_modules/demo/x", "leads out of the package"),
    "a link to a parent": ("ln -s ../../../x node_modules/demo/x", "leads out of the package"),
    "a fifo": ("mkfifo node_modules/demo/x", "is neither a file nor a directory"),
    "a name that moves the cursor": (r'touch "node_modules/$(printf "a\033[2Jb")"', "is not plain text"),
    "a version that is a path": ("sed -i s/1.0.0/..\\\\/..\\\\/evil/ package-lock.json", "is not a version"),
    "no program": ("rm node_modules/.bin/demo", "has no 'node_modules/.bin/demo'"),
    "a program that is a link out": ("ln -sf /bin/sh node_modules/.bin/demo", "leads out of the package"),
    "a list that is a link": ("mv package-lock.json x; ln -s x package-lock.json", "does not say which version"),
}
FAKE = """#!/bin/sh
touch "$0.ran" 2>/dev/null # on the host; a box has it read-only
mkdir -p node_modules/demo node_modules/.bin
echo '#!/bin/sh' > node_modules/demo/cli.js
ln -s ../demo/cli.js node_modules/.bin/demo
echo '{"packages": {"node_modules/demo": {"version": "1.0.0"}}}' > package-lock.json
"""


@pytest.fixture
def home(installation: Installation) -> Installation:
    return installation


@pytest.fixture
def store(home: Installation) -> Iterator[Store]:
    """Empty before and after; nothing is left of an install, whatever came of it."""
    found = Store(f"{home.state}/tools")
    yield found
    begins = staging.scratch_prefix(found.directory)
    assert [name for name in os.listdir("/var/tmp") if name.startswith(begins)] == []
    left = os.listdir(found.directory) if os.path.isdir(found.directory) else []
    assert [name for name in left if name not in {".lock", *found.names()}] == []
    for name in found.names():
        assert home.cli("agent", "rm", name).returncode == 0
    (home.state / "probes.json").unlink(missing_ok=True)


def _install(
    home: Installation, tmp_path: Path, env: dict[str, str], **rest: str
) -> subprocess.CompletedProcess[bytes]:
    file = tmp_path / "agent.toml"
    file.write_text(text(**rest))
    return home.cli("agent", "install", "--agent-file", str(file), env=env)


def _manager(tmp_path: Path, body: str) -> dict[str, str]:
    """A stand-in for npm whose packages do what real ones cannot: npm itself drops links and odd files."""
    place = tmp_path / "npm/bin"
    place.mkdir(parents=True, exist_ok=True)
    (place / "npm").write_text(f"{FAKE}{body}\n")
    (place / "npm").chmod(0o755)
    return {"PATH": f"{place}:{os.environ['PATH']}"}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_tree_that_means_harm_is_refused_and_nothing_is_left(
    home: Installation, store: Store, tmp_path: Path, case: str
) -> None:
    act, said = HOSTILE[case]
    refused = _install(home, tmp_path, _manager(tmp_path, act))
    assert refused.returncode != 0
    assert said.encode() in refused.stderr
    assert b"\x1b" not in refused.stderr
    assert store.names() == ()
    good = _install(home, tmp_path, _manager(tmp_path, ""))
    assert store.names() == ("demo",), good.stderr  # the oracle


@pytest.mark.parametrize("package", ["../../evil", "--registry=https://other.example", "demo@npm:evil", "git+ssh://x"])
def test_a_hostile_name_reaches_no_package_manager(
    home: Installation, store: Store, tmp_path: Path, package: str
) -> None:
    env = _manager(tmp_path, "")
    refused = _install(home, tmp_path, env, install=f'npm = "{package}"')
    assert (refused.returncode, b"is not the name of a package" in refused.stderr) == (2, True)
    assert b"npm fetches" not in refused.stderr
    assert b"npm fetches" in _install(home, tmp_path, env).stderr  # the oracle
    assert not (tmp_path / "npm/bin/npm.ran").exists()


def test_an_install_that_is_interrupted_leaves_nothing(home: Installation, store: Store, tmp_path: Path) -> None:
    env = _manager(tmp_path, "touch began; exec sleep 60")
    (tmp_path / "agent.toml").write_text(text())
    begins = staging.scratch_prefix(store.directory)
    process = subprocess.Popen(
        home.command(("agent", "install", "--agent-file", str(tmp_path / "agent.toml"))),
        env={**home.environ, **env},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until(lambda: glob.glob(f"/var/tmp/{begins}*/began"), "its box works")
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    assert store.names() == ()
    with home.sdk() as sdk:
        until(lambda: sdk.ls() == [], "the box is gone")


def test_a_file_that_a_box_can_write_installs_nothing(home: Installation, store: Store, tmp_path: Path) -> None:
    (home.workspace / "agent.toml").write_text(text())
    assert home.cli("create", "shell", ".").returncode == 0
    words = ("agent", "install", "--agent-file", "agent.toml")
    refused = home.cli(*words, env=_manager(tmp_path, ""))
    assert (refused.returncode, b"where a box could change it" in refused.stderr) == (2, True)
    assert store.names() == ()
    assert home.cli("rm", "-f", "shell-workspace").returncode == 0
    assert home.cli(*words, env=_manager(tmp_path, "")).returncode == 0, "the oracle: there is no such box"


def test_a_package_manager_that_a_box_could_have_written_installs_nothing(
    home: Installation, store: Store, tmp_path: Path
) -> None:
    """It would choose what the boxes of the agent run. On the host it never runs, not even when that box is gone."""
    good, planted = _manager(tmp_path, ""), _manager(home.workspace, "touch node_modules/demo/planted")
    path = {"PATH": f"{home.workspace}/npm/bin:{good['PATH']}"}
    assert planted["PATH"].startswith(f"{home.workspace}/npm/bin:")
    ran = home.workspace / "npm/bin/npm.ran"
    assert home.cli("create", "shell", ".").returncode == 0
    assert _install(home, tmp_path, path).returncode == 0
    assert _planted(store) == []
    assert home.cli("agent", "rm", "demo").returncode == 0
    assert home.cli("rm", "-f", "shell-workspace").returncode == 0
    assert _install(home, tmp_path, path).returncode == 0
    assert len(_planted(store)) == 1  # the oracle: there is no such box
    assert not ran.exists()
    subprocess.run([home.workspace / "npm/bin/npm"], cwd=tmp_path, check=True)
    assert ran.exists()  # the oracle: on the host it would tell


def _planted(store: Store) -> list[str]:
    tool = store.current("demo")
    assert tool is not None
    return glob.glob(f"{tool.tree}/**/planted", recursive=True)
