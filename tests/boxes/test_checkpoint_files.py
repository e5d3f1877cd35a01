"""Checkpoints that leave a machine and come to another: files and nothing else (ARC-08, ARC-09)."""

from __future__ import annotations

import io
import json
import tarfile
from typing import TYPE_CHECKING

import pytest

from tests.support import roots

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.installation import Installation

pytestmark = pytest.mark.box
SECRET = "swordfish-of-the-host"


def _ok(installation: Installation, *words: str, cwd: Path | None = None) -> str:
    done = installation.cli(*words, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def _exported(installation: Installation, path: Path, *options: str) -> None:
    """Of a box with something of its user's in every place where that may be."""
    (installation.workspace / "project.txt").write_text("of the workspace")
    words = ("--name", "source", "-e", f"TOKEN={SECRET}", "--allow-host", "secret-host.example", *options)
    _ok(installation, "create", *words, "shell")
    assert _ok(installation, "exec", "source", "sh", "-c", "echo of the home > ~/file; echo $TOKEN").strip() == SECRET
    _ok(installation, "checkpoint", "create", "source", "c1")
    _ok(installation, "checkpoint", "export", "source@c1", "-o", str(path))
    whole = path.read_bytes()
    assert b"of the home\n" in whole  # the oracle: what is inside is found
    for word in (SECRET, "of the workspace", str(installation.workspace), str(installation.home), "secret-host"):
        assert word.encode() not in whole


def test_the_home_of_a_process_box_comes_to_another_machine(
    installation: Installation, own_installation: Installation, tmp_path: Path
) -> None:
    path = tmp_path / "checkpoint.tar"
    _exported(installation, path)
    assert _ok(own_installation, "checkpoint", "import", str(path), "--name", "taken").strip() == "taken"
    look = "cat ~/file; echo [$TOKEN]; echo more >> ~/file; cat ~/file"
    assert _ok(own_installation, "exec", "taken", "sh", "-c", look) == "of the home\n[]\nof the home\nmore\n"
    (info,) = json.loads(_ok(own_installation, "ls", "--json"))
    assert (info["engine"], info["network"], info["workspace"], info["env_names"]) == (
        "process",
        "deny",
        str(own_installation.workspace),
        [],
    )
    _ok(own_installation, "checkpoint", "create", "taken", "next")
    _ok(own_installation, "checkpoint", "prune")
    assert _ok(own_installation, "exec", "taken", "cat", "/home/agent/file") == "of the home\nmore\n"
    own_installation.clear()


@pytest.mark.container
@pytest.mark.skipif(not roots.installed(), reason="no OCI runtime on this machine")
def test_the_root_and_the_home_of_a_container_come_to_another_machine(
    installation: Installation, own_installation: Installation, root: Path, tmp_path: Path
) -> None:
    path = tmp_path / "checkpoint.tar"
    _exported(installation, path, "-t", str(root))
    _ok(installation, "exec", "source", "sh", "-c", "echo tool > /usr/bin/tool; rm /etc/of-the-root")
    _ok(installation, "checkpoint", "create", "source", "c2")
    _ok(installation, "checkpoint", "export", "source@c2", "-o", str(path))
    name = _ok(own_installation, "checkpoint", "import", str(path)).strip()
    look = "cat ~/file /usr/bin/tool; ls /etc/of-the-root 2>/dev/null; echo [$TOKEN]"
    assert _ok(own_installation, "exec", name, "sh", "-c", look) == "of the home\ntool\n[]\n"
    (info,) = json.loads(_ok(own_installation, "ls", "--json"))
    assert (info["engine"], info["mounts"]) == ("container", [])
    own_installation.clear()


def test_a_file_that_was_tampered_with_is_refused_whole(installation: Installation, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.tar"
    _exported(installation, path)
    _ok(installation, "rm", "-f", "source")
    sound = path.read_bytes()
    _ok(installation, "checkpoint", "prune")  # what is there already is not read again
    cases = {
        "changed": sound.replace(b"of the home\n", b"of the hole\n"),
        "cut off": sound[: len(sound) // 2],
        "another name": sound.replace(b"checkpoint-home", b"checkpoint-hxme"),
        "more": _with_more(sound),
        "nothing": b"",
    }
    for name, data in cases.items():
        assert data != sound, name
        path.write_bytes(data)
        done = installation.cli("checkpoint", "import", str(path), "--name", "other")
        assert done.returncode == 2, (name, done.stderr)
    assert json.loads(_ok(installation, "ls", "--json")) == []
    path.write_bytes(sound)
    assert _ok(installation, "checkpoint", "import", str(path), "--name", "sound").strip() == "sound"  # the oracle


def _with_more(sound: bytes) -> bytes:
    """A second list of contents, as Docker has one."""
    out = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(sound)) as found, tarfile.open(fileobj=out, mode="w") as made:
        for item in found.getmembers():
            made.addfile(item, found.extractfile(item) if item.isfile() else None)
        data = b'[{"Config":"index.json","RepoTags":[],"Layers":[]}]'
        info = tarfile.TarInfo("manifest.json")
        info.size = len(data)
        made.addfile(info, io.BytesIO(data))
    return out.getvalue()


def test_a_box_that_may_hold_a_token_is_not_exported(installation: Installation, tmp_path: Path) -> None:
    _ok(installation, "create", "--name", "source", "--allow-login", "claude", "shell")
    _ok(installation, "exec", "source", "true")
    _ok(installation, "checkpoint", "create", "source", "c1")
    done = installation.cli("checkpoint", "export", "source@c1", "-o", str(tmp_path / "out"))
    assert done.returncode == 2
    assert b"may hold a token" in done.stderr
    assert not (tmp_path / "out").exists()
