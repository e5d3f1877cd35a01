"""The gateway's life: take the control socket, import all there is to import, go to jail, serve, end.

The only place that knows both the gateway and the jail. The parent hands over a bound socket by the first descriptor
and hears on it, once, how it went. Standard output and error are the log.
"""

from __future__ import annotations

import asyncio
import encodings.idna
import encodings.punycode
import gc
import json
import logging
import os
import resource
import signal
import socket
import ssl
import sys
import time
import unicodedata

from paddock.engines.process import jail, kernel
from paddock.errors import PaddockError, Unavailable
from paddock.gateway import control, libcrypto
from paddock.gateway.poller import Poller
from paddock.gateway.rate import Rate
from paddock.gateway.server import Server
from paddock.gateway.world import World
from paddock.metering import prices

log = logging.getLogger(__name__)
_BACKLOG = 8
_LOG_LINES_PER_S, _LOG_BURST = 5, 500
_EARLY = (encodings.idna, encodings.punycode, unicodedata)  # names and codecs that Python would look for when asked


def main() -> None:
    report = socket.socket(fileno=int(sys.argv[1]))
    try:
        listener = _take(report)
        _warm_up()
        filters = jail.build()
        jail.enter({1, 2, report.fileno(), listener.fileno()})
        # By us and not by the daemon: whoever connects reads from the socket whose process this is.
        listener.listen(_BACKLOG)
        loop = asyncio.new_event_loop()
        world = World(Poller(loop), "/")
        jail.confine_calls(filters)
    except (PaddockError, OSError) as error:
        log.exception("cannot start")
        wire = error.to_wire() if isinstance(error, PaddockError) else _broken(error).to_wire()
        _tell(report, {"error": wire})
        os._exit(71)
    _tell(report, {"ready": True})
    loop.run_until_complete(_serve(world, listener))
    logging.shutdown()
    os._exit(0)


async def _serve(world: World, listener: socket.socket) -> None:
    asyncio.get_running_loop().set_exception_handler(_unexpected)
    await Server(world, listener).run()


def _take(report: socket.socket) -> socket.socket:
    message = control.receive(report)
    if message is None or len(message.fds) != 1:
        raise Unavailable("the gateway was started without a socket", code="gateway")
    return socket.socket(fileno=message.fds[0])


def _warm_up() -> None:
    """All that would be read from files later, and what a process of this kind needs once."""
    _log()
    kernel.set_title(b"paddock-gateway")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        libcrypto.library()
    except PaddockError as error:
        log.warning("%s", error.message)
    prices.listed()
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # OpenSSL reads its configuration with the first
    gc.collect()
    gc.freeze()


class _Bounded(logging.Filter):
    """What boxes provoke must not fill the disk."""

    def __init__(self) -> None:
        super().__init__()
        self._rate = Rate(_LOG_LINES_PER_S, _LOG_BURST)

    def filter(self, record: logging.LogRecord) -> bool:
        del record
        return self._rate.take(time.monotonic())


def _log() -> None:
    handler = logging.StreamHandler()
    handler.addFilter(_Bounded())
    formatter = logging.Formatter("%(asctime)s %(levelname)s gateway %(name)s: %(message)s")
    formatter.converter = time.gmtime  # the local zone is a file
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def _unexpected(_loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    error = context.get("exception")
    log.error("%s", context.get("message"), exc_info=error if isinstance(error, BaseException) else None)


def _broken(error: OSError) -> Unavailable:
    return Unavailable(
        f"the gateway cannot go to its jail: {error.strerror or error}",
        hint="run `paddock doctor`: it says whether this machine allows user namespaces",
        code="gateway-jail",
    )


def _tell(report: socket.socket, message: dict[str, object]) -> None:
    try:
        report.send(json.dumps(message).encode())
    except OSError:
        pass  # whoever started us is gone; the next one finds us
    report.close()


if __name__ == "__main__":
    main()
