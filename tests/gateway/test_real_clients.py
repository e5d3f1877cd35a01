"""Programs people use, inside a box with placeholders only, talk to a server that accepts the real key only."""

from __future__ import annotations

import base64
import functools
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.inspecting import API, PLACEHOLDER, VALUE, Roots, document, inspected_box, secret
from tests.support.scene import Scene, lookup, play

if TYPE_CHECKING:
    import socket
    from pathlib import Path

pytestmark = pytest.mark.box

BASIC = base64.b64encode(f"me:{VALUE}".encode()).decode()
NODE = """
const https = require("https"), [,, host, address, key] = process.argv;
https.get({host: address, servername: host, path: "/node", headers: {Host: host, "x-api-key": key}}, answer => {
  answer.on("data", data => process.stdout.write(data));
}).on("error", error => { console.error(error.message); process.exit(1); });
"""
PYTHON = """
import http.client, socket, ssl, sys
host, address, key = sys.argv[1:]
connection = http.client.HTTPSConnection(host, context=ssl.create_default_context())
connection._create_connection = lambda where, *rest: socket.create_connection((address, where[1]), *rest)
for _ in range(3):
    body = iter([b"a" * 100, b"b" * 50_000])
    connection.request("POST", "/python", body=body, headers={"X-Api-Key": key}, encode_chunked=True)
    answer = connection.getresponse()
    sys.stdout.write(answer.read().decode())
"""
CURL = ["curl", "-sS", "--noproxy", "*", "-m", "15", "--resolve", "{host}:443:{address}"]
COMMANDS: dict[str, list[str]] = {
    "curl": [*CURL, "-H", "X-Api-Key: {key}", "https://{host}/curl"],
    "curl-upload": [
        *CURL,
        "-H",
        "X-Api-Key: {key}",
        "-H",
        "Expect: 100-continue",
        "--data-binary",
        "@big",
        "https://{host}/",
    ],
    "curl-basic": [*CURL, "-u", "me:{key}", "https://{host}/curl"],
    "curl-twice": [*CURL, "-H", "X-Api-Key: {key}", "https://{host}/1", "https://{host}/2"],
    "node": ["node", "program.js", "{host}", "{address}", "{key}"],
    "python": [sys.executable, "program.py", "{host}", "{address}", "{key}"],
}


def api(sock: socket.socket) -> None:
    """An API that answers `yes` to who has the key; reads whole requests and keeps connections."""
    stream = sock.makefile("rb")
    while line := stream.readline():
        fields = {}
        while (field := stream.readline().strip()) != b"":
            name, _, value = field.partition(b":")
            fields[name.lower()] = value.strip().decode()
        if b"expect" in fields:
            sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        got = len(stream.read(int(fields.get(b"content-length", 0))))
        while fields.get(b"transfer-encoding") == "chunked" and (size := int(stream.readline(), 16)):
            got += len(stream.read(size))
            stream.readline()
        if fields.get(b"transfer-encoding") == "chunked":
            stream.readline()
        known = fields.get(b"x-api-key") == VALUE or fields.get(b"authorization") == f"Basic {BASIC}"
        said = f"{'yes' if known else 'no'} {line.split()[1].decode()} {got}\n".encode()
        sock.sendall(b"HTTP/1.1 %d OK\r\nContent-Length: %d\r\n\r\n%b" % (200 if known else 401, len(said), said))


def program(place: Path, command: list[str], authority: str, key: str) -> str:
    """Inside the box."""
    address = str(lookup(API))
    words = [word.format(host=API, address=address, key=key) for word in command]
    env = {"PATH": os.environ["PATH"], "HOME": str(place), "SSL_CERT_FILE": authority, "CURL_CA_BUNDLE": authority}
    env["NODE_EXTRA_CA_CERTS"] = authority
    done: Any = subprocess.run(words, cwd=place, env=env, capture_output=True, timeout=30, check=False, text=True)
    return f"{done.stdout}{done.stderr}"


def test_programs_with_placeholders_are_let_in_and_without_are_not() -> None:  # CRED-13
    tools = {name: command for name, command in COMMANDS.items() if shutil.which(command[0])}
    assert {"curl", "python"} <= set(tools)

    def act(scene: Scene) -> None:
        Roots(scene).serve(api)
        place = scene.directory
        (place / "program.js").write_text(NODE)
        (place / "program.py").write_text(PYTHON)
        (place / "big").write_bytes(bytes(3 << 20))
        box = inspected_box(scene, document(secret(headers=["x-api-key", "authorization"])))
        authority = str(place / "authority.pem")
        (place / "authority.pem").write_bytes(box.authority.certificate_pem)
        for name, command in tools.items():
            said = box.inside(functools.partial(program, place, command, authority, PLACEHOLDER))
            wanted = {"curl-twice": 2, "python": 3}.get(name, 1)
            assert said.count("yes ") == wanted, (name, said)
            wrong = box.inside(
                functools.partial(program, place, command, authority, PLACEHOLDER.replace("0000", "1234"))
            )
            assert "yes" not in wrong, (name, wrong)
            assert wrong.count("no ") == wanted, (name, wrong)
        assert "yes / 3145728" in box.inside(
            functools.partial(program, place, COMMANDS["curl-upload"], authority, PLACEHOLDER)
        )
        assert scene.log == ""

    play(act)


