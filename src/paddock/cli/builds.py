"""template build, and the template that a run needs first."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from paddock import codec, text
from paddock.cli import buildlocks, networds, options
from paddock.cli.copying import written
from paddock.cli.hostpaths import place
from paddock.client import Paddock
from paddock.errors import UserError
from paddock.model.build import BuildRequest
from paddock.model.reference import is_path

if TYPE_CHECKING:
    import argparse

    from paddock.client._sync.builds import Build
    from paddock.client.buildevents import BuildEvent
    from paddock.model.build import BuildInfo

_LINE_CHARS: Final = 2000


def build(words: argparse.Namespace) -> int:
    directory = place(words.directory)
    file = place(words.file) if words.file else ""
    lock = place(words.lock) if words.lock else f"{file or f'{directory}/Dockerfile'}.lock"
    request = BuildRequest(
        name=words.tag,
        directory=directory,
        dockerfile=file,
        target=words.stage,
        arguments=_arguments(words.build_arg),
        uses_cache=not words.no_cache,
        network=networds.network(words),
        runtime=options.runtime(words.runtime),
    )
    with Paddock() as paddock:
        if words.locked:
            request = replace(request, locked=buildlocks.read(lock, written(paddock)))
        made = shown(paddock.templates.start_build(request))
        if words.lock and not words.locked:
            buildlocks.write(lock, made.lock, written(paddock))
    print(json.dumps(codec.to_wire(made), indent=2) if words.json else f"{made.name}:{made.tag}")
    return 0


def ready(paddock: Paddock, template: str) -> None:
    """A template that comes with Paddock is built at its first use, and what goes on is shown."""
    if is_path(template):
        return
    if build := paddock.templates.made_ready(template):
        print(f"building the template {template}, once", file=sys.stderr)
        shown(build)


def shown(build: Build) -> BuildInfo:
    """Follow a build to its end. TRUST: what its commands write is a box's; lines are neutralised one by one."""
    teller = _Teller()
    with build:
        for event in build.events():
            teller.tell(event)
        teller.end()
        assert build.result is not None
        return build.result


class _Teller:
    def __init__(self) -> None:
        self._rest = b""

    def tell(self, event: BuildEvent) -> None:
        if event.kind == "output":
            *lines, self._rest = (self._rest + event.data).replace(b"\r", b"\n").split(b"\n")
            self._rest = self._rest[-_LINE_CHARS:]
            for line in lines:
                _say(line)
            return
        self.end()
        number = f"[{event.number}] " if event.number else ""
        at = f"line {event.line}: " if event.line else ""
        cached = " (cached)" if event.cached else ""
        print(f"{number}{at}{text.neutralise(event.words, _LINE_CHARS)}{cached}", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._rest:
            _say(self._rest)
        self._rest = b""


def _say(line: bytes) -> None:
    if line.strip():
        words = text.neutralise(line.decode("utf-8", "replace"), _LINE_CHARS)
        print(f"    {words}", file=sys.stderr, flush=True)


def _arguments(words: list[str]) -> dict[str, str]:
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name:
            raise UserError(f"{word!r} is no build argument", hint="K=V, or K for yours", code="usage")
        if not equals:
            if name not in os.environ:
                continue  # as Docker does: the Dockerfile's own default holds
            value = os.environ[name]
        found[name] = value
    return found
