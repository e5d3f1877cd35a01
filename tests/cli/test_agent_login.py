"""secret login, on a terminal: an agent's own program gets the token, which is kept and not shown."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tests.support.installation import Installation
from tests.support.terminal import CTRL_C, Person

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "sk-ant-oat01-" + "Ab_-9" * 19
# What `claude setup-token` does: an address to visit, a code to paste, and the token, drawn twice and in colours.
STAND_IN = f"""#!{sys.executable}
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.SIG_DFL)
assert sys.argv[1:] == ["setup-token"], sys.argv
assert os.isatty(0) and os.isatty(1) and os.open("/dev/tty", os.O_RDWR) > 0
assert os.get_terminal_size().columns >= 200
print("Visit https://claude.example/authorize?code=true", flush=True)
code = input("Paste code here: ")
if code != "right":
    print("wrong code")
    sys.exit(3)
if os.environ.get("TOKENLESS"):
    sys.exit(0)
token = {TOKEN!r}
for _ in range(2):
    sys.stdout.write("\\x1b[32mYour token:\\x1b[0m " + token[:20])
    sys.stdout.flush()
    time.sleep(0.05)
    sys.stdout.write(token[20:] + "\\x1b[0m\\r\\n")
    sys.stdout.flush()
print("Store it well", flush=True)
"""


def at_terminal(root: Path, *words: str, **env: str) -> tuple[Installation, Person]:
    (root / "bin").mkdir()
    program = root / "bin/claude"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    installation = Installation(root)
    path = {"PATH": f"{root}/bin:/usr/bin:/bin"}
    return installation, Person(installation, "secret", "login", *words, env=path | env)


def kept(installation: Installation) -> list[bytes]:
    return [path.read_bytes() for path in installation.state.rglob("*.value")]


def test_the_token_is_kept_and_never_shown(tmp_path: Path) -> None:
    installation, person = at_terminal(tmp_path, "claude")
    with person:
        person.sees(b"Paste code here: ")
        person.enter("right")
        person.sees(b"Your token:")
        person.sees(b"Store it well")
        assert person.leaves() == 0
        assert b"[kept by paddock]" in person.output
        assert b"claude: kept in" in person.output
        assert b"in a box as CLAUDE_CODE_OAUTH_TOKEN" in person.output
        assert TOKEN[:20].encode() not in person.output
        assert not person.is_raw()
    assert kept(installation) == [TOKEN.encode()]
    files = [path for path in installation.home.rglob("*") if path.is_file() and path.suffix != ".value"]
    assert files
    assert not any(TOKEN.encode() in path.read_bytes() for path in files)


def test_a_login_that_fails_or_is_left_keeps_nothing(tmp_path: Path) -> None:
    for name, answer, said in (
        ("wrong", b"wrong\r", b"ended with 3; nothing was kept"),
        ("left", CTRL_C, b"ended with 130; nothing was kept"),
        ("tokenless", b"right\r", b"printed no token; nothing was kept"),
    ):
        (tmp_path / name).mkdir()
        env = {"TOKENLESS": "1"} if name == "tokenless" else {}
        installation, person = at_terminal(tmp_path / name, "claude", **env)
        with person:
            person.sees(b"Paste code here: ")
            person.type(answer)
            person.sees(said)
            assert person.leaves() != 0
            assert not person.is_raw()
        assert kept(installation) == []


def test_what_cannot_be_begun_is_said(tmp_path: Path) -> None:
    installation = Installation(tmp_path)
    for words, said in (
        (("nobody",), b"this agent has no long-lived token to get"),
        (("claude",), b"a login needs a terminal"),
    ):
        done = installation.cli("secret", "login", *words)
        assert (done.returncode, said in done.stderr) == (2, True)
    (tmp_path / "missing").mkdir()
    place = tmp_path / "missing/no-such-program"
    with Person(installation, "secret", "login", "--program", str(place), "claude") as person:
        person.sees(b"there is no program")
        assert person.leaves() == 2
