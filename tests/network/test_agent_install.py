"""Agents are installed by the real npm and pip in a box that reaches the registry alone, and nothing else is left."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paddock.tools import Store
from tests.network.test_programs import require
from tests.support.registry import Shelf
from tests.support.tools import text

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from tests.support.internet import Internet, Online

pytestmark = pytest.mark.box


@pytest.fixture(scope="module")
def shelf(internet: Internet, tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    require("npm")
    made = Shelf(internet.root, tmp_path_factory.mktemp("packages"))
    made.npm("demo", "1.0.0", "1.1.0", script="touch ran-a-script")
    made.npm("demo", "3.0.0", host="packages.example", under="npm/")
    made.wheel("pdemo", "1.5")
    return made


@pytest.fixture
def store(online: Online, shelf: Shelf) -> Iterator[Store]:
    """Empty before and after; nothing is left of an install, whatever came of it."""
    before = set(_scratches())
    found = Store(f"{online.state}/tools")
    yield found
    assert set(_scratches()) == before
    assert [name for name in os.listdir(found.directory) if name not in {".lock", *found.names()}] == []
    for name in found.names():
        assert online.cli("agent", "rm", name).returncode == 0
    (online.state / "probes.json").unlink(missing_ok=True)


def _scratches() -> list[str]:
    return [name for name in os.listdir("/var/tmp") if name.startswith("paddock-install-")]


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
    assert done.stderr == b"npm fetches demo@1.0.0 in a box that reaches registry.npmjs.org alone\n"
    tool = store.current("demo")
    assert tool is not None
    record = tool.record
    assert (record.source, record.package, record.version) == ("npm", "demo", "1.0.0")
    assert record.integrity["node_modules/demo"].startswith("sha512-")
    assert tool.changed() == ()
    assert _scripts_ran(Path(tool.tree)) == []
    outside = online.workspace / "outside"
    outside.mkdir()
    words = ["env", f"HOME={outside}", "npm", "install", "--prefix", str(outside), "demo@1.0.0"]
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
    assert b"reaches pypi.org, files.pythonhosted.org alone" in done.stderr
    tool = store.current("pdemo")
    assert tool is not None
    assert tool.record.integrity["pdemo==1.5"].startswith("sha256=")
    checked = online.cli("agent", "check", "--json", "--agent-file", file)
    assert json.loads(checked.stdout)[0]["version"] == "1.5"
    assert checked.returncode == 0


# -- a package manager, or a package, that means harm ------------------------------------------------------------------

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
if [ "$1" = config ]; then echo https://registry.npmjs.org/; exit; fi
mkdir -p node_modules/demo node_modules/.bin
echo '#!/bin/sh' > node_modules/demo/cli.js
ln -s ../demo/cli.js node_modules/.bin/demo
echo '{"packages": {"node_modules/demo": {"version": "1.0.0"}}}' > package-lock.json
"""


def _manager(tmp_path: Path, body: str) -> dict[str, str]:
    """A stand-in for npm whose packages do what real ones cannot: npm itself drops links and odd files."""
    place = tmp_path / "npm/bin"
    place.mkdir(parents=True, exist_ok=True)
    (place / "npm").write_text(f"{FAKE}{body}\n")
    (place / "npm").chmod(0o755)
    return {"PATH": f"{place}:{os.environ['PATH']}"}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_tree_that_means_harm_is_refused_and_nothing_is_left(
    online: Online, store: Store, tmp_path: Path, case: str
) -> None:
    act, said = HOSTILE[case]
    refused = _install(online, "--agent-file", _file(online), env=_manager(tmp_path, act))
    assert refused.returncode != 0
    assert said.encode() in refused.stderr
    assert b"\x1b" not in refused.stderr
    assert store.names() == ()
    good = _install(online, "--agent-file", _file(online), env=_manager(tmp_path, ""))
    assert store.names() == ("demo",), good.stderr  # the oracle


ASKS = """
for url in https://registry.npmjs.org/demo https://other.example/x https://packages.example/npm/demo http://10.20.30.40/
do echo "npm error $url $(curl -s -m 5 -o /dev/null -w '%{http_code}' $url)" >&2; done; exit 3
"""


def test_an_install_reaches_the_registry_and_nothing_else(online: Online, store: Store, tmp_path: Path) -> None:
    asked = _install(online, "--agent-file", _file(online), env=_manager(tmp_path, ASKS)).stderr.decode()
    assert "npm: https://registry.npmjs.org/demo 200" in asked
    assert "npm: https://other.example/x 403" in asked
    assert "npm: https://packages.example/npm/demo 403" in asked
    assert "npm: http://10.20.30.40/ 403" in asked
    assert "error: npm could not install demo@1.0.0: exit code 3" in asked
    assert online.cli("policy", "allow", "--user", "other.example").returncode == 0
    try:
        opened = _install(online, "--agent-file", _file(online), env=_manager(tmp_path, ASKS)).stderr.decode()
    finally:
        assert online.cli("policy", "rm", "--user", "other.example").returncode == 0
    assert "npm: https://other.example/x 200" in opened, "the oracle: a rule of its user's opens it"


@pytest.mark.parametrize("package", ["../../evil", "--registry=https://other.example", "demo@npm:evil", "git+ssh://x"])
def test_a_hostile_name_reaches_no_package_manager(online: Online, store: Store, tmp_path: Path, package: str) -> None:
    env = _manager(tmp_path, f"touch {online.workspace}/ran")
    file = _file(online, install=f'npm = "{package}"')
    refused = _install(online, "--agent-file", file, env=env)
    assert (refused.returncode, b"is not the name of a package" in refused.stderr) == (2, True)
    assert list(online.workspace.iterdir()) == []


def test_who_has_no_npm_is_told_what_to_run(online: Online, store: Store) -> None:
    with_words = _file(online, install='npm = "demo"\notherwise = "run its own installer"')
    env = {"PATH": "/nonexistent"}
    home = str(online.home)
    if shutil.which("npm", path="/usr/local/bin:/usr/bin:/bin"):
        pytest.skip("every box of this machine has npm")
    refused = _install(online, "--agent-file", with_words, env={**env, "HOME": home})
    assert b"hint: run its own installer" in refused.stderr
