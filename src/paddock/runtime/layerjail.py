"""Where images are unpacked and packed: a process with the store of layers, one open file, and nothing of the host.

Theory. An image's bytes are somebody else's, and so is what the zstd program does with them. This process is in user,
mount, pid, network and ipc namespaces of its own; its root is an empty one that shows programs and libraries read-only
and the store at STORE. Its ids are those that the boxes of its user have (unpacking.py gives them), so that the files
of an image can belong to whom the image says. For a root caller it is therefore the host's own uid 0, which settings of
the kernel ask for and nothing else: it sees no file of theirs, has no right but over files, and no call to get one.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import signal
import socket
import struct
import sys
from typing import TYPE_CHECKING, Final

from paddock import codec, fs
from paddock.engines.guest.wire import receive_fds
from paddock.engines.process import kernel, mounting, seccomp
from paddock.engines.process.warm import package_root
from paddock.errors import PaddockError, UserError
from paddock.images import merging, nesting, pack
from paddock.images.export import Picture, export
from paddock.images.layers import Layers, new_frozen_id
from paddock.images.oci import ImageFile
from paddock.images.ownership import Ownership
from paddock.images.streams import Part, plain
from paddock.images.tar import refused
from paddock.limits import IMAGE_JAIL_BYTES
from paddock.runtime import steptargets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from paddock.images.oci import Image

    Tell = Callable[[dict[str, object]], None]

CHANNEL: Final = 3
HEADER: Final = struct.Struct("!I")  # the size of the request that follows
STORE: Final = "/store"
_BUFFER_BYTES: Final = 1 << 20
_NAMESPACES: Final = (
    kernel.CLONE_NEWUSER
    | kernel.CLONE_NEWNS
    | kernel.CLONE_NEWPID
    | kernel.CLONE_NEWNET
    | kernel.CLONE_NEWIPC
    | kernel.CLONE_NEWUTS
)
# chown, dac_override, fowner, fsetid, mknod, setfcap
_RIGHTS: Final = 1 << 0 | 1 << 1 | 1 << 3 | 1 << 4 | 1 << 27 | 1 << 31
_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache", "/dev/null")
_READ_ONLY: Final = kernel.ATTR_RDONLY | kernel.ATTR_NOSUID


def main() -> None:
    """Say that we are in our namespaces, be given ids and a request, and answer it."""
    channel = socket.socket(fileno=CHANNEL)
    kernel.unshare(_NAMESPACES)
    channel.sendall(b"1")
    data, fds, _ = receive_fds(channel, HEADER.size, 1)
    if len(data) != HEADER.size or len(fds) != 1:
        return
    request = json.loads(_exactly(channel, *HEADER.unpack(data)))
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    pid = os.fork()  # the first process of its pid namespace: no other process has a number in there
    if pid:
        signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGKILL))  # with all that it started
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        os.waitpid(pid, 0)
        return
    _answer(request, fds[0], _Teller(channel))
    os._exit(0)


def _exactly(channel: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (piece := channel.recv(size - len(data))):
        data += piece
    return data


class _Teller:
    """Says the answer, and waits until who asked has taken what it names: until then we hold it."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel

    def __call__(self, answer: dict[str, object]) -> None:
        self._channel.sendall(json.dumps(answer).encode())
        self._channel.shutdown(socket.SHUT_WR)
        self._channel.recv(1)


def _answer(request: dict[str, object], fd: int, tell: Tell) -> None:
    try:
        resource.setrlimit(resource.RLIMIT_AS, (IMAGE_JAIL_BYTES, IMAGE_JAIL_BYTES))
        enclose(str(request["store"]))
        ids, uid, gid = (int(str(request[key])) for key in ("ids", "uid", "gid"))
        _TASKS[str(request["what"])](fd, Ownership(ids=ids, uid=uid, gid=gid), str(request["words"]), tell)
    except PaddockError as error:
        words: dict[str, object] = {"error": error.message, "hint": error.hint, "code": error.code}
        tell({**words, "by_user": isinstance(error, UserError)})
    except MemoryError:
        message = f"it takes more than {IMAGE_JAIL_BYTES} bytes of memory to read"
        tell({"error": message, "hint": "", "code": "bad-archive", "by_user": True})
    except (OSError, ValueError) as error:
        full = isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
        hint, code = ("free some space and try again", "disk") if full else ("", "unpack")
        what = error.strerror if isinstance(error, OSError) else error
        tell({"error": f"an image cannot be written here: {what}", "hint": hint, "code": code, "by_user": False})


def _load(fd: int, ownership: Ownership, words: str, tell: Tell) -> None:
    layers = Layers(STORE)
    with ImageFile(fd, STORE) as file, layers.lease() as lease:
        images = file.images()
        image = _one(images, words)
        found = file.load(image, layers, lease, ownership)
        config = image.config.to_json().decode()
        beside = [tag for other in images if other is not image for tag in other.tags]
        known = {"config": config, "tags": list(image.tags), "digest": image.digest, "beside": beside}
        tell({"layers": list(found), **known})


