"""A build of a template, as the SDK has it. Made by scripts/unasync.py from _async/: edit that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

from paddock.client import buildevents
from paddock.client.transport import Channel
from paddock.client.answers import one_channel
from paddock.client.outgoing import absolute
from paddock.errors import Unavailable
from paddock.model import Network
from paddock.model.build import BuildInfo, BuildRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from paddock.client.buildevents import BuildEvent
    from paddock.model import Lent


class Build:
    """A build that is under way. Leaving it as a context manager ends it; what was made so far stays in the cache."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.result: BuildInfo | None = None

    def __repr__(self) -> str:
        return f"<Build {'under way' if self.result is None else self.result.name}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def events(self) -> Iterator[BuildEvent]:
        """As they come, until the template is built; raises what the build failed with."""
        while self.result is None:
            found = buildevents.read(self._channel.receive())
            if isinstance(found, BuildInfo):
                self.result = found
            else:
                yield found

    def finish(self) -> BuildInfo:
        with self:
            for _ in self.events():
                pass
        if self.result is None:
            raise Unavailable("the build was ended", code="gone")
        return self.result


class Starts(Protocol):
    def call(self, verb: str, **args: object) -> object: ...

    def started(self, verb: str, **args: object) -> tuple[object, list[int]]: ...

    def lent(self, words: Sequence[str]) -> Lent: ...


class Builds:
    """The part of `templates` that builds."""

    def __init__(self, daemon: Starts) -> None:
        self._daemon = daemon

    def __repr__(self) -> str:
        return f"<Builds of {self._daemon!r}>"

    def build(
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
        build = self.start_build(request)
        return build.finish()

    def start_build(self, request: BuildRequest) -> Build:
        """The same, told as it goes."""
        _, fds = self._daemon.started("template_build", request=request)
        return Build(Channel(one_channel(fds)))

    def made_ready(self, name: str) -> Build | None:
        """A template that comes with Paddock is built at its first use: the build, if there has to be one."""
        _, fds = self._daemon.started("template_ready", name=name)
        return Build(Channel(one_channel(fds))) if fds else None
