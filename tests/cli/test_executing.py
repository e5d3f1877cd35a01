"""exec: a command in a box that exists, with its own output and exit code, started in a few milliseconds."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from paddock import codec
from paddock.cli import executing, parser, terminal
from paddock.client.transport import Transport
from paddock.errors import Unavailable
from paddock.model import ExecSpec, TtySize
from tests.support.installation import ROOT, until

if TYPE_CHECKING:
    from tests.support.installation import Installation

HEAVY = {"dataclasses", "typing", "asyncio", "inspect", "shutil", "tomllib", "paddock.model", "paddock.cli.screen"}


def test_exec_loads_neither_the_typed_sdk_nor_the_screen_filter() -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); import paddock.cli.parser as p; "
    code += "p.parse(['exec', 'box', 'true']); import paddock.cli.executing; print(*sys.modules)"
    argv = [sys.executable, "-I", "-S", "-c", code, str(ROOT / "src")]
    loaded = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()
    assert "paddock.cli.attach" in loaded
    assert HEAVY & set(loaded) == set()


@pytest.mark.parametrize(
    ("words", "spec"),
    [
        (["box", "ls", "-l"], ExecSpec(argv=("ls", "-l"))),
        (["-i", "box", "cat"], ExecSpec(argv=("cat",), stdin=True)),
        (["-d", "box", "ls"], ExecSpec(argv=("ls",), detach=True)),
        (["-u", "agent", "-w", "sub", "box", "ls"], ExecSpec(argv=("ls",), user="agent", cwd="sub")),
        (["--timeout", "1m", "box", "ls"], ExecSpec(argv=("ls",), timeout_s=60.0)),
        (["-e", "A=1", "-e", "LANG=x", "box", "ls"], ExecSpec(argv=("ls",), env={"A": "1", "LANG": "x"})),
        (["-dt", "box", "ls"], ExecSpec(argv=("ls",), detach=True, stdin=True, tty=TtySize(rows=24, cols=80))),
    ],
)
def test_what_is_sent_is_an_exec_spec(monkeypatch: pytest.MonkeyPatch, words: list[str], spec: ExecSpec) -> None:
    for key in ("LANG", "LC_ALL", "LC_CTYPE", "TZ", "COLORTERM", "NO_COLOR"):
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setattr(terminal, "size", lambda: (24, 80))
    monkeypatch.setenv("TERM", "xterm")
    _, options = parser.parse(["exec", *words])
    wire = json.loads(json.dumps(executing._spec(options)))
    expected = {**spec.env, "TERM": "xterm"} if spec.tty else spec.env
    assert codec.from_wire(ExecSpec, wire) == codec.from_wire(ExecSpec, {**wire, "env": expected})
    assert codec.from_wire(ExecSpec, {**wire, "env": spec.env}) == spec


@pytest.mark.box
def test_a_command_has_its_own_output_and_exit_code(installation: Installation) -> None:
    installation.cli("create", "box")
    done = installation.cli("exec", "box", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.stdout, done.stderr, done.returncode) == (b"out\n", b"err\n", 7)


@pytest.mark.box
def test_input_is_passed_only_when_asked(installation: Installation) -> None:
    installation.cli("create", "box")
    assert installation.cli("exec", "-i", "box", "cat", stdin=b"given").stdout == b"given"
    assert installation.cli("exec", "box", "cat", stdin=b"given").stdout == b""


@pytest.mark.box
def test_options_reach_the_command(installation: Installation) -> None:
    (installation.workspace / "sub").mkdir()
    (installation.workspace / "env").write_text("FROM=file\nBOTH=file\n")
    installation.cli("create", "box", "-e", "BOX=1")
    options = ["-u", "agent", "-w", "sub", "-e", "BOTH=option", "--env-file", "env"]
    done = installation.cli("exec", *options, "box", "sh", "-c", "pwd; id -un; echo $BOX $FROM $BOTH")
    assert done.stdout.decode() == f"{installation.workspace}/sub\nagent\n1 file option\n"


@pytest.mark.box
def test_a_box_is_found_by_the_beginning_of_its_id(installation: Installation) -> None:
    installation.cli("create", "box")
    with installation.sdk() as sdk:
        box_id = sdk.ls()[0].id
    for name in ("box", box_id, box_id[:6]):
        assert installation.cli("exec", name, "echo", "found").stdout == b"found\n"


@pytest.mark.box
def test_words_of_the_command_are_never_options_of_ours(installation: Installation) -> None:
    installation.cli("create", "box")
    words = ["-h", "--help", "--", "-e", "", "a b", "$HOME", "\u00e9", "x\ny"]
    done = installation.cli("exec", "box", "printf", "%s\\0", *words)
    assert done.stdout.decode().split("\0")[:-1] == words


@pytest.mark.box
def test_bytes_that_are_no_text_pass_unchanged(installation: Installation) -> None:
    installation.cli("create", "box")
    argv = [str(installation.program).encode(), b"exec", b"box", b"printf", b"%s", b"\xff\xfe\x80"]
    done = subprocess.run(argv, env=installation.environ, cwd=installation.workspace, capture_output=True, check=True)
    assert done.stdout == b"\xff\xfe\x80"


@pytest.mark.box
def test_a_detached_command_is_named_and_journalled(installation: Installation) -> None:
    installation.cli("create", "box")
    job = installation.cli("exec", "-d", "box", "sh", "-c", "echo later; exit 3").stdout.decode().strip()
    assert job.startswith("box/")
    until(lambda: installation.cli("logs", job).stdout == b"later\n", "it is journalled")
    until(lambda: b"exit 3" in installation.cli("logs", "--list", "box").stdout, "its end is known")


@pytest.mark.box
def test_a_command_ends_at_its_timeout(installation: Installation) -> None:
    installation.cli("create", "box")
    done = installation.cli("exec", "--timeout", "0.5s", "box", "sleep", "60")
    assert (done.returncode, done.stderr) == (124, b"warning: the command was ended: its time was over\n")


@pytest.mark.box
def test_a_terminal_is_refused_where_there_is_none(installation: Installation) -> None:
    installation.cli("create", "box")
    done = installation.cli("exec", "-t", "box", "true")
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, b"error: -t needs a terminal on standard input")


@pytest.mark.box
def test_a_reader_that_leaves_ends_the_command(installation: Installation) -> None:
    installation.cli("create", "box")
    done = installation.shell(f'"{installation.program}" exec box yes | head -n 2')
    assert (done.stdout, done.stderr) == (b"y\ny\n", b"")
    with installation.sdk() as sdk:
        box = sdk.named("box")
        until(lambda: box.processes() == [], "nothing runs on for nobody")


@pytest.mark.box
def test_closed_descriptors_are_not_taken_for_the_channel(installation: Installation) -> None:
    installation.cli("create", "box")
    script = f'"{installation.program}" exec -i box sh -c "cat; echo out; echo err >&2; exit 5"'
    for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        assert installation.shell(f"{script} {closed}").returncode == 5


@pytest.mark.parametrize("answer", [None, [], {}, {"box": "no object"}, {"box": {"id": "x", "name": "y"}}])
def test_a_daemon_that_answers_nonsense_is_reported(monkeypatch: pytest.MonkeyPatch, answer: object) -> None:
    monkeypatch.setattr(Transport, "call", lambda *_: (answer, []))
    _, options = parser.parse(["exec", "box", "true"])
    with pytest.raises(Unavailable, match="daemon sent"):
        executing.exec_(options)
