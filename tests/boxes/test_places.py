"""Where a workspace may lie: below the directories that a box has of its own, too."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support import contract

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.WITH_GVISOR


@pytest.fixture(params=["/tmp", "/var/tmp"])
def place(request: pytest.FixtureRequest) -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="paddock-place-", dir=request.param)).resolve()
    yield directory
    shutil.rmtree(directory)


def test_a_workspace_below_a_temporary_directory_is_seen_and_written(installation: Installation, place: Path) -> None:
    (place / "given").write_text("from outside\n")
    done = installation.cli("run", "--", "sh", "-c", "cat given; echo from inside > made; pwd", cwd=place)
    assert (done.stdout.decode(), done.stderr) == (f"from outside\n{place}\n", b"")
    assert (place / "made").read_text() == "from inside\n"


def test_the_rest_of_a_temporary_directory_is_the_boxs_own(installation: Installation, place: Path) -> None:
    neighbour = place.with_name(f"{place.name}-neighbour")
    neighbour.write_text("not for boxes")
    try:
        done = installation.cli("run", "--", "sh", "-c", f"ls {place.parent}; touch {neighbour}", cwd=place)
        assert (done.stdout.decode().split(), done.returncode) == ([place.name], 0)
        assert neighbour.read_text() == "not for boxes"
    finally:
        neighbour.unlink()


def test_both_temporary_directories_are_one(installation: Installation) -> None:
    assert installation.sh("echo same > /var/tmp/file; cat /tmp/file").stdout == b"same\n"
