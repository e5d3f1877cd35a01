"""A build of a template: a Dockerfile carried out in boxes, step by step, each of which stays in the cache.

Theory. images/build.py says what follows from what, and asks; here is who answers: a thread for each build, which has
the lease of all layers that it uses, and which asks the daemon's loop for boxes. Every step is in the store and its row
on disk before the next one begins, so that whatever dies, the next build of the same file goes on from there. Who asked
is told (buildtelling.py); when nobody listens any more, the build ends.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import hashlib
import os
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar, assert_never

from paddock import limits
from paddock.engines.container import gvisor, removal
from paddock.errors import Unavailable, UserError
from paddock.images import build, dockerfile
from paddock.images.build import CopyStep, DirectoryStep, RunStep
from paddock.images.dockerignore import Dockerignore
from paddock.images.dockerlines import wrong
from paddock.images.layers import Layers
from paddock.images.sources import Directory
from paddock.model.build import BuildInfo, BuildRequest, LockedStep, LockInfo
from paddock.model.reference import Reference
from paddock.policy import Host
from paddock.runtime import buildplaces, buildtelling, builtins, forms, quotas, steps, templates, threads
from paddock.runtime.errands import Errand
from paddock.runtime.flags import canonical
from paddock.runtime.stagebases import Bases
from paddock.runtime.steplayers import StepLayers
from paddock.text import neutralise

if TYPE_CHECKING:
    import socket
    from collections.abc import Coroutine

    from paddock.frames import Message
    from paddock.images.build import Built, Step
    from paddock.images.layers import LayerId
    from paddock.images.leases import Lease
    from paddock.runtime.buildtelling import Teller
    from paddock.runtime.core import Runtime
    from paddock.store import TemplateRow

T = TypeVar("T")
_SHOWN_CHARS: Final = 200
_WHY_CHARS: Final = 300


async def serve(runtime: Runtime, order: BuildRequest, channel: socket.socket) -> None:
    """Build, and tell who holds the other end; when nobody does, end."""
    await buildtelling.serve(channel, order.name, lambda say: built(runtime, order, say))


async def built(runtime: Runtime, order: BuildRequest, say: Teller) -> BuildInfo:
    """UserError for what the Dockerfile or its commands did wrong. Cancelled, it leaves what is whole."""
    if runtime.builds.locked():
        await say.message({"event": "note", "text": "other builds are under way; this one waits for its turn"})
    async with runtime.builds, quotas.counting(runtime):
        work = _Build(runtime, order, say, asyncio.get_running_loop())
        try:
            row, lock = await threads.aside(work.run)
        except asyncio.CancelledError:
            work.stop()
            raise
    return BuildInfo(name=row.name, tag=row.tag, digest=row.digest, layers=len(row.chain), steps=work.count, lock=lock)


async def wanted(runtime: Runtime, name: str) -> BuildRequest | None:
    """What has to be built before a template can be used: one that comes with us, and is not there as it is now."""
    reference = Reference.parse(name)
    if not builtins.is_one(reference):
        return None
    if await runtime.catalogue.has(reference):
        row = await runtime.catalogue.find(reference)
        if not builtins.is_ours(row) or builtins.is_current(row):
            return None
    return BuildRequest(name=reference.name, directory="", network=builtins.NETWORK)


class _Build:
    """The Ground of images/build.py; all but `stop` is in the thread."""

    def __init__(self, runtime: Runtime, order: BuildRequest, say: Teller, loop: asyncio.AbstractEventLoop) -> None:
        self.count = 0  # steps
        self._runtime = runtime
        self._order = order
        self._say = say
        self._loop = loop
        self._lock = threading.Lock()
        self._is_over = False
        self._inner: _Build | None = None  # of a template that ours begins with
        self._waits_for: concurrent.futures.Future[object] | None = None
        self._layers = Layers(runtime.paths.layers)
        self._steps: list[LockedStep] = []
        self._content = ""  # of what the COPY at hand takes

    def __repr__(self) -> str:
        return f"<_Build {self._order.name} {self.count} steps>"

    def stop(self) -> None:
        with self._lock:
            self._is_over = True
            if self._inner is not None:
                self._inner.stop()
            if self._waits_for is not None:
                self._waits_for.cancel()

    # -- the thread ----------------------------------------------------------------------------------------------------

    def run(self) -> tuple[TemplateRow, LockInfo]:
        order = self._order
        reference = Reference.parse(order.name)
        where = order.directory or _place(self._runtime)
        with (
            buildplaces.opened(self._runtime, where, _place(self._runtime)) as directory,
            self._layers.lease() as lease,
        ):
            try:
                return self._run(reference, directory, lease)
            finally:
                removal.remove_tree(lease.staging)  # files there may be of users that only boxes have

    def _run(self, reference: Reference, directory: int, lease: Lease) -> tuple[TemplateRow, LockInfo]:
        order = self._order
        own = builtins.text(reference.name) if not order.directory else b""
        parsed = dockerfile.read(own or buildplaces.dockerfile(self._runtime, order, directory))
        ignore = Dockerignore(b"" if own else buildplaces.ignored(directory))
        self._lease = lease
        self._made = StepLayers(self._layers, lease, directory, ignore, self.proceed)
        self._bases = Bases(self._runtime, self._layers, lease, self._made, Directory(directory), self)
        if order.locked is not None and build.count_steps(parsed, order.target) != len(order.locked.steps):
            raise _unlocked("the number of steps")
        found = build.build(parsed, self, order.target, order.arguments)
        if order.locked is not None and order.locked.digest != found.digest:
            raise _unlocked("how the image is run")
        if not found.chain:
            raise UserError("the Dockerfile makes an image without files", hint="COPY something", code="dockerfile")
        if len(found.chain) > limits.LAYERS_PER_BOX - 1:
            hint = "join RUN lines with &&"
            raise UserError(f"it has {len(found.chain)} layers, at most {limits.LAYERS_PER_BOX - 1}", hint=hint)
        lock = LockInfo(bases=self._bases.locked(), steps=tuple(self._steps), digest=found.digest)
        return self._kept(reference, found), lock

    def _kept(self, reference: Reference, found: Built) -> TemplateRow:
        row = templates.row_of(reference, found.config, found.chain, self._layers.root)
        owner = (row.image.uid, row.image.gid)
        catalogue = self._runtime.catalogue
        chain = forms.fitted(self._layers, self._lease, catalogue, found.chain, forms.ROOT, owner, self.proceed)
        source = "build" if self._order.directory else builtins.source(reference.name)
        row = replace(row, chain=chain, source=source, digest=found.digest)
        return self.wait(catalogue.add(row, replacing=True))

    def proceed(self) -> None:
        """Raises when nobody waits for the build any more."""
        if self._is_over:
            raise _interrupted()

    def wait(self, coroutine: Coroutine[None, None, T]) -> T:
        """Have something done by the daemon's loop."""
        with self._lock:
            if self._is_over:
                coroutine.close()
                raise _interrupted()
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
            self._waits_for = future  # type: ignore[assignment]
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise _interrupted() from None
        finally:
            self._waits_for = None

    # -- the ground ----------------------------------------------------------------------------------------------------

    def image(self, name: str, line: int) -> Built:
        self.wait(self._say.message({"event": "base", "line": line, "words": f"FROM {neutralise(name)}"}))
        return self._bases.find(name, line, self._order.locked)

    def may_reach(self, pattern: str) -> bool:
        network = self._runtime.network
        if network is None:
            return False
        host, _, port = pattern.rpartition(":")
        evaluator = network.policies.evaluator(canonical(self._order.network), _place(self._runtime))
        return evaluator.decide(Host(host), int(port)).allowed

    def errand(self) -> Errand:
        return Errand(network=self._order.network)

    def built_in(self, name: str) -> TemplateRow | None:
        order = self.wait(wanted(self._runtime, name))
        if order is None:
            return None
        self.note(f"building {name}, which comes with paddock and is new, or was another")
        inner = _Build(self._runtime, order, self._say, self._loop)
        self._inner = inner
        return inner.run()[0]

    def note(self, text: str) -> None:
        self.wait(self._say.message({"event": "note", "text": neutralise(text, _SHOWN_CHARS)}))

    def output(self, kind: int, data: bytes) -> Coroutine[None, None, None]:
        return self._say.output(kind, data)

    def content(self, step: CopyStep) -> str:
        self._content = "" if step.source else self._made.digest(step)
        return self._content

    def cached(self, key: str) -> LayerId | None:
        self.proceed()
        self._require_locked(key)
        found = self._runtime.catalogue.step(self._kept_as(key)) if self._order.uses_cache else None
        return found if found is not None and self._layers.keep(self._lease, found) else None

    def _require_locked(self, key: str) -> None:
        if self._order.locked is None:
            return
        known = self._order.locked.steps
        if len(self._steps) >= len(known) or known[len(self._steps)].key != key:
            raise _unlocked(f"step {len(self._steps) + 1}")

    def told(self, line: int, words: str, *, cached: bool) -> None:
        self.count += 1
        shown = neutralise(words, _SHOWN_CHARS)
        self._words = shown
        message: Message = {"event": "step", "number": self.count, "line": line, "words": shown, "cached": cached}
        self.wait(self._say.message(message))

    def make(self, below: Built, step: Step, key: str) -> LayerId:
        self.proceed()
        match step:
            case RunStep():
                layer = self._run_step(below, step)
            case CopyStep():
                layer = self._made.copied(below.chain, step, self._content)
            case DirectoryStep():
                layer = self._made.directory(below.chain, step)
            case _:
                assert_never(step)
        self._runtime.catalogue.keep_step(self._kept_as(key), layer)
        return layer

    def _kept_as(self, key: str) -> str:
        """gVisor leaves out what a RUN wrote to /tmp: such a layer is not what others leave."""
        if self._order.runtime != gvisor.NAME:
            return key
        return hashlib.sha256(f"{gvisor.NAME} {key}".encode()).hexdigest()

    def done(self, line: int, key: str) -> None:
        self._steps.append(LockedStep(line=line, does=self._words, key=key))

    def _run_step(self, below: Built, step: RunStep) -> LayerId:
        way = steps.Way(place=_place(self._runtime), network=self._order.network, runtime=self._order.runtime)
        upper = self._made.upper()
        try:
            ran = self.wait(steps.run(self._runtime, below.chain, step, way, upper, self.output))
        except UserError as error:  # a user or a shell that the image has not
            raise wrong(step.line, f"RUN: {error.message}", error.hint) from error
        if ran.code:
            raise _failed(step, ran, has_options=bool(self._order.directory))
        return self._made.frozen(upper)


