"""A package manager, or a package, that means harm leaves nothing; what is good of it becomes a tool."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock.tools import Store, staging
from tests.support.tools import text

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.installation import Installation

pytestmark = pytest.mark.box

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
if [ "$1" = config ]; then touch "$0.asked"; echo https://registry.npmjs.org/; exit; fi
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
    asked = tmp_path / "npm/bin/npm.asked"
    refused = _install(home, tmp_path, env, install=f'npm = "{package}"')
    assert (refused.returncode, b"is not the name of a package" in refused.stderr) == (2, True)
    assert not asked.exists()
    assert _install(home, tmp_path, env).returncode == 0
    assert asked.exists()  # the oracle