def git(place: Path, authority: str, url: str, *words: str) -> str:
    """Inside the box."""
    env = {"PATH": os.environ["PATH"], "HOME": str(place), "GIT_SSL_CAINFO": authority, "GIT_TERMINAL_PROMPT": "0"}
    route = ["-c", f"http.curloptResolve=git.test:443:{lookup('git.test')}"]
    ask = ["-c", f"credential.helper=!f() {{ echo username=x; echo password={PLACEHOLDER}; }}; f"]
    command = ["git", *route, *ask, *(word.replace("{url}", url) for word in words)]
    done = subprocess.run(command, cwd=place, env=env, capture_output=True, timeout=60, check=False, text=True)
    return f"{done.returncode} {done.stdout}{done.stderr}"


def smart_http(root: Path) -> Any:
    """A git server that wants the real key, by git's own http-backend."""

    def serve(sock: socket.socket) -> None:
        stream = sock.makefile("rb")
        while line := stream.readline():
            method, target, _ = line.decode().split()
            fields = {}
            while (field := stream.readline().strip()) != b"":
                name, _, value = field.partition(b":")
                fields[name.lower().decode()] = value.strip().decode()
            body = stream.read(int(fields.get("content-length", 0)))
            while fields.get("transfer-encoding") == "chunked" and (size := int(stream.readline(), 16)):
                body += stream.read(size)
                stream.readline()
            if fields.get("transfer-encoding") == "chunked":
                stream.readline()
            expected = "Basic " + base64.b64encode(f"x:{VALUE}".encode()).decode()
            if fields.get("authorization") != expected:
                sock.sendall(b'HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm="git"\r\nContent-Length: 0\r\n\r\n')
                continue
            path, _, query = target.partition("?")
            env = {"PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(root), "GIT_HTTP_EXPORT_ALL": "1"}
            env |= {"PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": method, "REMOTE_USER": "x"}
            env |= {"CONTENT_TYPE": fields.get("content-type", ""), "CONTENT_LENGTH": str(len(body))}
            env |= {"HTTP_CONTENT_ENCODING": fields.get("content-encoding", ""), "HOME": str(root)}
            env |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
            done = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True, check=False)
            head, _, out = done.stdout.partition(b"\r\n\r\n")
            status = head.partition(b"Status: ")[2].partition(b"\r\n")[0] if b"Status:" in head else b"200 OK"
            sock.sendall(b"HTTP/1.1 %b\r\n%b\r\nContent-Length: %d\r\n\r\n%b" % (status, head, len(out), out))

    return serve


def test_git_clones_and_pushes_within_the_scope_of_its_secret() -> None:  # CRED-13
    def act(scene: Scene) -> None:
        root = scene.directory / "repos"
        for name in ("me/x.git", "me/y.git"):
            (root / name).mkdir(parents=True)
            for command in (["init", "-q", "--bare", "-b", "main"], ["config", "http.receivepack", "true"]):
                subprocess.run(["git", *command], cwd=root / name, check=True, capture_output=True)
        Roots(scene).serve(smart_http(root), "git.test")
        place = scene.directory / "work"
        place.mkdir()
        authority = str(scene.directory / "authority.pem")

        def box(write: bool) -> Any:
            scope = {"repos": ["me/x"], "write": write}
            made = inspected_box(scene, document(secret("git", hosts=["git.test"], git=scope)), "git.test")
            (scene.directory / "authority.pem").write_bytes(made.authority.certificate_pem)
            return lambda url, *words: made.inside(
                functools.partial(git, place, authority, f"https://git.test/{url}", *words)
            )

        run = box(write=True)
        assert run("me/x.git", "clone", "-q", "{url}", "x").startswith("0 ")
        commit = ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "one"]
        subprocess.run(["git", *commit], cwd=place / "x", check=True, capture_output=True)
        assert run("me/x.git", "-C", "x", "push", "-q", "{url}", "HEAD:main").startswith("0 ")
        assert run("me/x.git", "ls-remote", "{url}").count("refs/heads/main") == 1
        refused = run("me/y.git", "ls-remote", "{url}")
        assert refused.startswith("128 ")
        assert "403" in refused
        assert "limited to me/x (read and write)" in refused
        run = box(write=False)
        assert "refs/heads/main" in run("me/x.git", "ls-remote", "{url}")
        pushed = run("me/x.git", "-C", "x", "push", "-q", "{url}", "HEAD:other")
        assert not pushed.startswith("0 ")
        assert "403" in pushed
        heads = subprocess.run(["git", "branch"], cwd=root / "me/x.git", check=True, capture_output=True).stdout
        assert heads.split() == [b"*", b"main"]

    play(act)
