"""What is written down of a secret: its name, where it may go and where its value comes from, never the value."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass

from paddock import codec
from paddock.errors import Unavailable, UserError
from paddock.secrets.binding import Binding, check_name


class Kind(enum.Enum):
    STORED = "stored"
    ENV = "env"
    COMMAND = "command"
    FILE = "file"


class Backend(enum.Enum):
    """Who keeps a stored value."""

    KEYRING = "keyring"
    FILE = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where the value comes from: `words` are a slot, a variable, a program and its arguments, or a path."""

    kind: Kind
    words: tuple[str, ...]
    backend: Backend | None = None  # of a stored one

    def __post_init__(self) -> None:
        if not self.words or (len(self.words) > 1 and self.kind is not Kind.COMMAND):
            raise UserError("a source of a secret is incomplete", code="bad-source")
        if (self.backend is None) == (self.kind is Kind.STORED):
            raise UserError("only a stored secret has a backend", code="bad-source")

    def shown(self) -> str:
        """For people. Of a command its program alone: people write passwords in arguments."""
        match self.kind:
            case Kind.STORED:
                return "keyring" if self.backend is Backend.KEYRING else "stored file"
            case Kind.ENV:
                return f"env {self.words[0]}"
            case Kind.COMMAND:
                return f"command {self.words[0]}"
            case Kind.FILE:
                return f"file {self.words[0]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    name: str
    binding: Binding
    source: Source
    created: str  # UTC, ISO 8601
    changed: str

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.binding.name != self.name:
            raise UserError(f"the record of '{self.name}' binds another secret", code="bad-record")


def encode(record: Record) -> bytes:
    return json.dumps(codec.to_wire(record), indent=1).encode() + b"\n"


def decode(data: bytes, path: str) -> Record:
    try:
        return codec.from_wire(Record, json.loads(data))
    except (ValueError, RecursionError, UserError) as error:
        raise Unavailable(
            f"{path} is damaged: {error}",
            hint="`paddock secret rm` removes it; then set it again",
            code="secret-record",
        ) from error
