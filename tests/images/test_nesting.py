"""ADD of an archive becomes the archive of a layer below a directory."""

from __future__ import annotations

import io
import tarfile

import pytest

from paddock.errors import UserError
from paddock.images import nesting, pack
from paddock.images.context import Target
from paddock.images.pack import Dress

INTO = Target(path="opt", is_directory=True, parents=(("opt", Dress(mode=0o711)),), owner=(7, 8))


def _tar(*members: tuple[str, bytes, dict[str, object]]) -> io.BytesIO:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data, extra in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            for key, value in extra.items():
                setattr(info, key, value)
            archive.addfile(info, io.BytesIO(data))
    out.seek(0)
    return out


def _nested(source: io.BytesIO, *, is_owned: bool = False) -> dict[str, tarfile.TarInfo]:
    sink = io.BytesIO()
    nesting.write(source, INTO, sink, is_owned=is_owned)
    pack.write_end(sink)
    sink.seek(0)
    with tarfile.open(fileobj=sink) as archive:
        return {member.name: member for member in archive.getmembers()}


def test_entries_lie_below_the_target_and_keep_what_they_are() -> None:
    members: tuple[tuple[str, bytes, dict[str, object]], ...] = (
        (".", b"", {"type": tarfile.DIRTYPE, "mode": 0o700}),
        ("bin", b"", {"type": tarfile.DIRTYPE, "mode": 0o755}),
        ("bin/tool", b"#!" + b"x" * 1000, {"mode": 0o4755, "uid": 3, "gid": 4}),
        ("bin/same", b"", {"type": tarfile.LNKTYPE, "linkname": "bin/tool"}),
        ("link", b"", {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}),
    )
    found = _nested(_tar(*members))
    assert [*found] == ["opt", "opt/bin", "opt/bin/tool", "opt/bin/same", "opt/link"]
    assert (found["opt"].mode, found["opt/bin/tool"].mode) == (0o711, 0o4755), "what is there stays as it is"
    assert (found["opt/bin/tool"].uid, found["opt/bin/tool"].gid, found["opt/bin/tool"].size) == (3, 4, 1002)
    assert (found["opt/bin/same"].linkname, found["opt/link"].linkname) == ("opt/bin/tool", "/etc/passwd")
    owned = _nested(_tar(*members), is_owned=True)
    assert (owned["opt/bin/tool"].uid, owned["opt/bin/tool"].gid) == (7, 8)


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        ("../out", {}),
        ("/out", {}),
        ("a/../../out", {}),
        (".wh.gone", {}),
        ("dev", {"type": tarfile.CHRTYPE}),
        ("fifo", {"type": tarfile.FIFOTYPE}),
        ("link", {"type": tarfile.LNKTYPE, "linkname": "../../etc/passwd"}),
    ],
)
def test_what_leads_out_or_is_no_file_is_refused(name: str, extra: dict[str, object]) -> None:
    with pytest.raises(UserError, match="refused"):
        _nested(_tar((name, b"", extra)))
