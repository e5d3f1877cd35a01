"""init in a kernel of its own, whose whole memory can be saved: nobody calls at its socket, it is handed its clients.

Theory. The host's sockets do not exist in such a kernel, and a saved one may hold none of them. So the keeper accepts
at the box's socket, outside, and sends each connection over a line, one descriptor a message. Told to be quiet, init
lets go of the line and of all clients, and its commands run on. Whoever has root in the box may then hand it a new
line: the envoy, which the runtime starts in the box after a restore (envoy.py).
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import termios

from paddock.engines.guest import spawn
from paddock.engines.guest.envoy import PLACE
from paddock.engines.guest.init import CONNECTIONS_MAX, Init
from paddock.engines.guest.wire import READABLE, Connection, Refused, message, receive_fds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paddock.engines.guest.command import Command
    from paddock.engines.guest.wire import Request

CLIENT, QUIET = b"c", b"q"  # what the keeper says; a client comes with its descriptor
_OFFER_S = 1.0
_PEER = struct.Struct("3i")
_SIGNAL_KEYS = {termios.VINTR: b"\x03", termios.VQUIT: b"\x1c", termios.VSUSP: b"\x1a"}
_NO_KEY = b"\xff"  # is in no text


class Sleeper(Init):
    def __init__(self, line: socket.socket, owner: tuple[int, int] | None = None) -> None:
        super().__init__(line, owner=owner)
        self._offers = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._offers.bind(PLACE)
        self._offers.listen(4)
        self.loop.want(self._offers.fileno(), READABLE, self._offered)

    def _accept(self, _events: int) -> None:
        try:
            word, fds, _ = receive_fds(self._listener, 1, 1)
        except BlockingIOError:
            return
        except OSError:
            word, fds = b"", []
        if word == QUIET:
            self._rest()
        elif word != CLIENT or not fds:
            os._exit(0)  # the keeper is gone, and the box with it
        else:
            self._take(socket.socket(fileno=fds.pop()))

    def _take(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        if len(self.connections) >= CONNECTIONS_MAX:
            sock.close()
            return
        self.connections.add(Connection(self, sock))

    def _rest(self) -> None:
        """Let go of all that is the host's: what runs goes on, and is nobody's but the box's."""
        for process in self.processes.values():
            process.keep = True
            process.awaiting.clear()
            if process.journal:
                process.journal.let_go()
        for client in list(self.connections):
            client.close()
        try:
            self._listener.send(QUIET)
        except OSError:
            pass
        self.loop.forget(self._listener.fileno())
        self._listener.close()

    def _offered(self, _events: int) -> None:
        try:
            peer, _ = self._offers.accept()
        except OSError:
            return
        with peer:
            _, uid, _ = _PEER.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
            if uid or self._listener.fileno() >= 0:
                return
            peer.settimeout(_OFFER_S)
            try:
                _, fds, _ = receive_fds(peer, 1, 1)
                peer.send(b"1")
            except OSError:
                return
        for fd in fds:
            self._listener = socket.socket(fileno=fd)
            self._listener.setblocking(False)
            self.loop.want(fd, READABLE, self._accept)

    def request(self, client: Connection, request: Request, fds: list[int]) -> None:
        if request == {"op": "alone"} and not client.command:
            # The host sees one process where we see all. It is our word, and a lie would end what the box runs.
            client.send(message({"event": "alone", "alone": not spawn.others_alive()}))
            return
        if request.get("op") == "journal" and not client.command:
            self._give_back(request, fds)
            client.send(message({"event": "done"}))
            return
        super().request(client, request, fds)

    def resized(self, process: Command) -> None:
        """gVisor tells nobody of it: so we do, the whole session. Who does not care for it does not notice."""
        spawn.tell_session(process.pid, signal.SIGWINCH)

    def typed(self, terminal: int) -> None:
        """gVisor sends the signals of keys also to programs that want the keys alone: for those no key has a signal."""
        try:
            mode = termios.tcgetattr(terminal)
            wanted = bool(mode[3] & termios.ISIG)
            known = mode[6][termios.VINTR] != _NO_KEY
            if wanted != known:
                for key, usual in _SIGNAL_KEYS.items():
                    mode[6][key] = usual if wanted else _NO_KEY
                termios.tcsetattr(terminal, termios.TCSANOW, mode)
        except (OSError, termios.error):
            pass

    def _give_back(self, request: Request, fds: list[int]) -> None:
        """To a command, the files of its journal; or none, where nobody will read it."""
        process = self._find(request)
        if process.journal is None or not process.journal.is_away:
            raise Refused("exists", "it has its journal")
        if len(fds) == 2:
            process.journal.take(fds[:])
            fds.clear()
        if process.done or process.journal.is_away:
            process.journal = None


def serve(line: int, owner: tuple[int, int] | None) -> None:
    """Be init, for ever."""
    os.set_inheritable(line, False)
    init = Sleeper(socket.socket(fileno=line), owner)
    while True:
        init.loop.run_once()
