"""One of a thing for each kind of boxes: what a test leaves in it, the same test of another kind never meets."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeVar

from tests.support import contract

if TYPE_CHECKING:
    from collections.abc import Callable


class Closing(Protocol):
    def close(self) -> None: ...


T = TypeVar("T", bound=Closing)


class PerKind(Generic[T]):
    """`make` is told a kind when the first test of that kind asks; all are closed together."""

    def __init__(self, make: Callable[[str], T]) -> None:
        self._make = make
        self._made: dict[str, T] = {}
        self._closing = ExitStack()

    def __repr__(self) -> str:
        return f"<PerKind {sorted(self._made)}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def get(self) -> T:
        """That of the test that runs."""
        kind = contract.current().name
        if kind not in self._made:
            self._made[kind] = self._make(kind)
            self._closing.callback(self._made[kind].close)
        return self._made[kind]