def _interrupted() -> Unavailable:
    return Unavailable("the build was interrupted", code="interrupted")


def _unlocked(what: str) -> UserError:
    hint = "build without --locked, look at what changed, and write the lock file anew with --lock"
    return UserError(f"{what} is not what the lock file has", hint=hint, code="locked")


def _failed(step: RunStep, ran: steps.Ran, *, has_options: bool = True) -> UserError:
    """A template of ours is built at its first use, and by no command that would take an option for its network."""
    shown = neutralise(" ".join(step.argv[-1:] if len(step.argv) == 3 else step.argv), _SHOWN_CHARS)
    why = f"; {ran.reason}" if ran.reason else ""
    hint = ""
    if ran.refused and has_options:
        allowing = " ".join(f"--allow-host {pattern}" for pattern in ran.refused)
        hint = f"its policy refused {', '.join(ran.refused)}: allow it with {allowing}, or a --preset"
    elif ran.refused:
        patterns = " ".join(ran.refused)
        hint = f"its policy refused {', '.join(ran.refused)}: allow it with `paddock policy allow --user {patterns}`"
    if ran.why:  # an address of the house, say, to which a name leads that is allowed
        allowing = "--allow-cidr ADDRESS" if has_options else "`paddock policy allow --user ADDRESS`"
        hint = f"its policy refused {neutralise(ran.why, _WHY_CHARS)} ({allowing})"
    return wrong(step.line, f"RUN {shown} ended with exit code {ran.code}{why}", hint)


def _place(runtime: Runtime) -> str:
    place = f"{runtime.paths.state}/builds"
    with contextlib.suppress(FileExistsError):
        os.mkdir(place, 0o700)
    return place
