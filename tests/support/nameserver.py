"""A nameserver on loopback, over UDP and TCP, that says what a test wants it to say."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

A, CNAME, AAAA = 1, 5, 28
NXDOMAIN, SERVFAIL, REFUSED = 3, 2, 5
TC = 0x0200

Record = tuple[str, int, int, bytes]  # owner, type, ttl, data


def wire_name(name: str) -> bytes:
    return b"".join(bytes((len(label),)) + label.encode() for label in name.split(".") if label) + b"\0"


def address(owner: str, text: str, ttl: int = 60) -> Record:
    packed = ipaddress.ip_address(text).packed
    return owner, A if len(packed) == 4 else AAAA, ttl, packed


def alias(owner: str, target: str, ttl: int = 60) -> Record:
    return owner, CNAME, ttl, wire_name(target)


@dataclass(frozen=True)
class Question:
    data: bytes
    name: str
    qtype: int
    tcp: bool
    number: int  # of those for the same name and type, from 1

    def answer(self, records: Sequence[Record] = (), rcode: int = 0, flags: int = 0, ident: int = 0) -> bytes:
        """`ident` is added to that of the question."""
        number = (int.from_bytes(self.data[:2]) + ident) & 0xFFFF
        head = struct.pack("!6H", number, 0x8180 | flags | rcode, 1, len(records), 0, 0)
        body = b"".join(
            wire_name(owner) + struct.pack("!HHIH", kind, 1, ttl, len(data)) + data
            for owner, kind, ttl, data in records
        )
        return head + self.data[12:] + body

    def addresses(self, *texts: str, ttl: int = 60) -> bytes:
        """Those of the type that was asked for."""
        records = [address(self.name, text, ttl) for text in texts]
        return self.answer([record for record in records if record[1] == self.qtype])


def read(data: bytes, number: int, *, tcp: bool) -> Question:
    labels = []
    at = 12
    while data[at]:
        labels.append(data[at + 1 : at + 1 + data[at]].decode())
        at += 1 + data[at]
    return Question(data, ".".join(labels), int.from_bytes(data[at + 1 : at + 3]), tcp, number)


def _same_port() -> tuple[socket.socket, socket.socket]:
    """For datagrams and for streams; somebody else may have a port for one of them."""
    while True:
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            udp.bind(("127.0.0.1", 0))
            tcp.bind(udp.getsockname())
        except OSError as error:
            udp.close()
            tcp.close()
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            return udp, tcp


@dataclass
class Nameserver(asyncio.DatagramProtocol):
    """Answers with what the handler returns: one packet, several, or none."""

    handler: Callable[[Question], bytes | list[bytes] | None]
    asked: list[Question] = field(default_factory=list)

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        udp, tcp = _same_port()
        self.port = udp.getsockname()[1]
        self._stranger = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._transport, _ = await loop.create_datagram_endpoint(lambda: self, sock=udp)
        self._server = await asyncio.start_server(self._serve, sock=tcp)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()
        self._transport.close()
        self._stranger.close()
        await asyncio.sleep(0)

    @property
    def text(self) -> str:
        return f"127.0.0.1#{self.port}"

    def count(self, name: str) -> int:
        return sum(question.name == name for question in self.asked)

    def spoof(self, data: bytes, to: tuple[str, int]) -> None:
        """Send from a port of our own, as somebody else would."""
        self._stranger.sendto(data, to)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        for answer in self._answers(data, tcp=False):
            if answer.startswith(b"spoof:"):
                self.spoof(answer.removeprefix(b"spoof:"), addr)
            else:
                self._transport.sendto(answer, addr)

    def _answers(self, data: bytes, *, tcp: bool) -> list[bytes]:
        question = read(data, 0, tcp=tcp)
        before = [one for one in self.asked if (one.name, one.qtype) == (question.name, question.qtype)]
        question = read(data, len(before) + 1, tcp=tcp)
        self.asked.append(question)
        answer = self.handler(question)
        return answer if isinstance(answer, list) else [] if answer is None else [answer]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            data = await reader.readexactly(int.from_bytes(await reader.readexactly(2)))
            for answer in self._answers(data, tcp=True):
                writer.write(len(answer).to_bytes(2) + answer)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
