"""The ssh-agents of boxes: a socket of our own for each, strict with who speaks to it, and gone with the box."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from paddock import fs
from paddock.limits import AGENT_CONNECTIONS_MAX
from paddock.model import BoxRequest, SshUse
from paddock.runtime import sshagents
from paddock.runtime.sshagents import Agents
from paddock.sshagent import wire
from paddock.sshagent.session import REFUSED, fingerprint
from paddock.sshagent.wire import string
from tests.support import sshkeys
from tests.support.serving import within

if TYPE_CHECKING:
    import socket

    import pytest

    from paddock.runtime import Runtime
    from paddock.runtime.box import Box

SESSION = b"s" * 32


async def made(runtime: Runtime, workspace: Path, key: bytes, path: str) -> Box:
    uses = (SshUse(key=fingerprint(key), host="git.example"),)
    request = BoxRequest(workspace=os.fspath(workspace), ssh_keys=uses, ssh_socket=path)
    box = await runtime.create(request)
    sshagents.prepare(box.row.spec, box.directory)
    return box


def known_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A host that the system knows."""
    key = sshkeys.make(tmp_path, "host")
    (tmp_path / "known").write_text(f"git.example {(tmp_path / 'host.pub').read_text()}")
    monkeypatch.setattr(sshagents, "_SYSTEM", str(tmp_path / "known"))
    monkeypatch.setattr(sshagents, "_FILES", ())
    return key


def connected(box: Box) -> socket.socket:
    peer = fs.connect_unix(f"{box.directory}/ssh", "agent")
    peer.settimeout(10)
    return peer


async def said(peer: socket.socket, payload: bytes) -> bytes:
    return await asyncio.to_thread(sshkeys.ask, peer, payload)


def test_a_box_reaches_its_keys_through_a_socket_of_ours(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, key = known_hosts(tmp_path, monkeypatch), sshkeys.make(tmp_path, "mine")
    sshkeys.make(tmp_path, "second")

    async def act(runtime: Runtime) -> None:
        agents = Agents(runtime.background.later)
        box = await made(runtime, workspace, key, path)
        assert runtime.environment(box)["SSH_AUTH_SOCK"] == "/run/ssh/agent"
        mounts, notes = sshagents.prepare(box.row.spec, box.directory)
        assert ([mount.target for mount in mounts], notes) == (["/run/ssh"], ())
        assert (Path(box.directory) / "ssh/known_hosts").read_text().startswith("git.example ssh-ed25519 ")
        for _ in range(2):  # a daemon that comes after another binds the same name
            agents.open(box)
            with connected(box) as peer:
                shown = await said(peer, bytes([wire.REQUEST_IDENTITIES]))
                assert wire.identities_of(shown[1:]) == [(key, b"mine")]
                login = sshkeys.sign(key, sshkeys.login(SESSION, key))
                assert await said(peer, login) == REFUSED
                proof = sshkeys.bind(host, SESSION, sshkeys.signed_by(path, host, SESSION))
                assert await said(peer, proof) == bytes([wire.SUCCESS])
                assert (await said(peer, login))[0] == wire.SIGNED
                assert await said(peer, bytes([19])) == REFUSED
            agents.let_go()
        await runtime.set_agent(box, "/nonexistent/agent")
        agents.open(box)
        with connected(box) as peer:
            assert await said(peer, bytes([wire.REQUEST_IDENTITIES])) == REFUSED  # the user's is gone
        agents.close(box.row.id)

    with sshkeys.agent(tmp_path, "mine", "second", "host") as path:
        within(tmp_path / "home", act)


def test_who_does_not_speak_the_protocol_is_hung_up_on_and_others_go_on(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known_hosts(tmp_path, monkeypatch)
    key = sshkeys.make(tmp_path, "mine")

    async def act(runtime: Runtime) -> None:
        agents = Agents(runtime.background.later)
        box = await made(runtime, workspace, key, path)
        agents.open(box)
        for data in (b"\xff\xff\xff\xff", b"\0\0\0\0", b"\0\0\0\x09\x1b\0\0\0\x20abcd", b"GET / HTTP/1.1\r\n\r\n"):
            with connected(box) as peer:
                peer.sendall(data)
                assert await asyncio.to_thread(peer.recv, 100) == b""
        with contextlib.ExitStack() as stack:
            many = [stack.enter_context(connected(box)) for _ in range(AGENT_CONNECTIONS_MAX + 1)]
            for peer in many[:-1]:
                assert await said(peer, bytes([wire.EXTENSION]) + string(b"query")) == REFUSED
            assert await asyncio.to_thread(many[-1].recv, 1) == b""
        agents.let_go()

    with sshkeys.agent(tmp_path, "mine") as path:
        within(tmp_path / "home", act)


def test_known_hosts_are_read_again_only_when_they_changed(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, key = known_hosts(tmp_path, monkeypatch), sshkeys.make(tmp_path, "mine")

    async def act(runtime: Runtime) -> None:
        box = await made(runtime, workspace, key, "/nonexistent/agent")
        found = sshagents.host_keys(box.row.spec)
        assert found == {fingerprint(key): {host}}
        assert sshagents.host_keys(box.row.spec) is found
        (tmp_path / "known").write_text("")
        assert sshagents.host_keys(box.row.spec) == {fingerprint(key): frozenset()}
        (tmp_path / "known").unlink()
        assert sshagents.host_keys(box.row.spec) == {fingerprint(key): frozenset()}

    within(tmp_path / "home", act)


def test_a_late_answer_of_the_agent_is_not_the_answer_to_the_next_question(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known_hosts(tmp_path, monkeypatch)
    key = sshkeys.make(tmp_path, "mine")
    monkeypatch.setattr(sshagents, "AGENT_ANSWER_S", 0.2)
    path = str(tmp_path / "slow")
    connections = iter((b"late", b"mine"))

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """On the first connection it answers a question when the next one comes."""
        name, behind = next(connections), b"late"
        while head := await reader.read(4):
            await reader.readexactly(int.from_bytes(head, "big"))
            if name == behind:
                behind = b""
                continue
            writer.write(wire.framed(wire.identities([(key, name)])))
        writer.close()

    async def act(runtime: Runtime) -> None:
        server = await asyncio.start_unix_server(slow, path)
        agents = Agents(runtime.background.later)
        box = await made(runtime, workspace, key, path)
        agents.open(box)
        question = bytes([wire.REQUEST_IDENTITIES])
        with connected(box) as peer:
            assert await said(peer, question) == REFUSED
            assert wire.identities_of((await said(peer, question))[1:]) == [(key, b"mine")]
        agents.let_go()
        server.close()

    within(tmp_path / "home", act)


def test_a_box_without_keys_has_none_of_it(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        agents = Agents(runtime.background.later)
        box = await runtime.create(BoxRequest(workspace=os.fspath(workspace)))
        agents.open(box)
        assert sshagents.prepare(box.row.spec, box.directory) == ((), ())
        assert not os.path.exists(f"{box.directory}/ssh")
        assert "SSH_AUTH_SOCK" not in runtime.environment(box)
        assert repr(agents) == "<Agents 0 boxes, 0 connections>"

    within(tmp_path / "home", act)
