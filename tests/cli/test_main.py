"""Whatever happens, a person reads `error:` and `hint:`, and a script gets the right exit code. Never a traceback."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from paddock.cli import parser
from paddock.cli.main import main, warn
from paddock.errors import Denied, PaddockError, Unavailable, UserError
from tests.support.installation import PROGRAM

if TYPE_CHECKING:
    from pathlib import Path


def run_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> int:
    def broken(_words: object) -> None:
        raise error

    monkeypatch.setattr(parser, "parse", broken)
    return main(["ls"])


@pytest.mark.parametrize(
    ("error", "code", "lines"),
    [
        (UserError("bad", hint="better"), 2, "error: bad\nhint: better\n"),
        (UserError("bad"), 2, "error: bad\nhint: `paddock --help` lists the verbs\n"),
        (Denied("no rule", hint="allow it"), 77, "error: no rule\nhint: allow it\n"),
        (Unavailable("broken"), 125, "error: broken\nhint: run `paddock doctor`\n"),
        (UserError("x: command not found", code="not-found"), 127, "error: x: command not found\nhint: a box has"),
        (UserError("x: Permission denied", code="not-executable"), 126, "error: x: Permission denied\nhint: it needs"),
        (UserError("cannot enter x", code="bad-cwd"), 126, "error: cannot enter x\nhint: -w names"),
        (UserError("a\x1b]52;c;aGk=\x07b\nc"), 2, "error: a\\x1b]52;c;aGk=\\x07b\\nc\nhint: "),
        (OSError(errno.ENOSPC, "No space left on device", "/x"), 125, "error: No space left on device /x\nhint: "),
        (RecursionError("too deep"), 125, "error: RecursionError: too deep\nhint: please report it"),
        (KeyError("key"), 125, "error: KeyError: 'key'\nhint: please report it"),
    ],
)
def test_an_error_becomes_two_lines_and_an_exit_code(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    code: int,
    lines: str,
) -> None:
    monkeypatch.delenv("PADDOCK_DEBUG", raising=False)
    assert run_with(monkeypatch, error) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(lines)
    assert err.count("\n") == 2


def test_an_interrupt_is_silent(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_with(monkeypatch, KeyboardInterrupt()) == 128 + signal.SIGINT
    assert capsys.readouterr() == ("", "")


def test_who_debugs_sees_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_DEBUG", "1")
    with pytest.raises(PaddockError, match="seen"):
        run_with(monkeypatch, Unavailable("seen"))


def test_a_warning_is_one_harmless_line(capsys: pytest.CaptureFixture[str]) -> None:
    warn("a\nb\x1b[31m")
    assert capsys.readouterr().err == "warning: a\\nb\\x1b[31m\n"


# -- the real program --------------------------------------------------------------------------------------------------


def shell(script: str, tmp_path: Path, **env: str) -> subprocess.CompletedProcess[bytes]:
    environ = {"PATH": "/usr/bin:/bin", "PADDOCK_HOME": str(tmp_path), "P": str(PROGRAM), **env}
    return subprocess.run(
        ["/bin/bash", "-c", script], env=environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False
    )


@pytest.mark.parametrize(
    ("script", "code", "err"),
    [
        ('"$P" --help >&-', 0, b""),
        ('"$P" --help 2>&-', 0, b""),
        ('"$P" version <&- >&- 2>&-', 0, b""),
        ('"$P" nonsense 2>&-', 2, b""),
        ('"$P" nonsense >&- <&-', 2, b"error: unknown verb 'nonsense'\n"),
        ('"$P" --help >/dev/full', 125, b"error: No space left on device\n"),
        ('"$P" nonsense 2>/dev/full', 2, b""),
        ('set -o pipefail; trap "" PIPE; "$P" --help | true', None, b""),
    ],
)
def test_closed_full_and_broken_outputs_are_no_accident(
    tmp_path: Path, script: str, code: int | None, err: bytes
) -> None:
    done = shell(script, tmp_path)
    assert b"Traceback" not in done.stderr
    assert done.stderr.startswith(err)
    assert done.returncode == code if code is not None else done.returncode in {0, 128 + signal.SIGPIPE}


def test_a_reader_that_is_gone_ends_us_like_any_program(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as out:
        done = subprocess.run(
            [PROGRAM, "--help"], stdout=out, stderr=subprocess.PIPE, env={"PATH": "/usr/bin:/bin"}, check=False
        )
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


def test_words_that_the_locale_cannot_show_are_no_accident() -> None:
    for locale in ("C", "POSIX", "de_DE.ISO-8859-1", "C.UTF-8", ""):
        environ = {"PATH": "/usr/bin:/bin", "LC_ALL": locale}
        done = subprocess.run([PROGRAM, b"sn\xff\xe2\x98\x83"], env=environ, capture_output=True, check=False)
        assert (done.returncode, done.stderr.count(b"\n")) == (2, 2)
        assert done.stderr.startswith(b"error: unknown verb 'sn\\udcff")


def test_the_program_runs_through_a_link_and_by_its_bare_name(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(PROGRAM)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "relative").symlink_to(os.path.relpath(PROGRAM, tmp_path / "bin"))
    scripts = ('"$PADDOCK_HOME/link" version', 'PATH="$PADDOCK_HOME/bin:$PATH" relative version', '"$P" version')
    outputs = [shell(script, tmp_path).stdout for script in (*scripts, 'cd "${P%/*}" && sh paddock version')]
    assert set(outputs) == {outputs[0]}
    assert outputs[0].startswith(b"paddock ")


@pytest.mark.parametrize("python", ["/nowhere", "/usr/bin/python3"])
def test_the_interpreter_can_be_chosen(tmp_path: Path, python: str) -> None:
    assert shell('"$P" version', tmp_path, PADDOCK_PYTHON=python).stdout.startswith(b"paddock ")


def test_without_python_the_next_step_is_named(tmp_path: Path) -> None:
    done = shell('"$P" version', tmp_path, PADDOCK_PYTHON="/nowhere", PATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (125, b"")
    assert done.stderr == b"error: no python3 on PATH\nhint: install Python 3.11 or newer\n"


@pytest.mark.parametrize("home", ["/proc/nowhere", "/dev/null", "/dev/null/x"])
def test_a_home_that_cannot_be_is_named(tmp_path: Path, home: str) -> None:
    done = shell('"$P" ls', tmp_path, PADDOCK_HOME=home)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (125, b"", 2)
    assert home.encode() in done.stderr.splitlines()[0]
