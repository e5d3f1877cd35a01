"""The control socket: who may speak, what is understood, and that nothing said there stops the daemon."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paddock import frames, limits
from paddock._version import VERSION
from paddock.daemon import api, server
from paddock.daemon.answer import Answer
from paddock.runtime import Runtime
from tests.fs.children import in_child
from tests.support.serving import Peer, error, request, running, serving

pytestmark = pytest.mark.box


def test_a_question_has_an_answer(tmp_path: Path) -> None:
    async def act() -> None:
        async with serving(tmp_path) as runtime, Peer(runtime) as peer:
            answer = await peer.ask("status")
            assert answer["ok"] is True
            result = answer["result"]
            assert isinstance(result, dict)
            assert (result["pid"], result["version"], result["boxes"]) == (os.getpid(), VERSION, 0)

    asyncio.run(act())


@pytest.mark.parametrize(
    ("verb", "args", "version", "code"),
    [
        ("status", {}, "0.0", ("user", "version")),
        ("status", {}, None, ("user", "version")),
        ("status", {}, ["x"] * 100, ("user", "version")),
        ("explode", {}, VERSION, ("user", "unknown-verb")),
        (None, {}, VERSION, ("user", "unknown-verb")),
        (["ls"], {}, VERSION, ("user", "unknown-verb")),
        ("_status", {}, VERSION, ("user", "unknown-verb")),
        ("status", {"extra": 1}, VERSION, ("user", "unknown-key")),
        ("status", [], VERSION, ("user", "wrong-type")),
        ("inspect", {}, VERSION, ("user", "missing-key")),
        ("inspect", {"box": 5}, VERSION, ("user", "wrong-type")),
        ("inspect", {"box": "nobody"}, VERSION, ("user", "no-box")),
        ("inspect", {"box": "x" * 10_000}, VERSION, ("user", "no-box")),
        ("stop", {"box": "a", "grace_s": "soon"}, VERSION, ("user", "wrong-type")),
        ("create", {"request": {"workspace": "/", "engine": "magic"}}, VERSION, ("user", "wrong-type")),
        ("create", {"request": {"workspace": "/"}}, VERSION, ("user", "unsafe-source")),
        ("create", {"request": {"workspace": "/nonexistent"}}, VERSION, ("user", "bad-source")),
        ("exec", {"box": "a", "exec": {"argv": []}}, VERSION, ("user", "no-command")),
        ("env", {"box": "a", "set": {"A": 1}}, VERSION, ("user", "wrong-type")),
    ],
)
def test_what_is_not_understood_is_refused_by_name_and_the_connection_kept(
    tmp_path: Path, verb: object, args: object, version: object, code: tuple[str, str]
) -> None:
    async def act() -> None:
        async with serving(tmp_path) as runtime, Peer(runtime) as peer:
            assert error(await peer.ask(verb, args, version)) == code
            assert (await peer.ask("status"))["ok"] is True
            assert runtime.boxes == {}

    asyncio.run(act())


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        frames.HEADER.pack(limits.FRAME_MESSAGE_BYTES + 1, frames.MESSAGE),
        frames.HEADER.pack(1, 200) + b"x",
        frames.encode(frames.STDIN, b"x"),
        frames.HEADER.pack(2, frames.MESSAGE) + b"[]",
        frames.HEADER.pack(2, frames.MESSAGE) + b"\xff\xfe",
        frames.HEADER.pack(40_000, frames.MESSAGE) + b"[" * 40_000,
    ],
)
def test_bytes_that_are_no_request_end_only_their_own_connection(tmp_path: Path, data: bytes) -> None:
    async def act() -> None:
        async with serving(tmp_path) as runtime, Peer(runtime) as bystander, Peer(runtime) as hostile:
            await bystander.ask("status")
            await hostile.send(data)
            while (answer := await hostile.receive()) is not None:
                assert error(answer) == ("unavailable", "protocol")
                await hostile.send(b"\xff" * 16)
            assert (await bystander.ask("status"))["ok"] is True

    asyncio.run(act())


def test_any_bytes_leave_the_server_unharmed(caplog: pytest.LogCaptureFixture) -> None:
    async def act(chunks: list[bytes], directory: Path) -> None:
        async with serving(directory) as runtime, Peer(runtime) as bystander:
            for chunk in [*chunks, b"\xff" * 16]:
                async with Peer(runtime) as hostile:
                    await hostile.send(chunk)
            assert (await bystander.ask("status"))["ok"] is True

    @settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
    @given(st.lists(st.binary(max_size=80), max_size=8))
    def check(chunks: list[bytes]) -> None:
        with tempfile.TemporaryDirectory() as directory:
            asyncio.run(act(chunks, Path(directory)))

    check()
    gc.collect()
    assert caplog.text == ""


def test_a_client_that_leaves_in_the_middle_is_forgotten(tmp_path: Path) -> None:
    async def act() -> None:
        async with serving(tmp_path) as runtime:
            for _ in range(20):
                async with Peer(runtime) as peer:
                    await peer.send(frames.encode_message({"version": VERSION, "verb": "ls", "args": {}})[:-3])
            async with Peer(runtime) as peer:
                assert (await peer.ask("status"))["ok"] is True

    asyncio.run(act())


def test_a_request_that_fails_unexpectedly_is_an_answer_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_runtime: Runtime, _name: str) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Runtime, "inspect", broken)

    async def act() -> None:
        async with serving(tmp_path) as runtime, Peer(runtime) as peer:
            assert error(await peer.ask("inspect", {"box": "a"})) == ("unavailable", "bug")
            assert (await peer.ask("status"))["ok"] is True

    asyncio.run(act())
    assert "request failed" in caplog.text


def test_a_request_that_meets_an_error_of_the_system_is_an_answer_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_runtime: Runtime, _name: str) -> None:
        raise OSError(28, os.strerror(28), "/somewhere")

    monkeypatch.setattr(Runtime, "inspect", full)

    async def act() -> None:
        async with serving(tmp_path) as runtime, Peer(runtime) as peer:
            kind, _ = error(await peer.ask("inspect", {"box": "a"}))
            assert kind == "unavailable"
            assert (await peer.ask("status"))["ok"] is True

    asyncio.run(act())


def test_a_long_list_comes_in_parts(tmp_path: Path) -> None:
    async def act() -> None:
        async with serving(tmp_path / "home") as runtime, Peer(runtime) as peer:
            for _ in range(201):
                await runtime.create(request(workspace, ephemeral=True))
            first = await peer.ask("ls")
            second = await peer.receive()
            assert second is not None
            assert (first["more"], "more" in second) == (True, False)
            parts = [part["result"] for part in (first, second)]
            assert [len(part) for part in parts if isinstance(part, list)] == [200, 1]

    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (tmp_path / "home").mkdir()
    asyncio.run(act())


@settings(max_examples=30)
@given(st.lists(st.integers(0, 600_000), max_size=12))
def test_every_part_of_a_list_fits_a_message(sizes: list[int]) -> None:
    items = tuple("x" * size for size in sizes)
    parts = server._parts(items)
    assert [item for part in parts for item in part] == list(items)
    for part in parts:
        frames.encode_message({"ok": True, "more": True, "result": part})


def test_small_items_share_a_part() -> None:
    assert [len(part) for part in server._parts(tuple(range(401)))] == [200, 200, 1]
    assert server._parts(()) == [[]]


def test_descriptors_of_an_answer_are_closed_here_when_it_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []

    async def give(_runtime: Runtime, _verb: str, _args: object) -> Answer:
        sent.append(os.open("/dev/null", os.O_RDONLY))
        return Answer(result="here", fds=(sent[-1],))

    monkeypatch.setattr(api, "call", give)

    async def act() -> None:
        async with serving(tmp_path) as runtime, Peer(runtime) as peer:
            assert (await peer.ask("anything"))["result"] == "here"

    asyncio.run(act())
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(sent[0])


def test_a_server_without_descriptors_waits_for_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_RETRY_S", 0.01)

    async def serve() -> None:
        async with serving(tmp_path) as runtime, Peer(runtime) as peer:
            await peer.ask("status")
            async with Peer(runtime) as waiting:
                limit = resource.getrlimit(resource.RLIMIT_NOFILE)
                resource.setrlimit(resource.RLIMIT_NOFILE, (3, limit[1]))
                await asyncio.sleep(0.05)
                assert (await peer.ask("shutter"))["ok"] is False
                resource.setrlimit(resource.RLIMIT_NOFILE, limit)
                assert (await waiting.ask("status"))["ok"] is True

    in_child(lambda: asyncio.run(serve()))


SPEAK = """
import socket, sys
peer = socket.socket(socket.AF_UNIX)
peer.settimeout(10)
peer.connect(sys.argv[1])
try:
    peer.sendall(bytes.fromhex(sys.argv[2]))
    said = peer.recv(65536)
