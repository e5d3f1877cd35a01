"""cp between the host and real boxes: both ways, whole trees, and trees made to be misread."""

from __future__ import annotations

import os
import shutil
import stat
from typing import TYPE_CHECKING

import pytest

from paddock.cli.copying import Skipped, side
from tests.support import contract

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.installation import Installation


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("box:/tmp/x", ("box", "/tmp/x")),
        ("box:x", ("box", "x")),
        ("box:", ("box", ".")),
        ("box:a:b", ("box", "a:b")),
        ("./box:x", ("", "./box:x")),
        ("/a:b", ("", "/a:b")),
        (":x", ("", ":x")),
        ("x", ("", "x")),
    ],
)
def test_a_side_is_a_box_or_the_host(word: str, expected: tuple[str, str]) -> None:
    assert side(word) == expected


def test_nothing_skipped_is_success(capsys: pytest.CaptureFixture[str]) -> None:
    skipped = Skipped()
    assert (skipped.finish(), capsys.readouterr().err) == (0, "")
    skipped.add("a\nb", "why\x1b")
    assert (skipped.finish(), repr(skipped)) == (1, "<Skipped 1>")
    assert capsys.readouterr().err == "warning: not copied: a\\nb: why\\x1b\n"


@pytest.fixture
def place(installation: Installation) -> Installation:
    installation.cli("create", "box")
    return installation


