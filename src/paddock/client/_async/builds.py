"""A build of a template, as the SDK has it. Written once, async; scripts/unasync.py makes _sync/ from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

from paddock.client import buildevents
from paddock.client.aio_transport import AsyncChannel
from paddock.client.answers import one_channel
from paddock.client.outgoing import absolute
from paddock.errors import Unavailable
from paddock.model import Network
from paddock.model.build import BuildInfo, BuildRequest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from paddock.client.buildevents import BuildEvent
    from paddock.model import Lent


class AsyncBuild:
    """A build that is under way. Leaving it as a context manager ends it; what was made so far stays in the cache."""

    def __init__(self, channel: AsyncChannel) -> None:
        self._channel = channel
        self.result: BuildInfo | None = None

    def __repr__(self) -> str:
        return f"<AsyncBuild {'under way' if self.result is None else self.result.name}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._channel.close()

    async def events(self) -> AsyncIterator[BuildEvent]:
        """As they come, until the template is built; raises what the build failed with."""
        while self.result is None:
            found = buildevents.read(await self._channel.receive())
            if isinstance(found, BuildInfo):
                self.result = found
            else:
                yield found

    async def finish(self) -> BuildInfo:
        async with self:
            async for _ in self.events():
                pass
        if self.result is None:
            raise Unavailable("the build was ended", code="gone")
        return self.result


class AsyncStarts(Protocol):
    async def call(self, verb: str, **args: object) -> object: ...

    async def started(self, verb: str, **args: object) -> tuple[object, list[int]]: ...

    def lent(self, words: Sequence[str]) -> Lent: ...


class AsyncBuilds:
    """The part of `templates` that builds."""

    def __init__(self, daemon: AsyncStarts) -> None:
        self._daemon = daemon

    def __repr__(self) -> str:
        return f"<AsyncBuilds of {self._daemon!r}>"

    async def build(
        self,
        name: str,
        directory: str = ".",
        *,
        dockerfile: str = "",
        target: str = "",
        arguments: Mapping[str, str] | None = None,
        network: Network | None = None,
        uses_cache: bool = True,
    ) -> BuildInfo:
        """Build a template from a Dockerfile; its commands run in boxes, which reach what `network` allows."""
        request = BuildRequest(
            name=name,
            directory=absolute(directory),
            dockerfile=absolute(dockerfile) if dockerfile else "",
            target=target,
            arguments=dict(arguments or {}),
            network=network or Network(),
            uses_cache=uses_cache,
        )
        build = await self.start_build(request)
        return await build.finish()

    async def start_build(self, request: BuildRequest) -> AsyncBuild:
        """The same, told as it goes."""
        _, fds = await self._daemon.started("template_build", request=request)
        return AsyncBuild(AsyncChannel(one_channel(fds)))

    async def made_ready(self, name: str) -> AsyncBuild | None:
        """A template that comes with Paddock is built at its first use: the build, if there has to be one."""
        _, fds = await self._daemon.started("template_ready", name=name)
        return AsyncBuild(AsyncChannel(one_channel(fds))) if fds else None
