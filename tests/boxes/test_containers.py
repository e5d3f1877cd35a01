"""Boxes with a root of their own, by the command line: from an image file to the end of the box."""

from __future__ import annotations

import os
import tarfile
from typing import TYPE_CHECKING

import pytest

from paddock.engines.container import ids
from tests.runtime.test_templates import saved
from tests.support import roots
from tests.support.installation import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.installation import Installation

pytestmark = [pytest.mark.box, pytest.mark.skipif(not roots.installed(), reason="no OCI runtime on this machine")]


def test_an_image_runs_keeps_what_changed_and_leaves_nothing(
    installation: Installation, root: Path, tmp_path: Path
) -> None:
    layer = tmp_path / "layer.tar"
    with tarfile.open(layer, "w") as archive:
        archive.add(root, ".", filter=_owned)
    saved(tmp_path / "image.tar", layer.read_bytes())
    made = installation.cli("create", "-t", str(tmp_path / "image.tar"), "shell")
    assert made.returncode == 0, made.stderr
    name = made.stdout.decode().strip()
    first = installation.cli(
        "exec", name, "sh", "-c", "cat /etc/of-the-root; echo $A; echo kept > /etc/kept; rm /etc/of-the-root"
    )
    assert (first.stdout, first.stderr, first.returncode) == (b"below\n1\n", b"", 0)
    assert installation.cli("stop", name).returncode == 0
    again = installation.cli("exec", name, "sh", "-c", "cat /etc/kept; ls /etc/of-the-root 2>/dev/null; id -u")
    assert again.stdout == b"kept\n0\n"
    assert b"container" in installation.cli("inspect", name).stdout
    other = installation.cli("run", "-t", str(tmp_path / "image.tar"), "--", "cat", "/etc/of-the-root")
    assert other.stdout == b"below\n"
    assert installation.cli("rm", "-f", name).returncode == 0
    until(lambda: os.listdir(installation.state / "trash") == [], "what it wrote is gone")
    assert os.listdir(installation.state / "boxes") == []


def test_an_images_user_command_and_directory_are_those_of_its_box(
    installation: Installation, root: Path, tmp_path: Path
) -> None:
    layer = tmp_path / "layer.tar"
    with tarfile.open(layer, "w") as archive:
        archive.add(root, ".", filter=_owned)
    run: dict[str, object] = {"User": "agent", "Entrypoint": ["sh", "-c"], "Cmd": ["id -u; pwd"], "WorkingDir": "/etc"}
    saved(tmp_path / "image.tar", layer.read_bytes(), **run)
    me = b"0" if os.getuid() and roots.installed()[0] == "runc" and ids.of_caller(0).count == 1 else b"1000"
    whole = installation.cli("run", "-t", str(tmp_path / "image.tar"))
    assert (whole.stdout, whole.returncode) == (me + b"\n/etc\n", 0), whole.stderr
    look = ("stat", "-c", "%u", "/", "/run", "/etc/passwd", "/etc/of-the-root")
    owners = installation.cli("run", "-t", str(tmp_path / "image.tar"), "--", *look)
    assert owners.stdout.split() == ([b"0", b"0", b"0", b"33"] if ids.of_caller(0).count > 1 else [me] * 4)
    given = installation.cli("run", "-t", str(tmp_path / "image.tar"), "--", "sh", "-c", "id -u; pwd; echo > made")
    assert given.stdout == me + b"\n" + os.fsencode(installation.workspace) + b"\n"
    assert (installation.workspace / "made").stat().st_uid == os.getuid()
    name = installation.cli("create", "-t", str(tmp_path / "image.tar"), "shell").stdout.decode().strip()
    give = "id -u; echo > /etc/given; chown 33:34 /etc/given; stat -c %u:%g /etc/given"  # as packages do
    root_in_it = installation.cli("exec", "-u", "root", name, "sh", "-c", give)
    if ids.of_caller(0).count > 1:
        assert root_in_it.stdout == b"0\n33:34\n"
    else:
        assert b"this box has one user" in root_in_it.stderr
    nobody = installation.cli("exec", "-u", "somebody", name, "id", "-u")
    assert (nobody.stdout, nobody.returncode) == (b"", 2)
    assert b"no user 'somebody' is in its /etc/passwd" in nobody.stderr
    assert installation.cli("rm", "-f", name).returncode == 0


def _owned(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 33 if info.name.endswith("of-the-root") else 0
    return info


def test_the_network_of_a_container_is_as_sealed_as_any(installation: Installation, root: Path) -> None:
    """The oracle is the host's: from it the same connection succeeds."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            pass
        script = (
            "import socket\n"
            f"for place in (('127.0.0.1', {port}), ('192.0.2.1', 80)):\n"
            "    try:\n"
            "        s = socket.create_connection(place, timeout=5); s.send(b'x'); print(s.recv(1))\n"
            "    except OSError as error: print(type(error).__name__)\n"
        )
        done = installation.cli("run", "-t", str(root), "--", "python3", "-c", script)
    answers = done.stdout.split()
    assert len(answers) == 2, done.stderr
    assert answers[0] == b"ConnectionRefusedError"
    assert answers[1] in {b"ConnectionResetError", b"b''"}


def test_what_belongs_to_one_engine_alone_is_refused_with_the_others(installation: Installation, root: Path) -> None:
    for words in (["--engine", "container"], ["--engine", "process", "-t", str(root)], ["--runtime", "crun"]):
        done = installation.cli("run", *words, "--", "true")
        assert done.returncode == 2, done.stderr
        assert b"has a root of its own" in done.stderr


def test_a_container_outlives_its_daemon_and_the_next_one_seals_it_anew(
    own_installation: Installation, root: Path
) -> None:
    one = own_installation
    name = one.cli("create", "-t", str(root), "shell").stdout.decode().strip()
    assert one.cli("exec", name, "sh", "-c", "echo mine > /run/mark").returncode == 0
    one.kill_daemon()
    assert one.cli("exec", name, "cat", "/run/mark").stdout == b"mine\n", "it is the same box: /run is in memory"
    ask = "import socket; print(socket.gethostbyname('denied.example'))"
    assert one.cli("exec", name, "python3", "-c", ask).stdout.startswith(b"198.18."), "the gateway answers for names"
