"""Where images are unpacked: a process that has the store of layers, one open file, and nothing else of the host.

Theory. An image's bytes are somebody else's, and so is what the zstd program does with them. This process is in user,
mount, pid, network and ipc namespaces of its own; its root is an empty one that shows programs and libraries read-only
and the store at STORE. Its ids are those that the boxes of its user have (unpacking.py gives them), so that the files
of an image can belong to whom the image says.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
from typing import TYPE_CHECKING, Final

from paddock.engines.guest.wire import receive_fds
from paddock.engines.process import kernel, mounting
from paddock.engines.process.warm import package_root
from paddock.errors import PaddockError, UserError
from paddock.images.layers import Layers
from paddock.images.oci import ImageFile
from paddock.images.ownership import Ownership
from paddock.images.streams import Part, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

CHANNEL: Final = 3
REQUEST_BYTES: Final = 1 << 16
STORE: Final = "/store"
_NAMESPACES: Final = (
    kernel.CLONE_NEWUSER
    | kernel.CLONE_NEWNS
    | kernel.CLONE_NEWPID
    | kernel.CLONE_NEWNET
    | kernel.CLONE_NEWIPC
    | kernel.CLONE_NEWUTS
)
_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache", "/dev/null")
_READ_ONLY: Final = kernel.ATTR_RDONLY | kernel.ATTR_NOSUID


def main() -> None:
    """Say that we are in our namespaces, be given ids and a request, and answer it."""
    channel = socket.socket(fileno=CHANNEL)
    kernel.unshare(_NAMESPACES)
    channel.sendall(b"1")
    data, fds, _ = receive_fds(channel, REQUEST_BYTES, 1)
    if not data or len(fds) != 1:
        return
    pid = os.fork()  # the first process of its pid namespace: no other process has a number in there
    if pid:
        os.waitpid(pid, 0)
        return
    channel.sendall(json.dumps(_answer(json.loads(data), fds[0])).encode())
    os._exit(0)


def _answer(request: dict[str, object], fd: int) -> dict[str, object]:
    try:
        enclose(str(request["store"]))
        ids, uid, gid = (int(str(request[key])) for key in ("ids", "uid", "gid"))
        load = _load if request["what"] == "image" else _add
        return load(fd, Ownership(ids=ids, uid=uid, gid=gid))
    except PaddockError as error:
        words: dict[str, object] = {"error": error.message, "hint": error.hint, "code": error.code}
        return {**words, "by_user": isinstance(error, UserError)}
    except (OSError, ValueError) as error:
        return {"error": f"an image cannot be unpacked here: {error}", "hint": "", "code": "unpack", "by_user": False}


def _load(fd: int, ownership: Ownership) -> dict[str, object]:
    layers = Layers(STORE)
    with ImageFile(fd, STORE) as file, layers.lease() as lease:
        images = file.images()
        if len(images) != 1:
            raise UserError(
                f"the file holds {len(images)} images for this machine", hint="save one", code="no-template"
            )
        found = file.load(images[0], layers, lease, ownership)
        return {"layers": list(found), "config": images[0].config.to_json().decode()}


def _add(fd: int, ownership: Ownership) -> dict[str, object]:
    """One layer by itself, as a step of a build makes it."""
    layers = Layers(STORE)
    with layers.lease() as lease, plain(Part(fd), STORE) as source:
        return {"layers": [layers.add(lease, source, ownership).id]}


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
    with _opened(".") as root:
        for path, target in links:
            os.symlink(target, path.lstrip("/"), dir_fd=root)
        for path, tree in shown:
            kernel.set_mount(tree, _READ_ONLY)
            _land(root, path, tree, directory=os.path.isdir(path))
        kernel.set_mount(kept, kernel.ATTR_NOSUID | kernel.ATTR_NODEV | kernel.ATTR_NOEXEC, recursive=False)
        _land(root, STORE, kept, directory=True)
        os.mkdir("proc", dir_fd=root)
    kernel.mount("proc", "proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
    kernel.pivot_root_here()
    os.chdir("/")
    kernel.set_no_new_privs()


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


@contextlib.contextmanager
def _opened(path: str) -> Iterator[int]:
    fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)