def _one(images: tuple[Image, ...], tags: str) -> Image:
    """The only one; or if there are to be others, by their tags, the first of these."""
    if not tags:
        if len(images) != 1:
            message = f"the file holds {len(images)} images for this machine"
            raise UserError(message, hint="save one", code="no-template")
        return images[0]
    wanted = tags.split()
    found = {image.tags[0]: image for image in images if len(image.tags) == 1}
    if len(found) != len(images) or not {*wanted[:1]} <= found.keys() <= {*wanted}:
        raise refused("it is something else than was wanted")
    return found[wanted[0]]


def _add(fd: int, ownership: Ownership, _words: str, tell: Tell) -> None:
    """One layer by itself, as a step of a build makes it."""
    layers = Layers(STORE)
    with layers.lease() as lease, plain(Part(fd), STORE) as source:
        tell({"layers": [layers.add(lease, source, ownership).id]})


def _nest(fd: int, ownership: Ownership, words: str, tell: Tell) -> None:
    """One layer of what an archive holds, below a directory."""
    asked = json.loads(words)
    layers = Layers(STORE)
    with layers.lease() as lease, plain(Part(fd), STORE) as source, _spooled(lease.staging) as spool:
        sink = steptargets.Sink(spool, lambda: None)
        nesting.write(source, steptargets.read_target(asked["target"]), sink, is_owned=asked["is_owned"])
        pack.write_end(sink)
        tell({"layers": [layers.add(lease, Part(spool), ownership).id]})


@contextlib.contextmanager
def _spooled(directory: str) -> Iterator[int]:
    fd = os.open(directory, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        yield fd
    finally:
        os.close(fd)


def _export(fd: int, _ownership: Ownership, words: str, tell: Tell) -> None:
    """An image of these layers, into the file."""
    asked = json.loads(words)
    pictures = [codec.from_wire(Picture, picture) for picture in asked["pictures"]]
    with open(fd, "wb", buffering=_BUFFER_BYTES, closefd=False) as file:
        sink = steptargets.Roomy(fd, file.write) if asked["keeps_room"] else file
        done = export(Layers(STORE), pictures, sink, for_docker=asked["for_docker"])
    os.fsync(fd)
    tell({"config": done[0].config.to_json().decode(), "digest": done[0].digest})


def _merge(_fd: int, ownership: Ownership, words: str, tell: Tell) -> None:
    """One layer that is what several are together."""
    layers, made = Layers(STORE), new_frozen_id()
    with layers.lease() as lease:
        staged = f"{lease.staging}/merged"
        merging.merge([layers.tree(layer) for layer in json.loads(words)], staged)
        with fs.opened_directory(lease.staging) as fd:
            fs.sync_file_systems([fd])  # what it is made of may go when it is there
        layers.freeze(lease, staged, made, ownership.ids)
        tell({"layers": [made]})


_TASKS: Final[dict[str, Callable[[int, Ownership, str, Tell], None]]] = {
    "image": _load,
    "layer": _add,
    "nested": _nest,
    "export": _export,
    "merge": _merge,
}


def enclose(store: str) -> None:
    """Leave the host's files but for the programs that there are, and `store`."""
    sys.executable = os.path.realpath(sys.executable)  # by which programs are started: no link into a venv leads there
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    kept = kernel.open_tree(store, recursive=False)
    shown = [(path, kernel.open_tree(path)) for path in _shown()]
    links = [(path, os.readlink(path)) for path in _SYSTEM if os.path.islink(path)]
    options = "mode=755,size=1m,nr_inodes=1024"
    kernel.mount("jail", mounting.ROOT, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, options)
    os.chdir(mounting.ROOT)
    with fs.opened_directory(".") as root:
        for path, target in links:
            os.symlink(target, path.lstrip("/"), dir_fd=root)
        for path, tree in shown:
            kernel.set_mount(tree, _READ_ONLY)
            _land(root, path, tree, directory=os.path.isdir(path))
        kernel.set_mount(kept, kernel.ATTR_NOSUID | kernel.ATTR_NODEV | kernel.ATTR_NOEXEC, recursive=False)
        _land(root, STORE, kept, directory=True)
        os.mkdir("proc", dir_fd=root)
    # Of processes alone: who is uid 0 may write the rest, rights or none.
    kernel.mount("proc", "proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC, "subset=pid")
    kernel.pivot_root_here()
    os.chdir("/")
    _confine()


def _confine() -> None:
    """Before the first byte of an image is read."""
    filter_ = seccomp.allow_list("openat2")  # whose modes no filter sees, and which need none here
    kernel.join_new_session_keyring()
    kernel.drop_capabilities(_RIGHTS)
    kernel.set_no_new_privs()
    kernel.set_dumpable(dumpable=False)
    seccomp.install([filter_])


def _shown() -> list[str]:
    """What zstd and the interpreter that starts it need; none beneath another."""
    wanted = {*_SYSTEM, sys.prefix, sys.base_prefix, package_root()}
    there = sorted(path for path in wanted if os.path.exists(path) and not os.path.islink(path))
    return [path for path in there if not any(path.startswith(f"{other}/") for other in there)]


def _land(root: int, path: str, tree: int, *, directory: bool) -> None:
    place = mounting.walk(root, path, directory=directory)
    kernel.move_mount(tree, place)
    os.close(place)
    os.close(tree)
