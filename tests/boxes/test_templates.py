"""Templates by the command line: into a box, out of a box, onto another machine, and into a box again."""

from __future__ import annotations

import json
import tarfile
from typing import TYPE_CHECKING

import pytest

from tests.runtime.test_templates import saved
from tests.support import roots, sdk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from paddock.client import AsyncPaddock
    from tests.support.installation import Installation

pytestmark = [
    pytest.mark.box,
    pytest.mark.container,
    pytest.mark.skipif(not roots.installed(), reason="no OCI runtime on this machine"),
]
SECRET = "swordfish-of-the-host"


def _owned(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    return info


@pytest.fixture
def image(root: Path, tmp_path: Path) -> str:
    layer = tmp_path / "layer.tar"
    with tarfile.open(layer, "w") as archive:
        archive.add(root, ".", filter=_owned)
    saved(tmp_path / "image.tar", layer.read_bytes(), Cmd=["cat", "/etc/of-the-root"])
    return str(tmp_path / "image.tar")


@pytest.fixture(autouse=True)
def _templates(installation: Installation) -> Iterator[None]:
    yield
    installation.clear()
    for name in _listed(installation):
        assert installation.cli("template", "rm", name).returncode == 0


def _listed(installation: Installation) -> list[str]:
    return installation.cli("template", "ls", "-q").stdout.decode().split()


def _ok(installation: Installation, *words: str, env: dict[str, str] | None = None) -> str:
    done = installation.cli(*words, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def test_a_box_becomes_a_template_that_runs_elsewhere(
    installation: Installation, own_installation: Installation, image: str, tmp_path: Path
) -> None:
    _ok(installation, "template", "load", image, "-t", "base:v1")
    assert _ok(installation, "run", "-t", "base:v1") == "below\n"
    box = _ok(installation, "create", "-t", "base:v1", "-e", f"TOKEN={SECRET}", "shell").strip()
    work = (
        "echo tool > /usr/bin/tool; rm /etc/of-the-root; echo word-of-the-home > /home/agent/note; echo $TOKEN | wc -c"
    )
    assert _ok(installation, "exec", box, "sh", "-c", work).strip() == str(len(SECRET) + 1)
    _ok(installation, "checkpoint", "create", box)  # whose layers are in the template
    assert _ok(installation, "save", box, "mine:v2").strip() == "mine:v2"
    look = "cat /usr/bin/tool; cat /etc/of-the-root /home/agent/note 2>/dev/null; echo $A $TOKEN"
    assert _ok(installation, "run", "-t", "mine:v2", "--", "sh", "-c", look) == "tool\n1\n"
    assert _ok(installation, "exec", box, "cat", "/home/agent/note") == "word-of-the-home\n"  # the box goes on
    out = tmp_path / "out.tar"
    _ok(installation, "template", "save", "mine:v2", "-o", str(out))
    whole = out.read_bytes()
    assert b"tool\n" in whole  # the oracle: what is inside is found
    for word in (
        SECRET,
        str(installation.workspace).lstrip("/"),
        str(installation.home).lstrip("/"),
        "word-of-the-home",
    ):
        assert word.encode() not in whole
    _ok(own_installation, "template", "load", str(out))
    assert _ok(own_installation, "run", "-t", "mine:v2", "--", "sh", "-c", look) == "tool\n1\n"
    own_installation.clear()
    _ok(own_installation, "template", "rm", "mine:v2")


def test_a_template_goes_and_its_boxes_and_forks_stay(installation: Installation, image: str) -> None:
    _ok(installation, "template", "load", image, "-t", "base:v1")
    box = _ok(installation, "create", "-t", "base:v1", "shell").strip()
    _ok(installation, "exec", box, "sh", "-c", "echo one > /etc/one")
    _ok(installation, "save", box, "mine")
    fork = _ok(installation, "checkpoint", "fork", box).strip()
    _ok(installation, "template", "rm", "base:v1", "mine")
    _ok(installation, "checkpoint", "prune")
    for name in (box, fork):
        assert _ok(installation, "exec", name, "cat", "/etc/one", "/etc/of-the-root") == "one\nbelow\n"
    assert installation.cli("run", "-t", "base:v1", "--", "true").returncode == 2
    _ok(installation, "save", box, "again")  # its template is gone, and what it says is still known
    assert _ok(installation, "run", "-t", "again") == "below\n"
    assert json.loads(_ok(installation, "template", "inspect", "again", "--json"))["env_names"] == ["A", "B"]


def test_a_box_is_saved_to_a_file_and_no_template_is_made(
    installation: Installation, image: str, tmp_path: Path
) -> None:
    before = _listed(installation)
    box = _ok(installation, "create", "-t", image, "shell").strip()
    _ok(installation, "exec", box, "true")
    out = tmp_path / "box.tar"
    assert _ok(installation, "save", box, "team:v3", "-o", str(out)).strip() == str(out)
    assert _listed(installation) == before
    _ok(installation, "template", "load", str(out))
    assert {*_listed(installation)} == {*before, "team:v3"}
    job = installation.cli("exec", "-d", box, "sleep", "60")
    assert job.returncode == 0, job.stderr
    busy = installation.cli("save", box, "busy")
    assert (busy.returncode, b"a command is running" in busy.stderr) == (2, True)
    _ok(installation, "save", "--stop", box, "busy")


def test_a_box_of_a_directory_is_saved_with_it(installation: Installation, root: Path) -> None:
    box = _ok(installation, "create", "-t", str(root), "shell").strip()
    _ok(installation, "exec", box, "sh", "-c", "echo two > /etc/two")
    _ok(installation, "save", box, "mine")
    assert _ok(installation, "run", "-t", "mine", "--", "cat", "/etc/of-the-root", "/etc/two") == "below\ntwo\n"


def test_from_python_a_template_is_the_root_of_what_is_run_and_created(installation: Installation, image: str) -> None:
    _ok(installation, "template", "load", "-t", "team:v1", image)
    words, place = ["cat", "/etc/of-the-root"], str(installation.workspace)
    runtime = roots.installed()[0]
    with installation.sdk() as paddock:
        ran = paddock.run(words, workspace=place, template="team:v1", runtime=runtime)
        assert (ran.exit_code, ran.stdout) == (0, b"below\n"), ran.stderr
        box = paddock.create("one", workspace=place, template="team:v1", engine="container", runtime=runtime)
        assert box.exec(words).stdout == ran.stdout

    async def act(paddock: AsyncPaddock) -> None:
        again = await paddock.run(words, workspace=place, template="team:v1", runtime=runtime)
        other = await paddock.create("two", workspace=place, template="team:v1", engine="container", runtime=runtime)
        assert (await other.exec(words)).stdout == again.stdout == ran.stdout

    sdk.within(installation, act)
