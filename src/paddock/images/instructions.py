"""The instructions of a Dockerfile as values, and how each is read from its line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from paddock.images.dockerlines import Heredoc, Line, wrong
from paddock.images.documents import is_whole
from paddock.images.substitution import Unsupported, expand, expand_heredoc, split
from paddock.limits import DOCKERFILE_INSTRUCTIONS_MAX, DOCKERFILE_VALUES_BYTES

_STAGE_NAME: Final = re.compile(r"[a-z][a-z0-9._-]*")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FLAG: Final = re.compile(r"--([a-z][a-z-]*)(?:=(.*))?", re.DOTALL)
_REMOTE: Final = re.compile(r"https?://|git@|git://|ssh://", re.IGNORECASE)

Pairs: TypeAlias = tuple[tuple[str, str], ...]
Expand: TypeAlias = Callable[[str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Words to execute as they are, or one text for the shell."""

    words: tuple[str, ...]
    is_shell: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class From:
    line: int
    image: str
    name: str = ""
    platform: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    line: int
    command: Command
    heredocs: tuple[Heredoc, ...] = ()
    network: str = "default"  # or "none"

    @property
    def is_script(self) -> bool:
        """Whether all of it is one here-document: a script, whose first line may name its interpreter."""
        return len(self.heredocs) == 1 and re.fullmatch(r"<<-?\S+", self.command.words[0]) is not None

    @property
    def shell_text(self) -> str:
        """What the shell is given: the line, and the here-documents that it reads."""
        if self.is_script:
            return self.heredocs[0].text
        bodies = [f"\n{heredoc.content}{heredoc.name}" for heredoc in self.heredocs]
        return self.command.words[0] + "".join(bodies)


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """COPY, and ADD, which unpacks local archives too."""

    line: int
    sources: tuple[str, ...]
    target: str
    is_add: bool = False
    source_stage: str = ""  # a stage by name or number, or an image
    chown: str = ""
    chmod: str = ""
    heredocs: tuple[Heredoc, ...] = ()  # files whose content is in the Dockerfile, beside the sources


@dataclass(frozen=True, slots=True, kw_only=True)
class Env:
    line: int
    pairs: Pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    line: int
    pairs: Pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Arg:
    line: int
    defaults: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """WORKDIR, USER or STOPSIGNAL: one word."""

    line: int
    keyword: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """EXPOSE or VOLUME."""

    line: int
    keyword: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """CMD, ENTRYPOINT, SHELL or HEALTHCHECK; of the last the options are dropped, since nothing here runs it."""

    line: int
    keyword: str
    command: Command


Instruction: TypeAlias = From | Run | Copy | Env | Label | Arg | Setting | Listing | Start


def parse(line: Line, escape: str) -> Instruction:
    """One instruction, variables still in it; UserError with the line for what is wrong or not supported."""
    keyword, _, rest = line.text.partition(" ")
    if "\t" in keyword:
        keyword, _, rest = line.text.partition("\t")
    keyword = keyword.upper()
    reader = _READERS.get(keyword)
    if reader is None:
        if keyword in _UNSUPPORTED:
            raise wrong(line.number, f"{keyword} is not supported", _UNSUPPORTED[keyword])
        raise wrong(line.number, f"unknown instruction {keyword[:40]}", "check the spelling")
    arguments = _Arguments(line, keyword, rest.strip(), escape)
    if not arguments.rest:
        raise wrong(line.number, f"{keyword} has no argument")
    return reader(arguments)


def expanded(instruction: Instruction, variables: Mapping[str, str], escape: str = "\\") -> Instruction:
    """The instruction with its variables, where Dockerfiles have them: not in RUN, CMD, ENTRYPOINT and SHELL."""
    spent = 0

    def counted(value: str) -> str:
        nonlocal spent
        spent += len(value)
        if spent > DOCKERFILE_VALUES_BYTES:
            raise Unsupported("its values grow too long")
        return value

    try:
        return _expanded(
            instruction,
            lambda text: counted(expand(text, variables, escape)),
            lambda text: counted(expand_heredoc(text, variables)),
        )
    except Unsupported as error:
        raise wrong(instruction.line, str(error)) from None


