"""Values from elsewhere are read anew each time, whole, and without trusting what a box can write."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock.errors import Unavailable, UserError
from paddock.secrets import sources
from paddock.secrets.record import Kind, Source

if TYPE_CHECKING:
    from pathlib import Path

TEXT = "sk-real-0123456789"
ENVIRON = {"PATH": "/usr/bin:/bin", "MY_KEY": TEXT, "EMPTY": "", "BAD": "two\nlines of it"}


def revealed(source: Source) -> str:
    return sources.value("github", source, ENVIRON).reveal()


# -- variables ---------------------------------------------------------------------------------------------------------


def test_a_variable_of_the_caller_is_read() -> None:
    assert revealed(sources.from_env("MY_KEY")) == TEXT


@pytest.mark.parametrize(
    ("variable", "why"), [("NONE", "NONE is not set"), ("EMPTY", "EMPTY is not set"), ("BAD", "BAD")]
)
def test_a_variable_without_a_value_is_named_with_its_secret(variable: str, why: str) -> None:
    with pytest.raises(Unavailable, match=f"no value for the secret 'github': .*{why}"):
        revealed(sources.from_env(variable))


@pytest.mark.parametrize("variable", ["", "A=B", "A B", TEXT])
def test_what_is_no_variable_is_refused_without_being_shown(variable: str) -> None:
    with pytest.raises(UserError) as caught:
        sources.from_env(variable)
    assert TEXT not in str(caught.value)


# -- commands ----------------------------------------------------------------------------------------------------------


def test_what_a_command_prints_is_the_value_without_its_newline() -> None:
    source = sources.from_command(f"echo '{TEXT}'", ENVIRON)
    assert source.kind is Kind.COMMAND
    assert source.words[0].startswith("/")
    assert revealed(source) == TEXT


def test_no_shell_reads_a_command_unless_it_is_one() -> None:
    assert revealed(sources.from_command("echo $MY_KEY\\;date", ENVIRON)) == "$MY_KEY;date"
    assert revealed(sources.from_command("sh -c 'echo $MY_KEY'", ENVIRON)) == TEXT


def test_a_command_sees_neither_our_directory_nor_our_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert revealed(sources.from_command("sh -c 'echo in $(pwd) with $(cat | wc -c)'", ENVIRON)) == "in / with 0"


def test_a_program_is_found_when_the_secret_is_set_and_not_later(tmp_path: Path) -> None:
    """A box that can write to a directory of the PATH cannot put its own in place of it."""
    source = sources.from_command(f"echo {TEXT}", ENVIRON)
    fake = tmp_path / "echo"
    fake.write_text("#!/bin/sh\necho replaced-by-the-box\n")
    fake.chmod(0o755)
    environ = {**ENVIRON, "PATH": f"{tmp_path}:/usr/bin:/bin"}
    assert sources.value("github", sources.from_command("echo x", environ), environ).reveal() == "replaced-by-the-box"
    assert sources.value("github", source, environ).reveal() == TEXT


@pytest.mark.parametrize("path", [".", "", ":", "bin"])
def test_a_relative_path_leads_to_no_program(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    for place in (tmp_path / "mine", tmp_path / "bin" / "mine"):
        place.write_text("#!/bin/sh\n")
        place.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="no program"):
        sources.from_command("mine", {"PATH": path})
    with pytest.raises(UserError, match="no program"):
        sources.from_command("./mine", {"PATH": path})
    assert sources.from_command(str(tmp_path / "mine"), {"PATH": path}).words == (str(tmp_path / "mine"),)


@pytest.mark.parametrize("command", ["", "  ", "'open", "/nonexistent/program", "no-such-program-anywhere"])
def test_a_command_that_cannot_run_is_refused_when_it_is_set(command: str) -> None:
    with pytest.raises(UserError):
        sources.from_command(command, ENVIRON)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (f"echo {TEXT} >&2; exit 3", "ended with 3"),
        ("true", "is empty"),
        (f"echo {TEXT}; echo more", "line break"),
        ("printf %020000d 0", "is over"),
        ("kill -9 $$", "ended with 137"),
    ],
)
def test_a_command_that_fails_is_named_and_nothing_it_said_is_repeated(script: str, why: str) -> None:
    with pytest.raises(Unavailable, match=why) as caught:
        revealed(sources.from_command(f"sh -c '{script}'", ENVIRON))
    assert "'github'" in caught.value.message
    assert TEXT not in caught.value.message + caught.value.hint


def test_a_command_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "SECRET_COMMAND_S", 0.2)
    with pytest.raises(Unavailable, match="did not end"):
        revealed(sources.from_command("sleep 60", ENVIRON))


# -- files -------------------------------------------------------------------------------------------------------------


def test_a_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"{TEXT}\n")
    source = sources.from_file(str(file))
    assert revealed(source) == TEXT
    file.write_text("another-value")
    assert revealed(source) == "another-value"


def test_a_link_is_resolved_when_the_secret_is_set_and_not_later(tmp_path: Path) -> None:
    """A box that can write there cannot have another file of the host sent out."""
    for name in ("key", "other"):
        (tmp_path / name).write_text(f"{TEXT}-{name}")
    (tmp_path / "link").symlink_to("key")
    source = sources.from_file(str(tmp_path / "link"))
    assert revealed(source) == f"{TEXT}-key"
    (tmp_path / "key").unlink()
    (tmp_path / "key").symlink_to("other")
    with pytest.raises(Unavailable, match="cannot read"):
        revealed(source)


def test_a_directory_on_the_way_that_became_a_link_is_not_followed(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "key").write_text(f"{TEXT}-{name}")
    source = sources.from_file(str(tmp_path / "a" / "key"))
    assert revealed(source) == f"{TEXT}-a"
    (tmp_path / "a").rename(tmp_path / "c")
    (tmp_path / "a").symlink_to("b")
    with pytest.raises(Unavailable, match="cannot read"):
        revealed(source)


def test_what_is_no_file_or_could_be_written_by_others_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "directory").mkdir()
    (tmp_path / "open").write_text(TEXT)
    (tmp_path / "open").chmod(0o666)
    for name in ("fifo", "directory", "open", "missing"):
        with pytest.raises(Unavailable, match="no value for the secret 'github'"):
            revealed(sources.from_file(str(tmp_path / name)))
