"""Room for an install goes with it, and nothing else goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.tools import staging
from paddock.tools.staging import Staging


def test_room_is_private_while_it_is_there_and_gone_afterwards(tmp_path: Path) -> None:
    room = Staging(f"{tmp_path}/.staging-1")
    scratch = Path(room.scratch)
    assert str(tmp_path) not in room.scratch, "a box may have it, and nothing of our state"

    def use() -> None:
        with room:
            assert [path.stat().st_mode & 0o777 for path in (scratch, Path(room.new))] == [0o700, 0o700]
            (scratch / "node_modules/deep").mkdir(parents=True)
            (scratch / "node_modules").chmod(0)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        use()
    assert not scratch.exists()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "note", ["", "/", "/etc", "../x", "/var/tmp/paddock-install-", "/etc/paddock-install-x", "{other}", "\xff"]
)
def test_a_note_that_is_not_ours_removes_nothing_but_itself(tmp_path: Path, note: str) -> None:
    other = tmp_path / "other"
    other.mkdir()
    left = tmp_path / ".staging-1"
    left.mkdir()
    (left / "scratch").write_text(note.format(other=other), "latin-1")
    staging.remove(str(left))
    assert list(tmp_path.iterdir()) == [other]


def test_what_is_half_there_is_removed(tmp_path: Path) -> None:
    left = tmp_path / ".staging-1"
    left.mkdir()
    staging.remove(str(left))
    assert list(tmp_path.iterdir()) == []
