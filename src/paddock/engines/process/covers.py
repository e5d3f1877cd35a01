"""What of a running box lies over the host's own files and can be uncovered from there, and how it is covered again.

The operations of the start are kept, on disk too: a later daemon must cover what was covered then, not what it would
cover now. The names are the host's; who watches them is the runtime.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from paddock import codec, fs
from paddock.engines.base import LINK
from paddock.engines.container import gvisor
from paddock.engines.process import kernel
from paddock.engines.process.operations import MountOp
from paddock.errors import PaddockError, Unavailable
from paddock.fs.births import born
from paddock.model import WorkspaceMode
from paddock.readiness import readable, within

if TYPE_CHECKING:
    from collections.abc import Iterable

    from paddock.engines.base import Placement
    from paddock.engines.process.trees import Trees
    from paddock.engines.process.warm import Launcher
    from paddock.model import BoxSpec

log = logging.getLogger(__name__)
_RECORD = "covers.json"
_ANSWER = ("covered", "gone", "links", "wanting")
_KINDS = frozenset({"pin", "readonly", "cover", "bind"})
_ANSWER_S = 12.0  # the process ends itself before
_MESSAGE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Cover:
    op: MountOp
    host: str = ""  # the name that it lies over on the host; empty if the host has none


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    covers: tuple[Cover, ...]
    namespace: tuple[int, ...] = ()  # device and inode of the box's mount namespace


def over_host(spec: BoxSpec, mounts: Iterable[MountOp]) -> tuple[Cover, ...]:
    """Those of a plan's operations whose target lies in a directory that the host has too."""
    rows = [(spec.workspace, spec.workspace)] if spec.mode is WorkspaceMode.LIVE else []
    rows += [(mount.source, mount.target) for mount in spec.mounts]
    rows.sort(key=lambda row: -row[1].count("/"))  # the innermost decides
    shown = {target for _, target in rows}
    own: list[str] = []  # directories of the box's own that were mounted among them
    covers = []
    for op in mounts:
        row = next((row for row in rows if op.target.startswith(f"{row[1].rstrip('/')}/")), None)
        if op.op not in _KINDS or row is None:
            continue
        inside = any(op.target.startswith(f"{place}/") for place in own)
        covers.append(Cover(op=op, host="" if inside else row[0] + op.target[len(row[1]) :]))
        if op.op == "bind" and op.target not in shown:
            own.append(op.target)
    return tuple(covers)