def _expanded(instruction: Instruction, expand: Expand, expand_body: Expand) -> Instruction:
    match instruction:
        case From(image=image, platform=platform):
            return replace(instruction, image=expand(image), platform=expand(platform))
        case Copy(sources=sources, target=target, chown=chown, chmod=chmod, heredocs=heredocs):
            bodies = tuple(
                replace(item, content=expand_body(item.content)) if item.is_expanded else item for item in heredocs
            )
            return replace(
                instruction,
                sources=tuple(map(expand, sources)),
                target=expand(target),
                chown=expand(chown),
                chmod=expand(chmod),
                heredocs=bodies,
            )
        case Env(pairs=pairs) | Label(pairs=pairs):
            return replace(instruction, pairs=tuple((expand(key), expand(value)) for key, value in pairs))
        case Arg(defaults=defaults):
            return replace(
                instruction, defaults=tuple((key, None if value is None else expand(value)) for key, value in defaults)
            )
        case Setting(value=value):
            return replace(instruction, value=expand(value))
        case Listing(values=values):
            return replace(instruction, values=tuple(map(expand, values)))
        case Run() | Start():
            return instruction


class _Arguments:
    """What follows the keyword: flags first, then the rest."""

    def __init__(self, line: Line, keyword: str, rest: str, escape: str) -> None:
        self.line = line
        self.keyword = keyword
        self.escape = escape
        self.flags: dict[str, str] = {}
        while match := re.match(r"--\S*(?:\s+|$)", rest):
            self._flag(match[0].strip())
            rest = rest[match.end() :]
        self.rest = rest

    def _flag(self, word: str) -> None:
        match = _FLAG.fullmatch(word)
        known = _FLAGS.get(self.keyword, frozenset())
        if match is None or match[1] not in known:
            raise self.wrong(f"{self.keyword} {word} is not supported", _flag_hint(self.keyword, word))
        if match[1] in self.flags:
            raise self.wrong(f"--{match[1]} is given twice")
        self.flags[match[1]] = match[2] or ""

    def wrong(self, message: str, hint: str = "") -> Exception:
        return wrong(self.line.number, message, hint)

    def json(self) -> tuple[str, ...] | None:
        """The rest as a JSON list of strings; None if it is none, which then is text for a shell."""
        if not self.rest.startswith("["):
            return None
        try:
            value = json.loads(self.rest)
        except (ValueError, RecursionError):
            return None
        if not all(isinstance(item, str) for item in value):
            return None
        if not all(map(is_whole, value)):  # JSON has more than the file itself may have
            raise self.wrong("a word has a zero byte or half a character, which no program can be given")
        return tuple(value)

    def words(self) -> tuple[str, ...]:
        found = self.json()
        return tuple(split(self.rest, self.escape)) if found is None else found

    def command(self) -> Command:
        words = self.json()
        return Command(words=(self.rest,), is_shell=True) if words is None else Command(words=words, is_shell=False)


def _from(args: _Arguments) -> From:
    words = args.rest.split()
    if len(words) not in {1, 3} or (len(words) == 3 and words[1].lower() != "as"):
        raise args.wrong("FROM takes an image, or an image AS a name")
    name = words[2].lower() if len(words) == 3 else ""
    if name and not _STAGE_NAME.fullmatch(name):
        raise args.wrong(f"{words[2]} cannot be the name of a stage")
    return From(line=args.line.number, image=words[0], name=name, platform=args.flags.get("platform", ""))


def _run(args: _Arguments) -> Run:
    network = args.flags.get("network", "default")
    if network not in {"default", "none"}:
        raise args.wrong(f"RUN --network={network} is not supported", "the network of a build is that of its policy")
    command = args.command()
    if not command.words:
        raise args.wrong("RUN has no argument")
    return Run(line=args.line.number, command=command, heredocs=args.line.heredocs, network=network)


def _copy(args: _Arguments) -> Copy:
    is_add = args.keyword == "ADD"
    *sources, target = args.words() or ("",)
    sources = [source for source in sources if not (args.line.heredocs and source.startswith("<<"))]
    many = len(sources) + len(args.line.heredocs)
    if not many or not target:
        raise args.wrong(f"{args.keyword} takes at least one source and a destination")
    if many > 1 and not target.endswith("/") and "$" not in target:
        raise args.wrong(f"{args.keyword} of several sources needs a destination that ends with /")
    if many > DOCKERFILE_INSTRUCTIONS_MAX:
        raise args.wrong(f"{args.keyword} takes at most {DOCKERFILE_INSTRUCTIONS_MAX} sources", "name a directory")
    if is_add and any(_REMOTE.match(source) for source in sources):
        raise args.wrong("ADD from the network is not supported", "use RUN with curl or git")
    return Copy(
        line=args.line.number,
        sources=tuple(sources),
        target=target,
        is_add=is_add,
        source_stage=args.flags.get("from", ""),
        chown=args.flags.get("chown", ""),
        chmod=args.flags.get("chmod", ""),
        heredocs=args.line.heredocs,
    )


def _pairs(args: _Arguments) -> Pairs:
    words = split(args.rest, args.escape)
    if "=" not in words[0]:  # the old form: a name, and all that follows is its value
        name, *value = re.split(r"[ \t]+", args.rest, maxsplit=1)
        if not value:
            raise args.wrong(f"{args.keyword} takes name=value")
        return ((name, value[0]),)
    for word in words:
        if "=" not in word or word.startswith("="):
            raise args.wrong(f"{word} is not name=value")
    return tuple((name, value) for name, _, value in (word.partition("=") for word in words))


def _arg(args: _Arguments) -> Arg:
    defaults = []
    for word in split(args.rest, args.escape):
        name, equals, value = word.partition("=")
        if not _VARIABLE.fullmatch(name):
            raise args.wrong(f"{name} cannot be the name of an ARG")
        defaults.append((name, value if equals else None))
    return Arg(line=args.line.number, defaults=tuple(defaults))


def _setting(args: _Arguments) -> Setting:
    if args.keyword != "WORKDIR" and len(split(args.rest, args.escape)) != 1:
        raise args.wrong(f"{args.keyword} takes one argument")
    return Setting(line=args.line.number, keyword=args.keyword, value=args.rest)


def _start(args: _Arguments) -> Start:
    return Start(line=args.line.number, keyword=args.keyword, command=args.command())


def _shell(args: _Arguments) -> Start:
    words = args.json()
    if not words:
        raise args.wrong('SHELL takes a JSON list: SHELL ["/bin/bash", "-c"]')
    return Start(line=args.line.number, keyword="SHELL", command=Command(words=words, is_shell=False))


def _listing(args: _Arguments) -> Listing:
    return Listing(line=args.line.number, keyword=args.keyword, values=args.words())


def _maintainer(args: _Arguments) -> Label:
    return Label(line=args.line.number, pairs=(("maintainer", f"'{args.rest}'"),))


_READERS: Final[dict[str, Callable[[_Arguments], Instruction]]] = {
    "FROM": _from,
    "RUN": _run,
    "COPY": _copy,
    "ADD": _copy,
    "ENV": lambda args: Env(line=args.line.number, pairs=_pairs(args)),
    "LABEL": lambda args: Label(line=args.line.number, pairs=_pairs(args)),
    "MAINTAINER": _maintainer,
    "ARG": _arg,
    "WORKDIR": _setting,
    "USER": _setting,
    "STOPSIGNAL": _setting,
    "EXPOSE": _listing,
    "VOLUME": _listing,
    "CMD": _start,
    "ENTRYPOINT": _start,
    "HEALTHCHECK": _start,
    "SHELL": _shell,
}
# --link says how a layer is made, which makes no difference to what is in it.
_FLAGS: Final = {
    "FROM": frozenset({"platform"}),
    "RUN": frozenset({"network"}),
    "COPY": frozenset({"from", "chown", "chmod", "link"}),
    "ADD": frozenset({"chown", "chmod", "link"}),
    "HEALTHCHECK": frozenset({"interval", "timeout", "start-period", "start-interval", "retries"}),
}
_UNSUPPORTED: Final = {"ONBUILD": "write its instruction into the Dockerfile that builds on this one"}


def _flag_hint(keyword: str, word: str) -> str:
    if keyword == "RUN" and word.startswith("--mount"):
        return "copy what is needed, and remove it in the same RUN; secrets come from the gateway"
    return f"supported: {', '.join(f'--{name}' for name in sorted(_FLAGS.get(keyword, ()))) or 'none'}"