def in_box(installation: Installation, script: str) -> str:
    done = installation.cli("exec", "box", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def cp(installation: Installation, source: str, target: str, *, code: int = 0) -> str:
    done = installation.cli("cp", source, target, timeout_s=100)
    assert (done.returncode, done.stdout) == (code, b""), done.stderr
    return done.stderr.decode()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


pytestmark = pytest.mark.box
ENGINES = contract.FULL


# -- there and back ----------------------------------------------------------------------------------------------------


def test_a_file_goes_in_and_comes_out_unchanged(place: Installation) -> None:
    data = os.urandom(3_000_000)
    (place.workspace / "data").write_bytes(data)
    (place.workspace / "data").chmod(0o750)
    assert cp(place, "data", "box:/tmp/in") == ""
    assert cp(place, "box:/tmp/in", "back") == ""
    assert (place.workspace / "back").read_bytes() == data
    assert mode(place.workspace / "back") & 0o700 == 0o700
    assert (place.workspace / "back").stat().st_uid == os.getuid()


def test_a_tree_goes_in_and_comes_out_unchanged(place: Installation) -> None:
    top = place.workspace / "top"
    (top / "d/empty").mkdir(parents=True)
    (top / "d/run").write_text("#!/bin/sh\n")
    (top / "d/run").chmod(0o755)
    (top / "empty").write_text("")
    (top / "link").symlink_to("d/run")
    (top / "d/up").symlink_to("../empty")
    (top / "new\nline \x1b[31m\u00e9").write_text("odd")
    os.close(os.open(os.fsencode(top) + b"/\xff\xfe", os.O_CREAT | os.O_WRONLY, 0o644))
    (top / "private").mkdir(mode=0o700)
    (top / "shut").mkdir(mode=0o755)
    (top / "shut/in").write_text("x")
    assert cp(place, "top", "box:/tmp") == ""
    assert in_box(place, "cd /tmp/top; stat -c %a d/run private; readlink link d/up") == "755\n700\nd/run\n../empty\n"
    in_box(place, "chmod 500 /tmp/top/shut")

    assert cp(place, "box:/tmp/top", "back") == ""
    back = place.workspace / "back"
    assert mode(back / "shut") == 0o500
    (back / "shut").chmod(0o755)
    assert listing(back) == listing(top)


def listing(top: Path) -> list[tuple[bytes, int, bytes]]:
    """Every name, its mode, and what it holds."""
    found = []
    for directory, directories, files in os.walk(os.fsencode(top)):
        for name in directories + files:
            path = os.path.join(directory, name)
            status = os.lstat(path)
            content = b""
            if stat.S_ISLNK(status.st_mode):
                content = os.readlink(path)
            elif stat.S_ISREG(status.st_mode):
                with open(path, "rb") as file:
                    content = file.read()
            found.append((os.path.relpath(path, os.fsencode(top)), status.st_mode, content))
    return sorted(found)


def test_paths_of_a_box_begin_where_its_commands_do(place: Installation) -> None:
    in_box(place, "echo here > here; echo home > ~/home")
    place.cli("exec", "box", "mkdir", "/tmp/d")
    cp(place, "box:here", "box-here")
    cp(place, "box:~/home", "box-home")
    cp(place, "box-home", "box:~/again")
    cp(place, "here", "box:/tmp/d/")
    assert (place.workspace / "box-here").read_text() == "here\n"
    assert (place.workspace / "box-home").read_text() == "home\n"
    assert in_box(place, "cat ~/again /tmp/d/here") == "home\nhere\n"


def test_what_is_there_is_replaced(place: Installation) -> None:
    (place.workspace / "f").write_text("a longer first version")
    for version in ("first", "second"):
        (place.workspace / "f").write_text(version)
        cp(place, "f", "box:/tmp/f")
        cp(place, "box:/tmp/f", "out")
        assert (place.workspace / "out").read_text() == version
    (place.workspace / "top").mkdir()
    (place.workspace / "top/l").symlink_to("x")
    for _ in range(2):
        cp(place, "top", "box:/tmp/")
        cp(place, "box:/tmp/top", ".")


def test_a_stopped_box_is_started_for_a_copy(place: Installation) -> None:
    in_box(place, "echo kept > ~/file")
    place.cli("stop", "box")
    cp(place, "box:~/file", "file")
    assert (place.workspace / "file").read_text() == "kept\n"


def test_a_read_only_place_of_the_box_is_named(place: Installation) -> None:
    (place.workspace / "f").write_text("x")
    assert "error: " in cp(place, "f", "box:/usr/bin/f", code=2)


def test_a_large_tree_takes_one_connection_each_way(place: Installation) -> None:
    top = place.workspace / "top"
    for number in range(60):
        (top / str(number)).mkdir(parents=True)
        for name in range(50):
            (top / str(number) / str(name)).write_text(f"{number} {name}")
    cp(place, "top", "box:/tmp/top")
    cp(place, "box:/tmp/top", "back")
    assert listing(place.workspace / "back") == listing(top)
    assert len(listing(top)) == 3060


def test_what_is_too_deep_for_a_path_is_named_and_the_rest_copied(place: Installation) -> None:
    script = "import os\nos.chdir('/tmp'); os.mkdir('deep'); os.chdir('deep'); open('top', 'w').close()\n"
    script += "for _ in range(400):\n    os.mkdir('d' * 40); os.chdir('d' * 40)\nopen('bottom', 'w').close()"
    (place.workspace / "dig.py").write_text(script)
    in_box(place, "python3 dig.py")
    assert "File name too long" in cp(place, "box:/tmp/deep", "out", code=1)
    assert (place.workspace / "out/top").exists()
    depth = sum(1 for _ in os.walk(place.workspace / "out"))
    assert depth > 90


# -- trees made to be misread ------------------------------------------------------------------------------------------
TRAPS = """
mkdir -p /tmp/t/d/e; cd /tmp/t
echo good > good
ln -s /etc/passwd absolute
ln -s {outside} outside
ln -s ../../../../../../../../etc up
ln -s d/e/../../.. round
ln -s good inside
ln -s ../good d/inside
ln -s ../../.. d/e/out
mkfifo fifo
cp /bin/sh suid; chmod 4755 suid 2>/dev/null || true
printf x > "$(printf 'a\\nb\\033]52;c;aGk=\\007')"
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'
"""


def storage(installation: Installation) -> Path:
    """The box's /tmp as it lies on the host."""
    with installation.sdk() as sdk:
        below = "root/upper/tmp" if contract.current().template else "tmp"
        return installation.state / "boxes" / sdk.get("box").info.id / below


def test_links_devices_and_set_id_bits_do_not_come_out(place: Installation) -> None:
    outside = place.home.parent / "outside"
    shutil.rmtree(outside, ignore_errors=True)
    outside.mkdir()
    (outside / "secret").write_text("secret")
    in_box(place, TRAPS.format(outside=outside))
    said = cp(place, "box:/tmp/t", "out", code=1)
    out = place.workspace / "out"
    names = {path.relative_to(out).as_posix() for path in out.rglob("*")}
    assert names == {"good", "inside", "suid", "a\nb\x1b]52;c;aGk=\x07", "d", "d/e", "d/inside"}
    assert mode(out / "suid") & 0o7000 == 0
    for name in ("absolute", "outside", "up", "round", "d/e/out", "fifo", "socket"):
        assert f"not copied: /tmp/t/{name}: " in said
    assert "\x1b" not in said

    (storage(place) / "t/fifo").unlink()
    (storage(place) / "t/socket").unlink()
    (storage(place) / "t/up").unlink()
    (storage(place) / "t/round").unlink()
    (storage(place) / "t/d/e/out").unlink()
    shutil.copytree(storage(place) / "t", place.workspace / "naive", symlinks=False)
    assert (place.workspace / "naive/outside/secret").read_text() == "secret", "the oracle: who follows links takes it"


def test_a_link_that_the_box_planted_in_the_target_leads_nowhere(place: Installation) -> None:
    outside = place.home.parent / "outside"
    shutil.rmtree(outside, ignore_errors=True)
    outside.mkdir()
    in_box(place, f"mkdir -p /tmp/t/d; echo evil > /tmp/t/d/evil; mkdir -p out/t; ln -s {outside} out/t/d")
    assert "not copied: /tmp/t/d: " in cp(place, "box:/tmp/t", "out", code=1)
    assert list(outside.iterdir()) == []
    shutil.copytree(storage(place) / "t", place.workspace / "out/t", dirs_exist_ok=True)
    assert (outside / "evil").exists(), "the oracle: a naive copy writes through the link"


@pytest.mark.parametrize("target", ["out", "out/", "out/t", "out/new/file", "link"])
def test_a_target_that_the_box_made_a_link_is_refused(place: Installation, target: str) -> None:
    outside = place.home.parent / "outside"
    shutil.rmtree(outside, ignore_errors=True)
    (outside / "new").mkdir(parents=True)
    in_box(place, f"echo evil > /tmp/t; ln -s {outside} out; ln -s {outside}/file link")
    assert "is a symbolic link" in cp(place, "box:/tmp/t", target, code=2)
    assert sorted(path.name for path in outside.rglob("*")) == ["new"]


def test_a_source_that_the_box_made_a_link_is_refused(place: Installation) -> None:
    secret = place.home.parent / "secret"
    secret.write_text("secret")
    in_box(place, f"ln -s {secret} innocent; ln -s {place.home.parent} dir; mkdir top; ln -s {secret} top/link")
    for source in ("innocent", "dir/secret", f"{place.workspace}/innocent"):
        assert (place.workspace / "innocent").read_text() == "secret", "the oracle: the link works on the host"
        assert "is a symbolic link" in cp(place, source, "box:/tmp/stolen", code=2)
    cp(place, "top", "box:/tmp/top")
    assert (
        in_box(place, "readlink /tmp/top/link; cat /tmp/top/link 2>/dev/null || echo nothing") == f"{secret}\nnothing\n"
    )
    assert in_box(place, "ls /tmp/stolen 2>/dev/null || echo nothing") == "nothing\n"
    secret.unlink()


def test_a_link_in_another_boxs_workspace_is_refused_too(place: Installation) -> None:
    (place.workspace / "other").mkdir()
    secret = place.home.parent / "secret"
    secret.write_text("secret")
    place.cli("create", "neighbour", "other")
    place.cli("exec", "neighbour", "ln", "-s", str(secret), "innocent")
    place.cli("rm", "-f", "box")
    (place.workspace / "elsewhere").mkdir()
    place.cli("create", "box", "elsewhere")
    assert "is a symbolic link" in cp(place, "other/innocent", "box:/tmp/stolen", code=2)
    secret.unlink()


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        ("box:/nowhere", ".", "/nowhere in the box: No such file or directory"),
        ("box:/dev/null", ".", "/dev/null is no file and no directory"),
        ("box:/", ".", "'/' has no name"),
        ("nowhere", "box:/tmp/", "cannot read nowhere"),
        ("box:/etc/hosts", "no/", "there is no directory no/"),
        ("box:/etc/hosts", "no/where", "cannot open"),
    ],
)
def test_what_cannot_be_copied_is_named(place: Installation, source: str, target: str, said: str) -> None:
    shown = cp(place, source, target, code=2)
    assert said in shown.splitlines()[0]
    assert shown.count("\n") == 2
    assert list(place.workspace.glob("[!.]*")) == []
