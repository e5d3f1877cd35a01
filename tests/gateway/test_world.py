"""The one way out: resolved once, judged address by address, dialled or sent by the user's proxy."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from paddock.errors import Unavailable, UserError
from paddock.gateway.certificates import make_authority
from paddock.gateway.control import HostFacts
from paddock.gateway.poller import Poller
from paddock.gateway.world import Reached, World
from paddock.limits import FLOWS_PER_BOX
from paddock.policy import Default, Evaluator, Host, Policy, Verdict
from tests.support.scene import policy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


def play(act: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        poller = Poller(asyncio.get_running_loop())
        world = World(poller, "/nowhere")
        try:
            await asyncio.wait_for(act(world), 20)
        finally:
            await world.close()
            poller.close()

    asyncio.run(main())


async def reach(world: World, rules: Policy, host: str, port: int) -> Reached | Verdict:
    return await world.reach(Evaluator(rules, world.own_addresses), Host(host), port)


def test_a_name_of_the_host_is_reached_at_its_judged_address() -> None:
    async def act(world: World) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            world.set_host(HostFacts(hosts={"name.test": ("127.0.0.1",)}))
            found = await reach(world, policy("name.test"), "name.test", port)
            assert isinstance(found, Reached)
            with closing(found.sock):
                assert found.direct
                assert found.sock.getpeername() == ("127.0.0.1", port)
            refused = await reach(world, Policy(layers=policy("name.test").layers[:0]), "name.test", port)
            assert isinstance(refused, Verdict)

    play(act)


@pytest.mark.parametrize("address", ["10.1.2.3", "169.254.169.254", "::1", "192.0.2.77"])
def test_a_name_that_leads_to_a_closed_address_is_refused(address: str) -> None:
    async def act(world: World) -> None:
        world.set_host(HostFacts(hosts={"name.test": (address,)}, addresses=("8.8.4.4",)))
        found = await reach(world, policy("name.test", default=Default.ALLOW, deny=["::1"]), "name.test", 80)
        assert isinstance(found, Verdict)
        assert not found.allowed

    play(act)


def test_an_address_of_the_host_itself_is_closed_to_names() -> None:
    async def act(world: World) -> None:
        world.set_host(HostFacts(hosts={"name.test": ("8.8.4.4",)}, addresses=("8.8.4.4",)))
        found = await reach(world, policy("name.test"), "name.test", 80)
        assert isinstance(found, Verdict)
        assert "host itself" in found.reason

    play(act)


def test_a_name_that_cannot_be_resolved_is_no_guess() -> None:
    async def act(world: World) -> None:
        with pytest.raises(Unavailable) as error:
            await reach(world, policy("name.test"), "name.test", 80)
        assert error.value.code == "resolve"

    play(act)


def test_the_users_proxy_is_asked_by_name_when_only_it_can_resolve_it() -> None:
    async def act(world: World) -> None:
        heard: list[bytes] = []

        async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heard.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 200 OK\r\n\r\nthrough")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(proxy, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        world.set_host(HostFacts(proxy=f"http://127.0.0.1:{port}", no_proxy="near.test"))
        found = await reach(world, policy("far.test"), "far.test", 443)
        assert isinstance(found, Reached)
        assert not found.direct
        with closing(found.sock):
            assert await asyncio.get_running_loop().sock_recv(found.sock, 100) == b"through"
        assert heard[0].startswith(b"CONNECT far.test:443 HTTP/1.1\r\n")
        with pytest.raises(Unavailable):
            await reach(world, policy("near.test"), "near.test", 443)
        assert len(heard) == 1
        server.close()
        await server.wait_closed()

    play(act)


@pytest.mark.parametrize("facts", [HostFacts(addresses=("x",)), HostFacts(proxy="gopher://x")])
def test_facts_that_are_none_change_nothing(facts: HostFacts) -> None:
    async def act(world: World) -> None:
        world.set_host(HostFacts(hosts={"name.test": ("127.0.0.1",)}, addresses=("8.8.4.4",)))
        with pytest.raises(UserError):
            world.set_host(facts)
        assert len(world.own_addresses) == 1

    play(act)


def test_every_box_has_its_share_of_the_descriptors() -> None:
    async def act(world: World) -> None:
        alone = world.flows_per_box()
        world.busy, world.boxes = 50, 50
        assert 0 < world.flows_per_box() <= alone <= FLOWS_PER_BOX
        assert repr(world) == "<World 50 boxes, 50 busy>"

    play(act)


def test_roots_are_certificates_and_what_holds_none_changes_nothing() -> None:
    async def act(world: World) -> None:
        assert world.roots is None
        pem = make_authority("root").certificate_pem
        world.set_roots(b"\xff a comment\n" + pem + b"\n# another\n" + make_authority("other").certificate_pem)
        roots = world.roots
        assert roots is not None
        assert (roots.verify_mode, roots.check_hostname) == (ssl.CERT_REQUIRED, True)
        assert len(roots.get_ca_certs()) == 2
        for wrong in (b"", b"rubbish", pem[:100], pem.replace(b"M", b"N", 3)):
            with pytest.raises(UserError):
                world.set_roots(wrong)
        assert world.roots is roots

    play(act)
