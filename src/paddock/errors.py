"""The error tree: what went wrong, for whom, and what to do next.

One base class and one level below it. `code` is a stable word for programs, `hint` the next step for people. A command
that exits 1 inside a box is a result and never an exception.
"""

from __future__ import annotations


class PaddockError(Exception):
    """Base of everything this package raises on purpose."""

    exit_code = 125
    kind = "error"

    def __init__(self, message: str, *, hint: str = "", code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code or self.kind

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.code}: {self.message}>"

    def to_wire(self) -> dict[str, str]:
        return {"kind": self.kind, "code": self.code, "message": self.message, "hint": self.hint}


class UserError(PaddockError):
    """The caller asked for something that cannot be, or is unsafe; nothing was created."""

    exit_code = 2
    kind = "user"


class Denied(PaddockError):
    """Policy refused; the message names the rule."""

    exit_code = 77
    kind = "denied"


class Unavailable(PaddockError):
    """The box, the daemon or the machine cannot do it now; the message names the piece that broke."""

    exit_code = 125
    kind = "unavailable"


_KINDS: dict[str, type[PaddockError]] = {c.kind: c for c in (UserError, Denied, Unavailable)}


def from_wire(data: object) -> PaddockError:
    """Rebuild an error sent by the daemon; anything malformed becomes Unavailable."""
    if not isinstance(data, dict):
        return Unavailable("the daemon sent a malformed error", code="protocol")
    text = {key: value for key, value in data.items() if isinstance(value, str)}
    cls = _KINDS.get(text.get("kind", ""), Unavailable)
    message = text.get("message", "unknown error")
    return cls(message, hint=text.get("hint", ""), code=text.get("code", ""))
