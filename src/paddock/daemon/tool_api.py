"""The daemon's verb about tools; who installs and removes them does it in a process of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from paddock.daemon.answer import Answer
from paddock.runtime import tooling

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from paddock.runtime import Runtime

    Verb = Callable[[Runtime, Any], Awaitable[Answer]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    tree: str


async def users(runtime: Runtime, args: Tree) -> Answer:
    return Answer(items=tooling.users(runtime.boxes.values(), args.tree))


VERBS: dict[str, tuple[type, Verb]] = {"tool_users": (Tree, users)}
