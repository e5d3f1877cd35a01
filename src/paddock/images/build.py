"""A Dockerfile carried out: its stages as chains of layers, one for each step that changes files.

Theory. What an instruction does to files is a step, a value that says all that its outcome hangs on; a Ground
makes a layer of it, by a box or by unpacking. A step's key is the sum of the step and of the key before it, so a layer
that was made for the same key is the same layer and is not made again. All other instructions change the configuration
that the image has in the end, and that the next steps run by.
"""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import re
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol, assert_never

from paddock.errors import UserError
from paddock.images.dockerlines import wrong
from paddock.images.documents import ImageConfig, digest_of, env_pairs, is_whole
from paddock.images.instructions import Arg, Copy, Env, From, Label, Listing, Run, Setting, Start, expanded
from paddock.images.layers import LayerId
from paddock.images.oci import own_architecture
from paddock.limits import DOCKERFILE_INSTRUCTIONS_MAX, DOCKERFILE_VALUES_BYTES, IMAGE_WORDS_BYTES
from paddock.text import neutralise

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paddock.images.dockerfile import Dockerfile, Stage
    from paddock.images.instructions import Command, Instruction

_SHELL: Final = ("/bin/sh", "-c")
_MODE: Final = re.compile(r"0?[0-7]{3,4}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """An image as far as it is built; `key` says what it was built from."""

    chain: tuple[LayerId, ...]
    config: ImageConfig
    key: str

    @property
    def digest(self) -> str:
        """Its key says nothing of what was configured after the last step."""
        return digest_of(self.key.encode() + self.config.to_json())


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStep:
    line: int
    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    workdir: str
    user: str
    has_network: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyStep:
    line: int
    copy: Copy  # without variables
    target: str  # absolute
    source: Built | None = None  # what it copies from, where that is not the build directory


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryStep:
    """WORKDIR, which makes what is missing."""

    line: int
    path: str
    user: str


Step = RunStep | CopyStep | DirectoryStep


class Ground(Protocol):
    """Who has images, boxes, the build directory and the cache."""

    def image(self, name: str, line: int) -> Built: ...

    def content(self, step: CopyStep) -> str:
        """The sum of what a COPY takes."""

    def cached(self, key: str) -> LayerId | None: ...

    def make(self, below: Built, step: Step, key: str) -> LayerId:
        """The layer that a step makes above `below`, in the cache by now; UserError with its line if it fails."""

    def told(self, line: int, words: str, *, cached: bool) -> None:
        """Progress: a step begins."""

    def done(self, line: int, key: str) -> None:
        """It has ended."""


def build(
    dockerfile: Dockerfile, ground: Ground, target: str = "", arguments: Mapping[str, str] | None = None
) -> Built:
    """The image of a stage, the last one unless `target` names another; `arguments` are --build-arg's."""
    wanted = _wanted(dockerfile, target)
    given = dict(arguments or {})
    _check_given(dockerfile, given)
    known = _defaults(dockerfile, given)
    built: dict[str, Built] = {}
    for stage in dockerfile.needed(wanted):
        made = _Stage(dockerfile, stage, ground, known, given, built).run()
        built |= dict.fromkeys({stage.name, str(stage.index)} - {""}, made)
    made = built[str(wanted.index)]
    if made.config.words_bytes > IMAGE_WORDS_BYTES:
        what = "its variables, ports, volumes and commands"
        raise UserError(
            f"{what} take more than {IMAGE_WORDS_BYTES} bytes", hint="put some into a file", code="dockerfile"
        )
    return made


def count_steps(dockerfile: Dockerfile, target: str = "") -> int:
    """How many steps a build takes, known before it begins."""
    every = (item for stage in dockerfile.needed(_wanted(dockerfile, target)) for item in stage.instructions)
    return sum(
        isinstance(item, Run | Copy) or (isinstance(item, Setting) and item.keyword == "WORKDIR") for item in every
    )


def _wanted(dockerfile: Dockerfile, target: str) -> Stage:
    return dockerfile.stage(target) if target else dockerfile.stages[-1]


class _Stage:
    def __init__(
        self,
        dockerfile: Dockerfile,
        stage: Stage,
        ground: Ground,
        before: dict[str, str],
        given: dict[str, str],
        built: dict[str, Built],
    ) -> None:
        self._escape = dockerfile.escape
        self._stage = stage
        self._ground = ground
        self._before = before  # of ARGs above the first FROM
        self._given = given
        self._built = built
        self._arguments: dict[str, str] = {}
        self._has_command = False
        self._image = self._base(stage.base)

    def run(self) -> Built:
        for instruction in self._stage.instructions:
            self._do(expanded(instruction, self._variables(), self._escape))
        return self._image

    def _base(self, base: From) -> Built:
        found = expanded(base, self._before, self._escape)
        assert isinstance(found, From)
        if found.platform not in {"", "linux", f"linux/{own_architecture()}"}:
            raise wrong(base.line, f"this machine builds for linux/{own_architecture()} alone")
        if not found.image:
            raise wrong(base.line, "FROM names no image", "an ARG before it has no value: --build-arg")
        if found.image.lower() in self._built and not found.image.isdigit():
            return self._built[found.image.lower()]
        if found.image == "scratch":
            return Built(chain=(), config=ImageConfig(architecture=own_architecture(), diff_ids=()), key="scratch")
        return self._ground.image(found.image, base.line)

    def _variables(self) -> dict[str, str]:
        return {**self._arguments, **env_pairs(self._image.config.env)}

    def _do(self, instruction: Instruction) -> None:
        config = self._image.config
        match instruction:
            case Run():
                self._step(self._run(instruction), f"RUN {instruction.command.words[0]}")
            case Copy():
                self._step(self._copy(instruction), f"COPY {' '.join(instruction.sources)} {instruction.target}")
            case Env(pairs=pairs):
                both = _bounded(instruction.line, {**env_pairs(config.env), **dict(pairs)})
                self._configure(env=tuple(f"{key}={value}" for key, value in both.items()))
            case Label(pairs=pairs):
                self._configure(labels=_bounded(instruction.line, {**config.labels, **dict(pairs)}))
            case Arg(defaults=defaults):
                self._declare(defaults)
                _bounded(instruction.line, self._arguments)
            case Setting():
                self._set(instruction)
            case Listing(keyword=keyword, values=values):
                field = "exposed" if keyword == "EXPOSE" else "volumes"
                both = _bounded(instruction.line, dict.fromkeys((*getattr(config, field), *values), ""))
                self._configure(**{field: tuple(both)})
            case Start():
                self._start(instruction)
            case From():
                raise wrong(instruction.line, "FROM begins a stage")
            case _:
                assert_never(instruction)

    def _configure(self, **changes: object) -> None:
        self._image = replace(self._image, config=replace(self._image.config, **changes))  # type: ignore[arg-type]

    def _declare(self, defaults: tuple[tuple[str, str | None], ...]) -> None:
        for name, default in defaults:
            value = self._given.get(name, self._before.get(name) if default is None else default)
            if value is not None:
                self._arguments[name] = value

    def _set(self, setting: Setting) -> None:
        match setting.keyword:
            case "WORKDIR":
                path = posixpath.normpath(posixpath.join("/", self._image.config.working_dir, setting.value))
                path = f"/{path.lstrip('/')}"
                self._configure(working_dir=path)
                step = DirectoryStep(line=setting.line, path=path, user=self._image.config.user)
                self._step(step, f"WORKDIR {path}")
            case "USER":
                self._configure(user=setting.value)
            case _:
                self._configure(stop_signal=setting.value)

    def _start(self, start: Start) -> None:
        match start.keyword:
            case "SHELL":
                self._configure(shell=start.command.words)
            case "CMD":
                self._has_command = True
                self._configure(cmd=self._words(start.command))
            case "ENTRYPOINT":  # what an image below it would have been given is nothing for this one
                kept = self._image.config.cmd if self._has_command else ()
                self._configure(entrypoint=self._words(start.command), cmd=kept)
            case _:
                pass  # nothing here looks whether a box is well

    def _words(self, command: Command) -> tuple[str, ...]:
        shell = self._image.config.shell or _SHELL
        return (*shell, command.words[0]) if command.is_shell else command.words

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _run(self, run: Run) -> RunStep:
        config = self._image.config
        argv = run.command.words
        if run.command.is_shell:
            if run.is_script and run.heredocs[0].text.startswith("#!"):
                hint = "name it in the line: RUN python3 <<EOF"
                raise wrong(run.line, "a here-document with an interpreter of its own is not supported", hint)
            argv = (*(config.shell or _SHELL), run.shell_text)
        return RunStep(
            line=run.line,
            argv=argv,
            env=tuple(sorted(self._variables().items())),
            workdir=config.working_dir or "/",
            user=config.user,
            has_network=run.network != "none",
        )

    def _copy(self, copy: Copy) -> CopyStep:
        if copy.chmod and not _MODE.fullmatch(copy.chmod):
            raise wrong(copy.line, f"--chmod takes an octal mode, not {neutralise(copy.chmod)!r}")
        target = posixpath.join("/", self._image.config.working_dir, copy.target)
        if copy.target.endswith(("/", "/.")) or copy.target == ".":
            target = f"{posixpath.normpath(target)}/"
        return CopyStep(line=copy.line, copy=copy, target=target, source=self._source(copy))

    def _source(self, copy: Copy) -> Built | None:
        if not copy.source_stage:
            return None
        name = copy.source_stage.lower()
        if name in {self._stage.name, str(self._stage.index)} - {""}:
            raise wrong(copy.line, "a stage cannot copy from itself")
        return self._built.get(name) or self._ground.image(copy.source_stage, copy.line)

    def _step(self, step: Step, words: str) -> None:
        below = self._image
        if isinstance(step, RunStep) and not below.chain:
            raise wrong(step.line, "there is nothing to RUN in an empty image")
        key = _key(below, step, self._ground.content(step) if isinstance(step, CopyStep) else "")
        layer = self._ground.cached(key)
        self._ground.told(step.line, words, cached=layer is not None)
        layer = layer or self._ground.make(below, step, key)
        self._ground.done(step.line, key)
        self._image = replace(below, chain=(*below.chain, layer), key=key)


def _key(below: Built, step: Step, content: str) -> str:
    """Where in the file a step stands does not count."""
    match step:
        case CopyStep(copy=copy, target=target, source=source):
            bodies = [(heredoc.name, heredoc.text) for heredoc in copy.heredocs]
            of = (copy.sources, bodies, source.key if source else "")
            said: object = (target, copy.is_add, copy.chown, copy.chmod, *of)
        case RunStep() | DirectoryStep():
            said = {**asdict(step), "line": 0}
        case _:
            assert_never(step)
    whole = json.dumps([below.key, type(step).__name__, said, content], sort_keys=True)
    return hashlib.sha256(os.fsencode(whole)).hexdigest()


def _bounded(line: int, values: dict[str, str]) -> dict[str, str]:
    """Each line may add to them, and every step is run by all of them."""
    if len(values) > DOCKERFILE_INSTRUCTIONS_MAX:
        raise wrong(line, f"there are more than {DOCKERFILE_INSTRUCTIONS_MAX} of them")
    if sum(len(key) + len(value) for key, value in values.items()) > DOCKERFILE_VALUES_BYTES:
        raise wrong(line, f"together they take more than {DOCKERFILE_VALUES_BYTES} bytes")
    return values


def _defaults(dockerfile: Dockerfile, given: dict[str, str]) -> dict[str, str]:
    """What is known before the first FROM: the platform, and ARGs there."""
    known = {"TARGETOS": "linux", "TARGETARCH": own_architecture(), "TARGETPLATFORM": f"linux/{own_architecture()}"}
    for argument in dockerfile.arguments:
        found = expanded(argument, known, dockerfile.escape)
        assert isinstance(found, Arg)
        for name, default in found.defaults:
            value = given.get(name, default)
            if value is not None:
                known[name] = value
        _bounded(argument.line, known)
    return known


def _check_given(dockerfile: Dockerfile, given: dict[str, str]) -> None:
    every = (*dockerfile.arguments, *(item for stage in dockerfile.stages for item in stage.instructions))
    declared = {name for item in every if isinstance(item, Arg) for name, _ in item.defaults}
    for name, value in given.items():
        if not is_whole(value):
            raise UserError(f"the value of {neutralise(name)!r} is no text", hint="UTF-8 is", code="dockerfile")
        if name not in declared:
            hint = f"declared: {', '.join(sorted(declared))}" if declared else "it declares none"
            raise UserError(f"the Dockerfile has no ARG {neutralise(name)!r}", hint=hint, code="dockerfile")
