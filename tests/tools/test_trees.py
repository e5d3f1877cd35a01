"""Of what a package manager left, only what a tool may hold is taken."""

from __future__ import annotations

import hashlib
import os
import socket
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paddock import limits
from paddock.errors import UserError
from paddock.tools import trees

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def source(tmp_path: Path) -> Path:
    tree = tmp_path / "source"
    (tree / "node_modules/.bin").mkdir(parents=True)
    (tree / "node_modules/demo").mkdir()
    (tree / "node_modules/demo/cli.js").write_text("cli")
    (tree / "node_modules/demo/cli.js").chmod(0o755)
    (tree / "node_modules/demo/data.json").write_text("{}")
    (tree / "node_modules/.bin/demo").symlink_to("../demo/cli.js")
    return tree


def _copy(source: Path) -> Path:
    target = source.parent / "target"
    trees.copy(str(source), str(target))
    trees.close(str(target))
    return target


def test_files_links_and_the_bit_to_run_are_taken_and_no_other(source: Path) -> None:
    (source / "node_modules/demo/data.json").chmod(0o666)
    target = _copy(source)
    assert (target / "node_modules/.bin/demo").read_text() == "cli"
    assert os.readlink(target / "node_modules/.bin/demo") == "../demo/cli.js"
    modes = {
        path: stat.S_IMODE((target / "node_modules/demo" / path).stat().st_mode) for path in ("cli.js", "data.json")
    }
    assert modes == {"cli.js": 0o555, "data.json": 0o444}
    assert stat.S_IMODE(target.stat().st_mode) == 0o555
    assert (target / "node_modules/demo/cli.js").stat().st_ino != (source / "node_modules/demo/cli.js").stat().st_ino


def test_a_manifest_tells_every_path_mode_size_and_content(source: Path) -> None:
    made = trees.describe(str(_copy(source)))
    lines = {line.split(" ", 3)[3]: line.rsplit(" ", 1)[0] for line in made.manifest.splitlines()}
    assert sorted(lines) == [
        *("node_modules", "node_modules/.bin", "node_modules/.bin/demo", "node_modules/demo"),
        *("node_modules/demo/cli.js", "node_modules/demo/data.json"),
    ]
    assert lines["node_modules/demo"] == "40555 0 -"
    mode, size, content = lines["node_modules/demo/cli.js"].split()
    assert (mode, size, content) == ("100555", "3", hashlib.sha256(b"cli").hexdigest())
    assert (made.files, made.size_bytes) == (6, 5)
    assert trees.difference(made.manifest, str(source.parent / "target")) == ()


def _link(to: str) -> Callable[[Path], object]:
    return lambda tree: (tree / "node_modules/demo/link").symlink_to(to)


def _turning(tree: Path) -> None:
    """Each name of it stays inside; the first link turns, and from there .. leads out."""
    (tree / "a").mkdir()
    (tree / "p/q/r").mkdir(parents=True)
    (tree / "p/q/r/turn").symlink_to("../../../a")
    (tree / "p/q/r/out").symlink_to("turn/../..")


def _set_id(tree: Path) -> None:
    (tree / "node_modules/demo/cli.js").chmod(0o4755)


def _socket(tree: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        here = os.getcwd()
        os.chdir(tree)
        try:
            made.bind("socket")
        finally:
            os.chdir(here)


HOSTILE: dict[str, tuple[Callable[[Path], object], str]] = {
    "absolute link": (_link("/etc/passwd"), "leads out of the package"),
    "link to a parent": (_link("../../../secret"), "leads out of the package"),
    "link that turns": (_turning, "leads out of the package"),
    "link to root": (_link("/"), "leads out of the package"),
    "setuid": (_set_id, "would run as another user"),
    "fifo": (lambda tree: os.mkfifo(tree / "fifo"), "is neither a file nor a directory"),
    "socket": (_socket, "is neither a file nor a directory"),
    "newline": (lambda tree: (tree / "a\nb").touch(), "has a name that is not plain text"),
    "escape": (lambda tree: (tree / "a\x1b[2Jb").mkdir(), "has a name that is not plain text"),
    "no text": (lambda tree: Path(os.fsdecode(os.fsencode(tree) + b"/\xff\xfe")).touch(), "is not plain text"),
    "deep": (lambda tree: (tree / "/".join(["x" * 200] * 6)).mkdir(parents=True), "too long a name"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_no_tool_may_hold_is_refused_and_nothing_is_left(source: Path, case: str) -> None:
    spoil, said = HOSTILE[case]
    trees.copy(str(source), str(source.parent / "before"))  # the oracle: without it the tree is good
    spoil(source)
    with pytest.raises(UserError, match=said) as caught:
        _copy(source)
    assert caught.value.message.isprintable()
    assert not (source.parent / "target").exists()


def test_a_tree_has_bounds(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(limits, "TOOL_ENTRIES", 5)
        with pytest.raises(UserError, match="over 5 files"):
            _copy(source)
    with monkeypatch.context() as patch:
        patch.setattr(limits, "TOOL_BYTES", 4)
        with pytest.raises(UserError, match="over 4B"):
            _copy(source)
    assert not (source.parent / "target").exists()
    assert _copy(source).is_dir()
