"""How a client's bytes move on blocking sockets; aio_transport.py is its twin on an event loop."""

from __future__ import annotations

import _thread
import select
import socket

from paddock import frames, fs, paths
from paddock.client import starter
from paddock.client.reply import ATTEMPTS, MAX_FDS, Frame, FrameQueue, Reply, lost, request
from paddock.limits import FRAME_DATA_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from paddock.frames import Message

    T = TypeVar("T")


def in_thread(action: Callable[[], T]) -> T:
    """Here nobody else waits: it is simply done."""
    return action()


class Channel:
    """A connection to a box's init. What arrives is hostile until decoded."""

    def __init__(self, fd: int) -> None:
        self.socket = socket.socket(fileno=fd)
        self.socket.setblocking(True)
        self._frames = FrameQueue()
        self._unsent = bytearray()

    def __repr__(self) -> str:
        return f"<Channel {self.socket.fileno()}>"

    def send(self, kind: int, payload: bytes) -> None:
        self._send_all(frames.encode(kind, payload))

    def send_message(self, message: Message) -> None:
        self._send_all(frames.encode_message(message))

    def _send_all(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except ConnectionError as error:
            from paddock.client import answers

            raise answers.hung_up() from error

    def receive(self) -> Frame | None:
        """The next frame, or None when the box hung up."""
        while (frame := self._frames.pop()) is None:
            try:
                if self._unsent:
                    self._send_some()
                data = self.socket.recv(FRAME_DATA_BYTES)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self._frames.feed(data)
        return frame

    def _send_some(self) -> None:
        """Send what is queued until there is something to read."""
        poll = select.poll()
        poll.register(self.socket, select.POLLIN | select.POLLOUT)
        while self._unsent:
            events = poll.poll()[0][1]
            if events & select.POLLOUT:
                try:
                    del self._unsent[: self.socket.send(self._unsent[:FRAME_DATA_BYTES], socket.MSG_DONTWAIT)]
                except BlockingIOError:
                    continue
                except BrokenPipeError:  # the command ended without reading all of it
                    self._unsent.clear()
            if events & (select.POLLIN | select.POLLHUP):
                return

    def receive_message(self) -> Message:
        """The next frame, which must be a message; init's refusals become errors."""
        from paddock.client import answers

        return answers.message(self.receive())

    def queue(self, data: bytes) -> None:
        """Send this while receiving, so that neither side waits for the other."""
        self._unsent += data

    def close(self) -> None:
        self.socket.close()


class Transport:
    """One connection to the daemon, opened on first use and again after it was lost."""

    def __init__(self, where: paths.Paths) -> None:
        self._where = where
        self._socket: socket.socket | None = None
        self._lock = _thread.allocate_lock()  # threads may share a client; the module of that name costs the CLI time

    def __repr__(self) -> str:
        return f"<Transport {self._where.state}>"

    def call(self, verb: str, args: Message, meanwhile: Callable[[], object] | None = None) -> tuple[object, list[int]]:
        """Ask, and ask again as long as that cannot do the same thing twice; `meanwhile` is done until it answers."""
        question = request(verb, args)
        with self._lock:
            for _ in range(ATTEMPTS):
                if self._socket is None:
                    self._socket = starter.connect(self._where)
                reply = Reply(verb)
                try:
                    return self._ask(self._socket, reply, question, meanwhile)
                except (OSError, EOFError) as error:
                    self.close()
                    if not reply.may_ask_again(error):
                        raise lost() from error
                except BaseException:
                    reply.drop()
                    if not reply.whole:
                        self.close()  # a late answer must not be taken for the next one's
                    raise
            raise lost()

    @staticmethod
    def _ask(
        sock: socket.socket, reply: Reply, question: bytes, meanwhile: Callable[[], object] | None
    ) -> tuple[object, list[int]]:
        try:
            sock.sendall(question)
        except ConnectionError:
            reply.unread = True  # it hung up, perhaps after saying why
        if meanwhile is not None:
            meanwhile()
        while True:
            data, fds = fs.receive_fds(sock, FRAME_DATA_BYTES, MAX_FDS)
            if reply.feed(data, fds):
                return reply.result, reply.fds

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
