"""What stands for the SDK in tests of commands: it is called and entered as Paddock is, and is all that comes of it."""

from __future__ import annotations

from typing import Self


class Opened:
    def __call__(self) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass
