"""A Dockerfile as stages of instructions: parsed whole before anything runs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from paddock.errors import UserError
from paddock.images import dockerlines
from paddock.images.dockerlines import wrong
from paddock.images.instructions import Arg, Copy, From, Instruction, parse
from paddock.text import neutralise

# The language of BuildKit's own frontend; `labs` has more, and any other image is another language.
_SYNTAX: Final = re.compile(r"(?:docker\.io/)?docker/dockerfile:1(?:\.\d+){0,2}(?:@sha256:[0-9a-f]{64})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    index: int
    base: From
    instructions: tuple[Instruction, ...]

    @property
    def name(self) -> str:
        return self.base.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Dockerfile:
    escape: str
    arguments: tuple[Arg, ...]  # before the first FROM, and for those alone
    stages: tuple[Stage, ...]

    def stage(self, name: str) -> Stage:
        """A stage by name or number, as --target gives it."""
        for stage in self.stages:
            if name and name.lower() in {stage.name, str(stage.index)}:
                return stage
        raise UserError(f"the Dockerfile has no stage {neutralise(name)!r}", code="dockerfile")

    def needed(self, target: Stage) -> tuple[Stage, ...]:
        """The stages that a target is built from, in their order, itself last."""
        wanted = {target.index}
        for stage in reversed(self.stages[: target.index + 1]):
            if stage.index in wanted:
                wanted |= {before.index for before in self.stages[: stage.index] if _uses(stage, before)}
        return tuple(stage for stage in self.stages if stage.index in wanted)


def read(data: bytes) -> Dockerfile:
    """Parse a Dockerfile, or UserError that names the line."""
    lines = dockerlines.read(data)
    if lines.syntax and not _SYNTAX.fullmatch(lines.syntax):
        raise wrong(1, f"the syntax {lines.syntax} is not supported", "docker/dockerfile:1 is")
    arguments: list[Arg] = []
    found: list[tuple[From, list[Instruction]]] = []
    for line in lines.lines:
        instruction = parse(line, lines.escape)
        if isinstance(instruction, From):
            _check_name(instruction, [base for base, _ in found])
            found.append((instruction, []))
        elif found:
            found[-1][1].append(instruction)
        elif isinstance(instruction, Arg):
            arguments.append(instruction)
        else:
            raise wrong(line.number, "only ARG may come before the first FROM")
    if not found:
        raise UserError("the Dockerfile has no FROM", code="dockerfile")
    stages = tuple(Stage(index=n, base=base, instructions=tuple(rest)) for n, (base, rest) in enumerate(found))
    return Dockerfile(escape=lines.escape, arguments=tuple(arguments), stages=stages)


def _check_name(base: From, before: list[From]) -> None:
    if base.name and any(base.name == other.name for other in before):
        raise wrong(base.line, f"there is a stage {base.name} already")


def _uses(stage: Stage, other: Stage) -> bool:
    names = {other.name, str(other.index)} - {""}
    if stage.base.image.lower() == other.name != "":
        return True
    copies = [item for item in stage.instructions if isinstance(item, Copy)]
    return any(item.source_stage.lower() in names for item in copies)
