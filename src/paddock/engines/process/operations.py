"""The operations of a plan, and what of the host they stand on."""

from __future__ import annotations

import errno
import functools
import json
import os
from dataclasses import dataclass, replace
from typing import Literal

from paddock import codec, fs
from paddock.engines.process import branch
from paddock.engines.process.toolchains import Toolchains
from paddock.errors import UserError
from paddock.model import Mount

HOME = "/home/agent"
RUN = "/run/paddock"
CA_BUNDLE = f"{RUN}/ca-bundle.pem"
STORED = ("/tmp/", "/var/tmp/", f"{HOME}/")  # what of the box's tree lies in its storage

MountKind = Literal[
    "tmpfs", "proc", "devpts", "dir", "symlink", "bind", "overlay", "branch", "device", "readonly", "pin", "cover"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class MountOp:
    op: MountKind
    target: str
    source: str = ""
    layers: str = ""  # of an overlay over the source: the directory of its `upper` and `work`
    lowers: tuple[str, ...] = ()  # of a branch: the directories that nobody changes, lowest first
    to: str = ""
    options: str = ""
    attributes: tuple[str, ...] = ()
    identity: tuple[int, ...] = ()  # device and inode of the source, checked again when it is opened
    owner: tuple[int, ...] = ()  # a root caller's own trees: the disk owner that the box's user stands for
    mode: int | None = None
    optional: bool = False
    devices: bool = False
    noexec: bool = False

    def describe(self) -> str:
        words = [self.op, self.target]
        if self.source:
            words.append(f"from {self.source}")
        words += [f"layer {path}" for path in self.lowers]
        if self.layers:
            words.append(f"changes to {self.layers}/{branch.UPPER if self.lowers else 'upper'}")
        if self.to:
            words.append(f"-> {self.to}")
        words += [text for text in (",".join(self.attributes), self.options) if text]
        return " ".join(words)

    def trees(self) -> tuple[str, ...]:
        """What is opened for it before anything is mounted, in this order."""
        match self.op:
            case "bind" | "overlay":
                return tuple(filter(None, (self.source, self.layers)))
            case "branch":
                return (*self.lowers, self.layers)
            case _:
                return ()


@functools.lru_cache(1024)
def encoded(op: MountOp) -> str:
    """Most operations are the same in every box. What is not asked for is not said, but for what would be a right."""
    wire = codec.to_wire(op)
    assert isinstance(wire, dict)
    return json.dumps({key: value for key, value in wire.items() if value or key == "noexec"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What of the host a plan stands on."""

    etc: str
    shims: str
    storage: str
    toolchains: Toolchains
    uid: int
    gid: int
    is_root: bool
    memory_bytes: int
    memory_by_kernel: bool
    sealed: bool = False
    localhost_ports: tuple[int, ...] = ()
    home_layers: tuple[str, ...] = ()  # directories that the box's home stands on, lowest first
    tools: tuple[Mount, ...] = ()
    view: tuple[Mount, ...] = ()  # what the workspace needs besides itself: the box's own gitdir, what is read-only


def bind(
    source: str,
    target: str,
    ground: Ground,
    *,
    read_only: bool = True,
    own: bool = False,
    extra: tuple[str, ...] = (),
) -> MountOp:
    found = _stat_without_links(source) if own else os.stat(source)
    owner = (found.st_uid, found.st_gid) if own and ground.is_root else ()
    return MountOp(
        op="bind",
        target=target,
        source=source,
        attributes=(*(("ro",) if read_only else ()), "nosuid", "nodev", *extra),
        identity=(found.st_dev, found.st_ino),
        owner=owner,
    )


def home(ground: Ground) -> MountOp:
    """The box's own; since its last checkpoint it has changed only what is in the storage."""
    own = bind(f"{ground.storage}/{branch.UPPER}", HOME, ground, read_only=False, own=True)
    if not ground.home_layers:
        return own
    return replace(own, op="branch", source="", identity=(), layers=ground.storage, lowers=ground.home_layers)


def _stat_without_links(path: str) -> os.stat_result:
    """Of a path that was resolved and approved: if any part of it is a link by now, somebody swapped it."""
    top = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fd = fs.open_beneath(top, path.lstrip("/"), os.O_PATH)
    except OSError as error:
        if error.errno not in {errno.ELOOP, errno.ENOTDIR, errno.ENOENT}:
            raise
        hint = "make sure that no other box can write to its parent directories"
        raise UserError(f"{path} was replaced: {error.strerror}", hint=hint, code="replaced") from error
    finally:
        os.close(top)
    try:
        return os.fstat(fd)
    finally:
        os.close(fd)
