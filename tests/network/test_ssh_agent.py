"""Keys of the user's ssh-agent in a box: real ssh, sshd and ssh-agent, the chosen key at the chosen host alone."""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.support import contract, sshkeys
from tests.support.installation import until
from tests.support.internet import OTHER, PUBLIC, Online

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.internet import Internet

pytestmark = pytest.mark.box
ENGINES = contract.FULL

HOSTS = {"allowed.example": PUBLIC, "other.example": OTHER}
ALLOW = [word for host in HOSTS for word in ("--allow-host", f"{host}:2222")]
LOGIN = "ssh -p 2222 -o BatchMode=yes -o LogLevel=ERROR {options} {user}@{host} echo in at {host}"
ANY = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
SIGN = "echo text > /tmp/text; ssh-keygen -q -Y sign -n git -f mine.pub /tmp/text && echo signed; rm -f /tmp/text*"


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    online: Online
    agent: str
    user: str

    def login(self, host: str, options: str = "") -> str:
        return LOGIN.format(user=self.user, host=host, options=options)

    def outside(self, script: str) -> subprocess.CompletedProcess[bytes]:
        """The oracle: with the plain agent."""
        command = f"cd {self.online.workspace}; {script}"
        return self.online.internet.run(["env", f"SSH_AUTH_SOCK={self.agent}", "sh", "-c", command])

    def cli(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        return self.online.cli(*words, env={"SSH_AUTH_SOCK": self.agent})


@pytest.fixture
def world(online: Online, internet: Internet, tmp_path: Path) -> Iterator[World]:
    """Two servers that let the same key in, and are known; an agent with that key and one more."""
    os.makedirs("/run/sshd", exist_ok=True) if os.getuid() == 0 else None
    program = shutil.which("sshd", path="/usr/sbin:/usr/bin") or "sshd"
    for name in ("mine", "second", *HOSTS):
        sshkeys.make(tmp_path, name)
    shutil.copy(tmp_path / "mine.pub", online.workspace / "mine.pub")
    known = ""
    with contextlib.ExitStack() as servers:
        for host, address in HOSTS.items():
            config = tmp_path / f"{host}.conf"
            config.write_text(
                f"Port 2222\nListenAddress {address}\nHostKey {tmp_path}/{host}\n"
                f"AuthorizedKeysFile {tmp_path}/mine.pub\n"
                f"StrictModes no\nUsePAM no\nPasswordAuthentication no\nPidFile none\nPermitRootLogin yes\n"
            )
            known += f"[{host}]:2222 {(tmp_path / f'{host}.pub').read_text()}"
            server = servers.enter_context(internet.start([program, "-D", "-f", str(config)]))
            servers.callback(server.terminate)
        (internet.root / "ssh/ssh_known_hosts").write_text(known)
        user = internet.run(["id", "-un"]).stdout.decode().strip()
        path = servers.enter_context(sshkeys.agent(tmp_path, "mine", "second"))
        made = World(online=online, agent=path, user=user)
        until(lambda: all(made.outside(made.login(host)).returncode == 0 for host in HOSTS), "both servers answer")
        yield made


def test_a_box_logs_in_with_the_chosen_key_at_the_chosen_host_and_nowhere_else(world: World) -> None:
    everything = f"{world.login('other.example')}; {SIGN}; ssh-add -l"
    plain = world.outside(everything)
    assert plain.stdout.startswith(b"in at other.example\nsigned\n"), plain.stderr
    assert len(plain.stdout.splitlines()) == 4
    script = f"""
        echo keys; ssh-add -L | cut -d' ' -f3; echo end
        {world.login("allowed.example")}
        {world.login("other.example", ANY)}
        {SIGN}
        ssh-add -D 2>/dev/null && echo removed; ssh-add -x </dev/null 2>/dev/null && echo locked
        ls {world.agent} 2>/dev/null; ls -A /run/ssh; echo $SSH_AUTH_SOCK
    """
    words = ("run", "--name", "kept", "--ssh-key", "mine@allowed.example:2222", *ALLOW)
    done = world.cli(*words, "--", "sh", "-c", script)
    said = done.stdout.decode().splitlines()
    assert said == [
        *("keys", "mine", "end", "in at allowed.example"),
        *("agent", "known_hosts", "/run/ssh/agent"),
    ], done.stderr
    assert done.stderr.count(b"Permission denied (publickey") == 1
    assert b"agent refused operation" in done.stderr
    assert world.outside("ssh-add -l").stdout.count(b"\n") == 2  # nothing was taken from the agent
    shown = world.cli("inspect", "kept").stdout
    assert b"to log in at allowed.example:2222" in shown
    world.online.kill_daemon()
    again = world.cli("exec", "kept", "sh", "-c", world.login("allowed.example"))
    assert again.stdout == b"in at allowed.example\n", again.stderr


def test_a_box_that_was_given_no_key_has_no_agent_and_a_host_that_is_not_known_is_named(world: World) -> None:
    none = world.cli("run", *ALLOW, "--", "sh", "-c", f"ls /run/ssh; echo [$SSH_AUTH_SOCK]; {world.login(PUBLIC, ANY)}")
    assert none.stdout == b"[]\n"
    words = ("run", "--ssh-key", "mine@stranger.example", *ALLOW)
    done = world.cli(*words, "--", "sh", "-c", f"ssh-add -l; {world.login('allowed.example', ANY)}")
    assert b"in at" not in done.stdout
    assert b"your known_hosts has no key of stranger.example" in done.stderr
    refused = world.cli("run", "--ssh-key", "mine", "--", "true")
    assert (refused.returncode, b"does not say a key and a host" in refused.stderr) == (2, True)