class Covers:
    """For the boxes of an engine. A root caller opens `trees` itself; others ask the launcher for them."""

    def __init__(self, launcher: Launcher, trees: Trees | None) -> None:
        self._launcher = launcher
        self._opener = trees
        self._records: dict[str, Record] = {}
        self._seen: dict[str, dict[str, tuple[int, ...]]] = {}

    def __repr__(self) -> str:
        return f"<Covers of {len(self._records)} boxes>"

    # -- what there is -------------------------------------------------------------------------------------------------

    def begin(self, placement: Placement, mounts: Iterable[MountOp]) -> None:
        """A box is about to be made with these mounts."""
        covers = over_host(placement.spec, mounts)
        self._records[placement.id] = Record(covers=covers)
        self._seen[placement.id] = {cover.host: born(cover.host) for cover in covers if cover.host}

    def keep(self, placement: Placement, namespace: int) -> None:
        """It runs; whoever comes after us finds what it is covered with."""
        found = os.fstat(namespace)
        record = replace(self._records[placement.id], namespace=(found.st_dev, found.st_ino))
        self._records[placement.id] = record
        if record.covers:
            _write(f"{placement.directory}/{_RECORD}", json.dumps(codec.to_wire(record)).encode())

    def forget(self, placement: Placement) -> None:
        self._records.pop(placement.id, None)
        self._seen.pop(placement.id, None)
        with contextlib.suppress(OSError):
            os.unlink(f"{placement.directory}/{_RECORD}")

    def names(self, placement: Placement) -> dict[str, tuple[int, ...]]:
        """The host's names that are covered, and which file each was when the box was made, as far as we know."""
        covers = self._record(placement).covers
        seen = self._seen.get(placement.id, {})
        return {cover.host: seen.get(cover.host, ()) for cover in covers if cover.host}

    def _record(self, placement: Placement) -> Record:
        if placement.id not in self._records:
            self._records[placement.id] = _read(f"{placement.directory}/{_RECORD}")
        return self._records[placement.id]

    # -- covering again ------------------------------------------------------------------------------------------------

    async def restore(self, placement: Placement, namespace: int) -> tuple[str, ...]:
        """Cover what is not covered; says which names. Unavailable when one that exists cannot be."""
        record = self._record(placement)
        found = os.fstat(namespace)
        if record.namespace != (found.st_dev, found.st_ino):
            raise unknown_mounts()
        held = os.dup(namespace)  # the box may end, and its descriptor be closed, while we wait
        try:
            return await self._restore_all(record, placement, held)
        finally:
            os.close(held)

    async def _restore_all(self, record: Record, placement: Placement, namespace: int) -> tuple[str, ...]:
        operations = [_current(cover.op, placement) for cover in record.covers]
        answer = await self._restore(operations, namespace, {})
        again = set(answer["covered"])
        if wanting := answer["wanting"]:  # a tree of the box's own: rare, and it takes another process
            trees = await self._trees([operations[number] for number in wanting], placement)
            try:
                answer = await self._restore(operations, namespace, dict(zip(wanting, trees, strict=True)))
            finally:
                for fd in trees:
                    os.close(fd)
            again |= set(answer["covered"])
        for number in answer["links"]:
            if _is_repository(operations[number]):
                raise Unavailable(f"{operations[number].target} became a symbolic link", code=LINK)
        return tuple(operations[number].target for number in sorted(again))

    async def _restore(self, operations: list[MountOp], namespace: int, trees: dict[int, int]) -> dict[str, list[int]]:
        mounts = [_wire(op) for op in operations]
        request = {"mounts": mounts, "trees": list(trees)}
        reply, fds = await self._ask("cover", request, [namespace, *trees.values()])
        for fd in fds:
            os.close(fd)
        return {key: [number for number in reply[key] if isinstance(number, int)] for key in _ANSWER}

    async def _trees(self, operations: list[MountOp], placement: Placement) -> list[int]:
        image = placement.spec.image
        if self._opener is not None:
            by_root = placement.spec.runtime == gvisor.NAME
            return await self._opener.open(operations, placement.index, (image.uid, image.gid), by_root=by_root)
        _, trees = await self._ask("trees", {"paths": [op.source for op in operations]}, [])
        if len(trees) != len(operations):
            for fd in trees:
                os.close(fd)
            raise _failed("a directory of the box could not be opened")
        return trees

    async def _ask(
        self, op: Literal["cover", "trees"], request: dict[str, object], fds: list[int]
    ) -> tuple[dict[str, list[object]], list[int]]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            with theirs:
                ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MESSAGE_BYTES)
                ours.setblocking(False)
                try:
                    socket.send_fds(ours, [json.dumps(request).encode()], fds)
                except OSError as error:
                    raise _failed(str(error)) from error
                await self._launcher.help(op, theirs.fileno())
            try:
                await within(readable(ours.fileno()), _ANSWER_S)
                data, passed = fs.receive_fds(ours, _MESSAGE_BYTES, kernel.DESCRIPTORS_MAX)
                reply = json.loads(data or b"{}")
            except (OSError, TimeoutError, ValueError) as error:
                raise _failed(str(error) or "no answer") from error
        if reply.get("ok") is not True:
            raise _failed(str(reply.get("error", "it ended without a word")))
        return reply, passed


def _current(op: MountOp, placement: Placement) -> MountOp:
    """Files of the workspace that are bound in their own place may have been replaced too; what is gone is closed.

    Sources elsewhere must be those that were approved.
    """
    if op.op != "bind" or not op.source.startswith(f"{placement.spec.workspace}/"):
        return op
    top = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fd = fs.open_beneath(top, op.source.lstrip("/"), os.O_PATH)
    except OSError:
        return replace(op, op="readonly")
    finally:
        os.close(top)
    found = os.fstat(fd)
    os.close(fd)
    owner = (found.st_uid, found.st_gid) if op.owner else ()
    return replace(op, identity=(found.st_dev, found.st_ino), owner=owner)


def _wire(op: MountOp) -> object:
    wire = codec.to_wire(op)
    assert isinstance(wire, dict)
    return {**wire, "directory": os.path.isdir(op.source)} if op.op == "bind" else wire


def _is_repository(op: MountOp) -> bool:
    """Host git obeys what is there. At a start such a link is refused."""
    return op.op == "bind" or (op.op == "readonly" and op.target.endswith("/.git"))


def _write(path: str, data: bytes) -> None:
    """Whole or not at all, for a daemon that is killed; after a crash of the machine there is no box to cover."""
    with open(f"{path}.new", "wb") as file:
        file.write(data)
    os.replace(f"{path}.new", path)


def _read(path: str) -> Record:
    try:
        with open(path, "rb") as file:
            return codec.from_wire(Record, json.loads(file.read()))
    except FileNotFoundError:
        return Record(covers=())
    except (OSError, ValueError, PaddockError) as error:
        log.warning("%s: %s", path, error)
        return Record(covers=())


def unknown_mounts() -> Unavailable:
    return Unavailable("the box does not say which mounts are its own", code="cover")


def _failed(detail: str) -> Unavailable:
    return Unavailable(f"what the host replaced cannot be covered in the box: {detail}", code="cover")