except (BrokenPipeError, ConnectionResetError):
    said = b""
sys.stdout.buffer.write(said)
"""


@pytest.mark.privileged
def test_another_user_is_not_served(tmp_path: Path) -> None:
    """The directory and the socket are private already; this is the second lock, so the first is left open here."""

    async def act(place: str) -> None:
        async with running(tmp_path) as runtime:
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(f"{place}/socket")
            os.chmod(f"{place}/socket", 0o666)
            listener.listen()
            served = server.Server(runtime, listener)
            task = asyncio.create_task(served.run())
            question = frames.encode_message({"version": VERSION, "verb": "status", "args": {}}).hex()
            argv = ["/usr/bin/python3", "-c", SPEAK, f"{place}/socket", question]
            answers = [
                await asyncio.to_thread(subprocess.run, argv, capture_output=True, user=user, group=user, check=True)
                for user in (0, 61234)
            ]
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await served.close()
            assert b'"ok":true' in answers[0].stdout, "its own user is"
            assert answers[1].stdout == b""

    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        asyncio.run(act(place))


def test_its_repr_counts_clients(tmp_path: Path) -> None:
    async def act() -> None:
        async with running(tmp_path) as runtime:
            with socket.socket(socket.AF_UNIX) as listener:
                assert repr(server.Server(runtime, listener)) == "<Server 0 clients>"

    asyncio.run(act())
