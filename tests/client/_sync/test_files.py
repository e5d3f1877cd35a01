"""Files of a box, through its init: exact bytes and names, the box's own rights."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock.client._sync import files
from paddock.errors import UserError
from tests.support import contract
from tests.support.installation import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paddock.client import Box, Paddock
    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.FULL

STRANGE = os.fsdecode(b"caf\xe9 \xff\n\x1b[31m")


@pytest.fixture
def box(paddock: Paddock, installation: Installation) -> Iterator[Box]:
    with paddock.create("sdk", workspace=str(installation.workspace)) as made:
        yield made


@pytest.mark.parametrize("size", [0, 1, 65536, 65537, 5_000_000])
def test_what_is_written_is_read(box: Box, size: int) -> None:
    data = os.urandom(size)
    box.files.write("/tmp/a/b/file", data)
    assert box.files.read("/tmp/a/b/file") == data
    assert box.files.stat("/tmp/a/b/file").size == size


def test_a_file_of_the_workspace_is_the_hosts(box: Box, installation: Installation) -> None:
    box.files.write(f"{installation.workspace}/made", b"inside", mode=0o755)
    made = installation.workspace / "made"
    assert made.read_bytes() == b"inside"
    assert (made.stat().st_uid, made.stat().st_mode & 0o777) == (os.getuid(), 0o755)


def test_writing_appends_when_asked_to(box: Box) -> None:
    for data in (b"one", b"two"):
        box.files.write("/tmp/file", data, append=True)
    assert box.files.read("/tmp/file") == b"onetwo"


def test_a_file_is_streamed_from_an_offset(box: Box) -> None:
    box.files.write("/tmp/file", b"0123456789")
    assert b"".join(box.files.stream("/tmp/file", offset=7)) == b"789"


def test_a_file_too_large_to_keep_is_refused(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "READ_BYTES_MAX", 100_000)
    box.exec(["truncate", "-s", "1G", "/tmp/large"])
    with pytest.raises(UserError) as caught:
        box.files.read("/tmp/large")
    assert caught.value.code == "too-large"


def test_directories_links_and_names_of_any_bytes(box: Box) -> None:
    box.files.make_dir("/tmp/d/e")
    box.files.write(f"/tmp/d/{STRANGE}", b"x")
    box.files.symlink("/tmp/d/link", "/tmp/d/e")
    found = {os.path.basename(entry.path): entry.kind for entry in box.files.list("/tmp/d")}
    assert found == {"e": "directory", STRANGE: "file", "link": "symlink"}
    box.files.move(f"/tmp/d/{STRANGE}", "/tmp/d/e/plain")
    assert [entry.path for entry in box.files.list("/tmp/d", depth=2)][-1] == "/tmp/d/e/plain"
    assert box.files.stat("/tmp/d/link").link == "/tmp/d/e"
    assert box.files.stat("/tmp/d/link", follow=True).kind == "directory"
    box.files.remove("/tmp/d", recursive=True)
    assert not box.files.exists("/tmp/d")


@pytest.mark.parametrize(
    ("path", "code"),
    [("/tmp/missing", "no-file"), ("relative", "bad-path"), ("/tmp", "not-a-file"), ("/dev/zero", "not-a-file")],
)
def test_what_cannot_be_read_is_an_error_of_its_own(box: Box, path: str, code: str) -> None:
    with pytest.raises(UserError) as caught:
        box.files.read(path)
    assert caught.value.code == code


def test_the_hosts_system_is_not_written(box: Box) -> None:
    for path in ("/etc/passwd", "/usr/bin/made", "/made"):
        with pytest.raises(UserError):
            box.files.write(path, b"x")
    box.files.write("/tmp/made", b"x")  # the same verb works where the box may write


def test_a_disk_limit_reached_while_writing_is_an_error_and_not_a_wait(
    paddock: Paddock, installation: Installation
) -> None:
    from paddock.model import Limits

    workspace = str(installation.workspace)
    with paddock.create("small", workspace=workspace, limits=Limits(disk_bytes=1 << 20)) as box:
        file = f"{workspace}/file"  # is not of the box's disk, all of which together is the watch's to hold
        with pytest.raises(UserError, match="too large"):
            box.files.write(file, bytes(8 << 20))
        box.files.write(file, bytes(1 << 10))


def test_changes_are_watched(box: Box) -> None:
    changes = box.files.watch("/tmp", recursive=True)
    assert next(changes).kind == "watching"
    box.exec(["sh", "-c", "mkdir /tmp/sub; echo x > /tmp/sub/file"])
    seen = []
    for change in changes:
        seen.append((change.kind, change.path))
        if change.path == "/tmp/sub":
            break
    assert ("create", "/tmp/sub") in seen
    changes.close()  # type: ignore[attr-defined]
    until(lambda: box.exec(["true"]).ok, "the box goes on")


def test_its_repr_names_the_box(box: Box) -> None:
    assert repr(box.files) == "<Files of sdk>"
