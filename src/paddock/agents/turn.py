"""One run of an agent, as its user says it, and the command line that it becomes.

What is said after `--`: flags that give full permissions are on already and dropped; --continue and --resume ID mean
the same for every agent; other flags are the agent's own, a value of one is written --flag=value unless the definition
knows that it takes one; the one word that is left is the prompt.
"""

from __future__ import annotations

from dataclasses import dataclass

from paddock.errors import UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.agents.definition import Agent, Words

LAST = "last"
_ALWAYS_ON = frozenset({"--dsp", "--yolo"})
_PROMPT_BYTES = 120 * 1024  # the kernel takes 128 KiB in a word


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    words: tuple[str, ...] = ()  # the agent's own flags
    prompt: str = ""
    headless: bool = False
    ask: bool = False  # the agent asks before it acts
    model: str = ""
    json: bool = False  # its machine output
    resume: str = ""  # LAST, or the id of a conversation
    stuck_after_s: float | None = None  # silence after which it is ended; None: as its definition says, 0: never

    def __post_init__(self) -> None:
        if len(self.prompt.encode("utf-8", "surrogateescape")) > _PROMPT_BYTES:
            hint = "put it into a file of the workspace, and ask the agent to read that"
            raise UserError(f"the prompt is over {_PROMPT_BYTES // 1024} KiB", hint=hint, code="bad-prompt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What the words after `--` say."""

    words: tuple[str, ...] = ()
    prompt: str | None = None
    resume: str = ""


def split(agent: Agent, given: Sequence[str]) -> Said:
    if agent.plain:
        return Said(words=tuple(given))
    rest = list(given)
    flags: list[str] = []
    bare: list[str] = []
    resume = ""
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if word == "--":
            bare += rest
            break
        if not word.startswith("-") or word == "-":
            bare.append(word)
        elif name in _ALWAYS_ON or name in agent.flags.full:
            continue
        elif word == "--continue":
            resume = LAST
        elif name == "--resume" and (equals or (rest and not rest[0].startswith("-"))):
            resume = value if equals else rest.pop(0)
        else:
            flags.append(word)
            if word in agent.flags.values and rest:
                flags.append(rest.pop(0))
    if len(bare) > 1:
        raise UserError(
            f"{len(bare)} words are left for a prompt: {bare[0][:40]!r}, {bare[1][:40]!r}",
            hint="put the prompt into quotes, and write values of flags as --flag=value; "
            f"a command of {agent.program} itself runs with `paddock exec BOX {agent.program} ...`",
            code="bad-prompt",
        )
    return Said(words=tuple(flags), prompt=bare[0] if bare else None, resume=resume)


def compose(agent: Agent, turn: Turn) -> tuple[str, ...]:
    """Its words, without the program."""
    mode = agent.headless if turn.headless else agent.interactive
    if agent.plain:
        return (*mode.argv, *turn.words)
    if not mode.argv and turn.headless:
        raise UserError(f"{agent.name} works on a terminal only", hint="run it in one", code="no-headless")
    if turn.headless and not turn.prompt.strip():
        raise empty_prompt(agent.name)
    said = {
        "{full}": _words(agent, mode, "ask" if turn.ask else "full"),
        "{model}": _filled(agent, mode, "model", turn.model),
        "{continue}": _resumed(agent, mode, turn.resume),
        "{json}": _words(agent, mode, "json") if turn.json else (),
        "{args}": turn.words,
        "{prompt}": _filled(agent, mode, "prompt", turn.prompt),
    }
    composed: list[str] = []
    for word in mode.argv:
        composed += said.get(word, (word,))
    for name, words in said.items():
        if words and name not in mode.argv:
            raise _cannot(agent, name.strip("{}"))
    return tuple(composed)


def empty_prompt(agent: str) -> UserError:
    hint = f'`paddock run {agent} . -- "what to do"`, --prompt-file FILE, or standard input'
    return UserError("there is no prompt, and no terminal to ask for one", hint=hint, code="no-prompt")


def _resumed(agent: Agent, mode: Words, resume: str) -> tuple[str, ...]:
    return _words(agent, mode, "go_on") if resume == LAST else _filled(agent, mode, "resume", resume)


def _filled(agent: Agent, mode: Words, key: str, value: str) -> tuple[str, ...]:
    return tuple(word.replace("{}", value) for word in _words(agent, mode, key)) if value else ()


def _words(agent: Agent, mode: Words, key: str) -> tuple[str, ...]:
    """In this mode; UserError when it has none for that."""
    words = agent.words_of(mode, key)
    if words is None and key not in {"ask", "full"}:
        raise _cannot(agent, key)
    return words or ()


def _cannot(agent: Agent, what: str) -> UserError:
    message = _UNABLE.get(what, f"{agent.name} has no way to say {what!r}")
    return UserError(message.format(agent=agent.name), hint=f"`paddock agent show {agent.name}`", code="no-word")


_UNABLE = {
    "model": "the model of {agent} cannot be given on its command line",
    "go_on": "{agent} cannot continue a conversation here",
    "continue": "{agent} cannot continue a conversation here",
    "resume": "{agent} cannot take up a conversation by its id here",
    "json": "{agent} has no machine output here",
    "prompt": "{agent} takes no prompt here",
    "args": "{agent} takes no other flags here",
}
