"""What the daemon tells of a build, as values (docs/frames.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from paddock import codec, frames
from paddock.errors import Unavailable, from_wire
from paddock.model.build import BuildInfo

if TYPE_CHECKING:
    from paddock.client.reply import Frame

_KINDS = ("base", "step", "note")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildEvent:
    """A step begins, something is worth knowing, or a command of the build wrote some bytes: those are a box's."""

    kind: Literal["base", "step", "note", "output"]
    words: str = ""
    line: int = 0  # of the Dockerfile
    number: int = 0  # of the step
    cached: bool = False
    data: bytes = b""


def read(frame: Frame | None) -> BuildEvent | BuildInfo:
    """Raises what the build failed with."""
    if frame is None:
        raise Unavailable(
            "the daemon ended during the build", hint="build again: it goes on from its last step", code="gone"
        )
    kind, payload = frame
    if kind != frames.MESSAGE:
        return BuildEvent(kind="output", data=payload)
    message = frames.decode_message(payload)
    event = message.get("event")
    if event == "error":
        raise from_wire(message.get("error"))
    if event == "built":
        return codec.from_wire(BuildInfo, message.get("template"))
    for known in _KINDS:
        if event == known:
            return BuildEvent(
                kind=known,  # type: ignore[arg-type]
                words=str(message.get("words") or message.get("text") or ""),
                line=_number(message.get("line")),
                number=_number(message.get("number")),
                cached=message.get("cached") is True,
            )
    raise Unavailable("the daemon told something unknown of a build", code="protocol")


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
