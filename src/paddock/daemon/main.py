"""The daemon's life: lock, store, launcher, recovery, serve, end. Reports once on its ready descriptor how it went."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import json
import logging
import os
import resource
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from paddock import fs, limits, paths
from paddock.daemon.server import Server, broken
from paddock.engines.container.engine import ContainerEngine
from paddock.engines.process import accounting, cgroups
from paddock.engines.process.bounds import Bounds
from paddock.engines.process.engine import ProcessEngine
from paddock.engines.process.warm import Launcher
from paddock.errors import PaddockError
from paddock.model import EngineName
from paddock.runtime import Runtime, apart, boxparts, threads
from paddock.runtime.approvals import Approvals
from paddock.runtime.network import Networks
from paddock.runtime.policies import Policies
from paddock.runtime.recovery import recover
from paddock.secrets.memory import close_memory, leave_no_core
from paddock.store import Store
from paddock.watch import Casualties, Deadlines, Disk, HostSample, Memory, Watch

if TYPE_CHECKING:
    import socket

    from paddock.engines.base import Engine

log = logging.getLogger(__name__)
_BACKLOG = 512
_THREADS = 6
_LOOK_S = 2.0
_SCAN_ENTRIES = limits.DISK_BYTES_DEFAULT // limits.FILE_BYTES + 1  # whoever has more is over the default limit
_SCAN_S = 20.0


def main() -> None:
    ready = int(sys.argv[1])
    os.umask(0o077)
    os.chdir("/")
    leave_no_core()
    try:
        where = paths.Paths()
        for directory in (where.state, where.run, where.boxes, where.trash, where.network, where.config):
            fs.make_private_dir(directory)
        lock = fs.FileLock(where.daemon_lock)
        if not lock.try_acquire():
            _tell(ready, {"already": True})
            return
        _log_to(where.daemon_log)
        _raise_file_limit()
        # Before the store is touched: a daemon that answers here is alive, even if someone deleted its lock.
        listener = fs.bind_unix(where.run, paths.SOCKET)
        listener.listen(_BACKLOG)
        store = Store(where.database, is_first=not os.listdir(where.boxes))
        held = Bounds(cgroups.find(tag(where.state)))  # forks, so before there are threads
        close_memory()  # values of secrets come into it; what it starts is another program, and as usual again
    except PaddockError as error:
        _tell(ready, {"error": error.to_wire()})
        return
    except OSError as error:
        _tell(ready, {"error": broken(error).to_wire()})
        return
    # Neither asyncio.run nor a return: both wait for threads, and what those still do (removing files, measuring boxes)
    # must not keep the next daemon waiting.
    asyncio.new_event_loop().run_until_complete(_live(where, store, held, listener, ready))
    logging.shutdown()
    os._exit(0)


async def _live(where: paths.Paths, store: Store, held: Bounds, listener: socket.socket, ready: int) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    launcher = Launcher(where.daemon_log)
    engines: dict[EngineName, Engine] = {
        EngineName.PROCESS: ProcessEngine(where.state, launcher, held),
        EngineName.CONTAINER: ContainerEngine(where.state, launcher, held),
    }
    disk = Disk(_disk_of, unlinked_of=accounting.unlinked_of, written_of=accounting.written_of)
    judges = (Deadlines(), Casualties(), Memory(accounting.memory_of), disk)
    try:
        loop.set_default_executor(threads.pool(_THREADS, "daemon"))
        policies = Policies(paths.ORGANISATION_POLICY, where.policy, Approvals(where.approvals))
        runtime = Runtime(
            where,
            store,
            engines,
            paths.home_directory(),
            lambda on_verdict: Watch(judges, lambda: _sample(where), on_verdict),
            lambda *parts: Networks(where, policies, os.environ, *parts),
        )
        network = runtime.network
        assert network is not None
        connecting = loop.create_task(network.run(), name="network")
        warming = loop.create_task(launcher.warm_up(), name="warm launcher")
        await recover(runtime, store)
        network.recovered.set()
    except (PaddockError, OSError) as error:
        log.exception("cannot start")
        _tell(ready, {"error": (error if isinstance(error, PaddockError) else broken(error)).to_wire()})
        return
    _tell(ready, {"ready": True})
    log.info("serving, pid %d, %d boxes", os.getpid(), len(runtime.boxes))
    try:
        await _serve(where, runtime, listener, stop, connecting)
        if not any(box.handle for box in runtime.boxes.values()):
            await network.supervisor.end()  # nobody is left whose connections it holds
    finally:
        await network.close()
        await asyncio.gather(warming, return_exceptions=True)
        await runtime.close()
        await launcher.close()


async def _serve(
    where: paths.Paths,
    runtime: Runtime,
    listener: socket.socket,
    stop: asyncio.Event,
    *others: asyncio.Task[None],
) -> None:
    loop = asyncio.get_running_loop()
    identity = os.lstat(f"{where.run}/{paths.SOCKET}").st_ino
    server = Server(runtime, listener)
    serving = loop.create_task(server.run(), name="serve")
    watching = loop.create_task(runtime.lifetimes.watch.run(), name="watch")
    stopping = loop.create_task(stop.wait(), name="stop")
    moved = loop.create_task(_until_moved(where, identity), name="moved")
    tasks: tuple[asyncio.Task[object], ...] = (serving, watching, *others, stopping, moved)
    # Without its watch a daemon would hold no limit: it ends, and the next one watches again.
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.sleep(0)  # the answer to `shutdown` goes out first
    for task in tasks:
        task.cancel()
    for task, result in zip(tasks, await asyncio.gather(*tasks, return_exceptions=True), strict=True):
        if isinstance(result, Exception):
            log.error("%s failed", task.get_name(), exc_info=result)
    await server.close()
    if _is_ours(where, identity):
        os.unlink(f"{where.run}/{paths.SOCKET}")
    else:
        await runtime.lifetimes.end_homeless()


def tag(state: str) -> str:
    """Names this installation among others that share its cgroups, even from a container with the same paths."""
    place = os.stat(state)
    return hashlib.sha256(f"{os.getuid()} {state} {place.st_dev} {place.st_ino}".encode()).hexdigest()[:10]


def _sample(where: paths.Paths) -> HostSample:
    state = Path(where.state)
    return HostSample(
        mem_available=accounting.available(),
        disk_free=accounting.disk_free(state),
        files_free=accounting.files_free(state),
    )


def _disk_of(trees: tuple[str, ...]) -> int:
    how = functools.partial(apart.tree_bytes, least_bytes=limits.FILE_BYTES, passing=boxparts.KERNELS)
    return sum(how(tree, _SCAN_ENTRIES, _SCAN_S)[0] for tree in trees)


def _is_ours(where: paths.Paths, identity: int) -> bool:
    try:
        return os.lstat(f"{where.run}/{paths.SOCKET}").st_ino == identity
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:  # a disk that does not answer is not a deleted one
        log.warning("looking for our socket: %s", error)
        return True


async def _until_moved(where: paths.Paths, identity: int) -> None:
    """A daemon whose state was deleted or replaced serves nobody: it ends, and touches nothing of its successor's."""
    while _is_ours(where, identity):  # noqa: ASYNC110  nothing tells us of a deleted directory
        await asyncio.sleep(_LOOK_S)
    log.warning("the socket is no longer ours; ending")


def _tell(ready: int, message: dict[str, object]) -> None:
    try:
        os.write(ready, json.dumps(message).encode() + b"\n")
        os.close(ready)
    except OSError:
        pass  # whoever started us is gone; serve on


class _Log(logging.FileHandler):
    """In two files that take turns: what boxes provoke must not fill the disk."""

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError):
            if os.path.getsize(self.baseFilename) > limits.DAEMON_LOG_BYTES:
                self.close()  # and is opened again by the next line
                os.replace(self.baseFilename, f"{self.baseFilename}.1")
        super().emit(record)


def _log_to(path: str) -> None:
    handler = _Log(path, delay=True)
    logging.basicConfig(
        handlers=[handler], level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )


def _raise_file_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    main()
