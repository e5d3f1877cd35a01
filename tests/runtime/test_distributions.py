"""Bases that are made of a distribution's packages."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from paddock.engines.container import ids
from paddock.errors import Unavailable
from paddock.model.reference import Reference
from paddock.runtime import distributions
from paddock.runtime.distributions import Source, Wanted

if TYPE_CHECKING:
    from pathlib import Path

LINES = """\
# deb http://old.test/debian stretch main
deb [arch=amd64 signed-by=/usr/share/keyrings/a.gpg] http://mirror.test/debian bookworm main contrib # mine
deb-src http://mirror.test/debian bookworm main
deb http://mirror.test/debian-security bookworm-security main
deb http://other.test/tools stable main
"""
STANZAS = """\
Types: deb deb-src
URIs: http://mirror.test/debian
# a comment
Suites: trixie trixie-updates
Components: main
Signed-By: /usr/share/keyrings/b.gpg

Types: deb
Enabled: no
URIs: http://off.test/debian
Suites: trixie
Components: main
"""


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "sources.list").write_text(LINES)
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list.d/debian.sources").write_text(STANZAS)
    (tmp_path / "sources.list.d/off.list.disabled").write_text(LINES.replace("bookworm", "sid"))
    monkeypatch.setattr(distributions, "_SOURCES", str(tmp_path / "sources.list"))
    return tmp_path


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("debian", "debian:bookworm"),
        ("debian:12", "debian:bookworm"),
        ("debian:trixie-slim", "debian:trixie"),
        ("ubuntu:24.04", "ubuntu:noble"),
        ("ubuntu:jammy", "ubuntu:jammy"),
        ("debian:7.11.1", None),
        ("alpine", None),
        ("my/debian", None),
    ],
)
def test_a_name_with_a_suite_is_one(word: str, found: str | None) -> None:
    parsed = distributions.parse(Reference.parse(word))
    assert (str(parsed) if parsed else None) == found


def test_packages_come_from_where_the_host_has_them(apt: Path) -> None:
    assert apt.is_dir()
    bookworm = distributions.sources(Wanted(name="debian", suite="bookworm"))
    assert [one.line() for one in bookworm] == [
        "deb [signed-by=/usr/share/keyrings/a.gpg] http://mirror.test/debian bookworm main contrib",
        "deb http://mirror.test/debian-security bookworm-security main",
    ]
    trixie = distributions.sources(Wanted(name="debian", suite="trixie"))
    assert [(one.uri, one.suite) for one in trixie] == [
        ("http://mirror.test/debian", "trixie"),
        ("http://mirror.test/debian", "trixie-updates"),
    ]
    other = distributions.sources(Wanted(name="debian", suite="sid"))
    assert [(one.uri, one.suite, one.components) for one in other] == [("http://mirror.test/debian", "sid", ("main",))]
    with pytest.raises(Unavailable, match="no mirror of ubuntu"):
        distributions.sources(Wanted(name="ubuntu", suite="noble"))


def test_another_mirror_is_another_base(apt: Path) -> None:
    wanted = Wanted(name="debian", suite="bookworm")
    before = wanted.key()
    (apt / "sources.list").write_text(LINES.replace("mirror.test", "second.test"))
    assert wanted.key() != before


def test_without_ids_or_the_program_it_says_what_to_do(
    apt: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert apt.is_dir()
    wanted = Wanted(name="debian", suite="bookworm")
    one = ((0, 1000, 1),)
    monkeypatch.setattr(ids, "of_caller", lambda _index: ids.Ids(uids=one, gids=one))
    monkeypatch.setattr(shutil, "which", lambda *_, **__: "/usr/bin/mmdebstrap")
    with pytest.raises(Unavailable, match="need subordinate ids") as error:
        distributions.make(wanted, str(tmp_path / "out.tar"), lambda: None)
    assert "--add-subuids" in error.value.hint
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(Unavailable, match="mmdebstrap, which is not here"):
        distributions.make(wanted, str(tmp_path / "out.tar"), lambda: None)


def test_what_the_program_said_is_told(apt: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert apt.is_dir()
    program = tmp_path / "mmdebstrap"
    program.write_text("#!/bin/sh\necho 'I: begin'\necho \"E: cannot reach $8\" >&2\nexit 25\n")
    program.chmod(0o755)
    whole = ((0, 0, 65536),)
    monkeypatch.setattr(ids, "of_caller", lambda _index: ids.Ids(uids=whole, gids=whole))
    monkeypatch.setattr(shutil, "which", lambda *_, **__: str(program))
    with pytest.raises(Unavailable, match="could not make debian:bookworm: E: cannot reach"):
        distributions.make(Wanted(name="debian", suite="bookworm"), str(tmp_path / "out.tar"), lambda: None)
    assert Source(uri="u", suite="s", components=("c",)).line() == "deb u s c"


def test_who_leaves_ends_it(apt: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert apt.is_dir()
    program = tmp_path / "mmdebstrap"
    program.write_text(
        "#!/bin/sh\ntrap 'echo cleaned > " + str(tmp_path / "cleaned") + "; exit 1' TERM\nsleep 60 & wait\n"
    )
    program.chmod(0o755)
    whole = ((0, 0, 65536),)
    monkeypatch.setattr(ids, "of_caller", lambda _index: ids.Ids(uids=whole, gids=whole))
    monkeypatch.setattr(shutil, "which", lambda *_, **__: str(program))

    def leave() -> None:
        raise Unavailable("the build was interrupted", code="interrupted")

    with pytest.raises(Unavailable, match="interrupted"):
        distributions.make(Wanted(name="debian", suite="bookworm"), str(tmp_path / "out.tar"), leave)
    assert (tmp_path / "cleaned").exists(), "it was asked, so that it could remove what it made"
