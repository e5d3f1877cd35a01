"""Programs that know nothing of proxies work when their host is allowed, and read why when it is not."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paddock.engines.process.operations import CA_BUNDLE
from tests.support import contract
from tests.support.installation import until
from tests.support.internet import PUBLIC

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.internet import Internet, Online

pytestmark = pytest.mark.box
ENGINES = contract.FULL

NODE = "fetch(process.argv[1]).then(async r => console.log(r.status, await r.text()), e => console.log(e.cause.code))"
PYTHON = """
import sys, urllib.request, urllib.error
try:
    answer = urllib.request.urlopen(sys.argv[1], timeout=20)
except urllib.error.HTTPError as error:
    answer = error
print(answer.status, answer.read().decode())
"""
JAVA = """
import java.net.*;
import java.net.http.*;
public class Fetch {
  public static void main(String[] words) throws Exception {
    HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    HttpRequest request = HttpRequest.newBuilder(URI.create(words[0])).build();
    HttpResponse<String> answer = client.send(request, HttpResponse.BodyHandlers.ofString());
    System.out.println(answer.statusCode() + " " + answer.body());
  }
}
"""
GO = """
package main
import ("fmt"; "io"; "net/http"; "os")
func main() {
  answer, err := http.Get(os.Args[1])
  if err != nil { fmt.Println(err); os.Exit(1) }
  body, _ := io.ReadAll(answer.Body)
  fmt.Println(answer.StatusCode, string(body))
}
"""


@dataclass(frozen=True)
class Program:
    tool: str
    words: tuple[str, ...]
    trust: tuple[str, ...] = ()

    def argv(self, *rest: str) -> tuple[str, ...]:
        """An image's own list of authorities is not replaced: who heeds no variable is told where the box's is."""
        return (*self.words, *(self.trust if contract.current().template else ()), *rest)


PROGRAMS = {
    "curl": Program("curl", ("curl", "-sS", "-w", "%{http_code}")),
    "wget": Program("wget", ("wget", "-qO-", "--content-on-error", "-S"), (f"--ca-certificate={CA_BUNDLE}",)),
    "python": Program("python3", ("/usr/bin/python3", "-c", PYTHON)),
    "node": Program("node", ("node", "-e", NODE)),
    "java": Program("java", ("java", "-Xmx256m", "Fetch.java")),
    "go": Program("go", ("./fetch",)),
}


@pytest.fixture
def sources(online: Online) -> None:
    (online.workspace / "Fetch.java").write_text(JAVA)


@pytest.fixture(scope="module")
def go_program(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    """Built once, outside: the box runs a static binary that reads no environment."""
    if not shutil.which("go"):
        return None
    where = tmp_path_factory.mktemp("go")
    (where / "fetch.go").write_text(GO)
    env = {"PATH": os.environ["PATH"], "HOME": str(where), "CGO_ENABLED": "0", "GOFLAGS": "-mod=mod"}
    subprocess.run(["go", "build", "-o", "fetch", "fetch.go"], cwd=where, env=env, check=True, capture_output=True)
    return where / "fetch"


def require(tool: str) -> None:
    contract.needs(tool)
    if not shutil.which(tool, path=f"{os.environ.get('PATH', '')}:/usr/sbin"):
        reason = f"{tool} is not installed"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.usefixtures("sources")
def test_a_program_without_proxy_variables_obeys_the_policy(
    online: Online, go_program: Path | None, name: str, scheme: str
) -> None:
    program = PROGRAMS[name]
    require(program.tool)
    if name == "go" and go_program:
        shutil.copy(go_program, online.workspace / "fetch")
    run = ("run", "--allow-host", "allowed.example", "--")
    allowed = online.cli(*run, *program.argv(f"{scheme}://allowed.example/p"))
    assert b'"path": "/p"' in allowed.stdout, (allowed.stdout, allowed.stderr)
    refused = online.cli(*run, *program.argv(f"{scheme}://other.example/p"))
    said = refused.stdout + refused.stderr
    assert b"403" in said, (refused.stdout, refused.stderr)
    assert b"other.example" in said
    assert b"paddock policy allow" in said
    assert b'"path"' not in said


PIP = next(iter(sorted(Path("/usr/share/python-wheels").glob("pip-*.whl"))), Path("pip"))
PIP_WORDS = ("download", "--no-deps", "--no-cache-dir", "--retries=0", "--disable-pip-version-check", "thing", "-i")
INSPECTED = {
    **PROGRAMS,
    "git": Program("git", ("git", "ls-remote")),
    "npm": Program("npm", ("npm", "view", "thing", "--fetch-retries=0", "--registry")),
    "pip": Program(str(PIP), ("/usr/bin/python3", f"{PIP}/pip", *PIP_WORDS)),
}


@pytest.mark.parametrize("name", INSPECTED)
@pytest.mark.usefixtures("sources")
def test_a_program_accepts_connections_that_are_inspected(online: Online, go_program: Path | None, name: str) -> None:
    program = INSPECTED[name]
    if name != "pip" or contract.current().template or not PIP.exists():
        require(program.tool)
    if name == "go" and go_program:
        shutil.copy(go_program, online.workspace / "fetch")
    words = ("run", "--allow-request", "GET allowed.example/open/**", "--name", "seen", "--")
    for place, status in (("open", 200), ("shut", 403)):
        done = online.cli(*words, *program.argv(f"https://allowed.example/{place}/x"))
        lines = online.cli("network", "log", "--json", "seen").stdout.decode().splitlines()
        found = [record for record in map(json.loads, lines) if str(record.get("path")).startswith(f"/{place}/x")]
        assert status in {record.get("status") for record in found}, (done.stdout, done.stderr, lines)


# -- other protocols ---------------------------------------------------------------------------------------------------


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    where = tmp_path / "served.git"
    work = tmp_path / "work"
    git = ["git", "-c", "user.name=test", "-c", "user.email=test@allowed.example", "-c", "init.defaultBranch=main"]
    subprocess.run([*git, "init", "-q", str(work)], check=True)
    (work / "file").write_text("served\n")
    subprocess.run([*git, "-C", str(work), "add", "file"], check=True)
    subprocess.run([*git, "-C", str(work), "commit", "-qm", "first"], check=True)
    subprocess.run(["git", "clone", "-q", "--bare", str(work), str(where)], check=True)
    (where / "git-daemon-export-ok").write_text("")
    return where


@pytest.fixture
def git_daemon(internet: Internet, repository: Path) -> Iterator[str]:
    argv = ["git", "daemon", "--reuseaddr", f"--base-path={repository.parent}", "--export-all", "--listen=0.0.0.0"]
    server = internet.start(argv)
    url = "git://{}/served.git"
    until(lambda: not internet.run(["git", "ls-remote", url.format(PUBLIC)]).returncode, "git daemon answers")
    yield url
    server.terminate()
    server.wait()


def test_git_clones_over_its_own_protocol(online: Online, git_daemon: str) -> None:
    script = "git clone -q {} here && cat here/file; rm -rf here"
    allowed = online.sh(script.format(git_daemon.format("allowed.example")), "--allow-host", "allowed.example:9418")
    assert allowed.stdout == b"served\n", allowed.stderr
    assert online.internet.run(["git", "ls-remote", git_daemon.format("other.example")]).returncode == 0
    refused = online.sh(script.format(git_daemon.format("other.example")), "--allow-host", "allowed.example:9418")
    assert refused.stdout == b""
    assert b"reset by peer" in refused.stderr or b"unexpectedly" in refused.stderr or b"hung up" in refused.stderr


@pytest.fixture
def sshd(internet: Internet, online: Online, repository: Path, tmp_path: Path) -> Iterator[list[str]]:
    """An ssh server that knows one key; the box has that key in its workspace."""
    require("sshd")
    for name in ("host", "user"):
        assert not internet.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)]).returncode
    shutil.copy(tmp_path / "user", online.workspace / "key")
    (tmp_path / "keys").write_text((tmp_path / "user.pub").read_text())
    config = tmp_path / "sshd_config"
    config.write_text(
        f"Port 2222\nListenAddress 0.0.0.0\nHostKey {tmp_path}/host\nAuthorizedKeysFile {tmp_path}/keys\n"
        f"StrictModes no\nUsePAM no\nPasswordAuthentication no\nPidFile {tmp_path}/sshd.pid\nPermitRootLogin yes\n"
    )
    program = shutil.which("sshd", path="/usr/sbin:/usr/bin") or "sshd"
    os.makedirs("/run/sshd", exist_ok=True) if os.getuid() == 0 else None
    server = internet.start([program, "-D", "-f", str(config)])
    user = internet.run(["id", "-un"]).stdout.decode().strip()
    options = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o BatchMode=yes -o LogLevel=ERROR -p 2222"
    yield [options, user, str(repository)]
    server.terminate()
    server.wait()


def test_git_clones_over_ssh(online: Online, sshd: list[str]) -> None:
    options, user, repository = sshd
    script = (
        f"cp key /tmp/key; chmod 600 /tmp/key; export GIT_SSH_COMMAND='ssh -i /tmp/key {options}'; "
        f"git clone -q {user}@{{}}:{repository} /tmp/here && cat /tmp/here/file"
    )

    def answers() -> bool:
        done = online.internet.run(["sh", "-c", f"cd {online.workspace}; ssh -i key {options} {user}@{PUBLIC} true"])
        return done.returncode == 0

    (online.workspace / "key").chmod(0o600)
    until(answers, "sshd answers")
    allowed = online.sh(script.format("allowed.example"), "--allow-host", "allowed.example:2222")
    assert allowed.stdout == b"served\n", allowed.stderr
    refused = online.sh(script.format("other.example"), "--allow-host", "allowed.example:2222")
    assert refused.stdout == b""
    assert b"reset" in refused.stderr or b"closed" in refused.stderr


@pytest.fixture
def postgres(internet: Internet, tmp_path: Path) -> Iterator[None]:
    """On the host's loopback, as developers have it."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    programs = found[-1].parent if found else None
    if programs is None:
        require("initdb")
        programs = Path(str(shutil.which("initdb"))).parent
    data = tmp_path / "pg"
    data.mkdir()
    become: list[str] = []
    if os.getuid() == 0:  # PostgreSQL refuses to run as root
        become = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        os.chown(data, 65534, 65534)
        for parent in list(data.parents)[:4]:
            parent.chmod(parent.stat().st_mode | 0o011) if parent.owner() == "root" and parent != Path("/") else None
    argv = [*become, str(programs / "initdb"), "-D", str(data / "db"), "-U", "tester", "-A", "trust", "--no-sync"]
    done = internet.run(argv)
    assert done.returncode == 0, done.stderr
    options = ["-k", "", "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"]
    log = tmp_path / "pg.log"
    with log.open("wb") as file:
        server = internet.start([*become, str(programs / "postgres"), "-D", str(data / "db"), *options], file)
    query = ["psql", "-h", "127.0.0.1", "-U", "tester", "-d", "postgres", "-Atc", "select 6*7"]

    def answers() -> bool:
        assert server.poll() is None, log.read_text()
        return internet.run(query).stdout == b"42\n"

    until(answers, "PostgreSQL answers", 60)
    yield
    server.send_signal(signal.SIGINT)  # a fast shutdown: the usual one waits for clients
    server.wait()


@pytest.mark.usefixtures("postgres")
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "host.docker.internal"])
def test_the_hosts_database_answers_at_localhost_only_where_that_port_is_allowed(online: Online, host: str) -> None:
    require("psql")
    query = f"psql -h {host} -U tester -d postgres -Atc 'select 6*7'"
    allowed = online.sh(query, "--allow-host", "localhost:5432")
    assert allowed.stdout == b"42\n", allowed.stderr
    for options in ((), ("--allow-host", "localhost:5433"), ("--policy", "allow"), ("--allow-host", "*")):
        refused = online.sh(query, *options)
        assert refused.stdout == b"", options
        assert refused.returncode != 0


def test_a_server_that_speaks_first_is_heard(online: Online) -> None:
    script = "exec 3<>/dev/tcp/{}/9999; head -n1 <&3"
    allowed = online.cli(
        "run", "--allow-host", "allowed.example:9999", "--", "bash", "-c", script.format("allowed.example")
    )
    assert allowed.stdout == b"hello from a server that speaks first\n", allowed.stderr
    refused = online.cli(
        "run", "--allow-host", "allowed.example:9998", "--", "bash", "-c", script.format("allowed.example")
    )
    assert refused.stdout == b""
