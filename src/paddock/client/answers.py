"""What the daemon and a box's init say, parsed into values: hostile bytes in, dataclasses or errors out."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from paddock import frames
from paddock.errors import PaddockError, Unavailable, UserError
from paddock.limits import FRAME_DATA_BYTES
from paddock.model import BoxRequest, Budget, ExecResult, Limits, Network

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.client.reply import Frame
    from paddock.frames import Message
    from paddock.model import Mount, SecretUse


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    pid: int
    tty: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A file of the box. Names that are not UTF-8 carry surrogate escapes, as in the os module."""

    path: str
    kind: str
    size: int
    mode: int
    mtime: float
    link: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    kind: str
    path: str


_CODE_MAX, _SIGNALS = 255, 65
_EXIT_CODES = {"not-found": 127, "not-executable": 126, "bad-cwd": 126, "limit": 126}
_LIMIT_HINTS = {  # by how a reason begins: what its user can do
    "memory limit": "allow the box more with --memory",
    "disk limit": "allow the box more with --disk",
    "wall time limit": "allow the box more with --timeout",
    "host memory": "free some memory, or allow boxes less with --memory",
    "the host's disk": "free some disk space",
    "the budget of": "allow the box more with --max-cost, --max-tokens or --max-requests",
}


def message(frame: Frame | None) -> Message:
    if frame is None:
        raise hung_up()
    if frame[0] != frames.MESSAGE:
        raise Unavailable("the box sent bytes out of turn", code="protocol")
    value = frames.decode_message(frame[1])
    if value.get("event") == "error":
        raise refusal(value)
    return value


def hung_up() -> Unavailable:
    return Unavailable("the box hung up", hint="run the command again", code="gone")


def refusal(value: Message) -> PaddockError:
    code = str(value.get("code"))[:40]
    hint = "end some of its processes; `paddock inspect` shows its limits" if code == "limit" else ""
    error = UserError(str(value.get("message"))[:400], hint=hint, code=code)
    error.exit_code = _EXIT_CODES.get(code, UserError.exit_code)
    return error


def limit_hint(reason: str) -> str:
    return next((hint for start, hint in _LIMIT_HINTS.items() if reason.startswith(start)), "")


def check_applied(name: str, changes: int) -> None:
    """UserError if a review box that is to be removed holds changes that are nowhere else."""
    if changes:
        what = "1 change that is" if changes == 1 else f"{changes} changes that are"
        hint = f"`paddock diff {name}` shows them, `paddock apply {name}` brings them home, `paddock rm -f` drops them"
        raise UserError(f"the box {name!r} has {what} not applied", hint=hint, code="unapplied")


def started(frame: Frame) -> Started:
    value = message(frame)
    return Started(pid=_int(value, "pid"), tty=value.get("tty") is True)


def exited(payload: bytes) -> ExecResult:
    value = message((frames.MESSAGE, payload))
    if value.get("event") != "exit":
        raise Unavailable("the box sent a message out of turn", code="protocol")
    code, number = _int(value, "code"), value.get("signal")
    if not 0 <= code <= _CODE_MAX:
        raise Unavailable("a malformed answer: code is no exit code", code="protocol")
    return ExecResult(
        exit_code=code,
        signal=number if type(number) is int and 0 < number < _SIGNALS else None,
        timed_out=value.get("timed_out") is True,
    )


def ended(result: ExecResult, stdout: bytes, stderr: bytes) -> ExecResult:
    return replace(result, stdout=stdout, stderr=stderr)


def entry(value: object) -> Entry:
    row = expect_object(value)
    return Entry(
        path=str(row.get("path")),
        kind=str(row.get("kind")),
        size=_int(row, "size"),
        mode=_int(row, "mode") & 0o7777,
        mtime=_time(row.get("mtime")),
        link=str(row.get("link", "")),
    )


def output_of(frame: Frame) -> Frame:
    """A piece of a command's output, or Unavailable."""
    if frame[0] not in {frames.STDOUT, frames.STDERR}:
        raise Unavailable("the box sent bytes out of turn", code="protocol")
    return frame


def change(value: Message) -> Change:
    if value.get("event") == "overflow":
        return Change(kind="overflow", path="")
    return Change(kind=str(value.get("kind")), path=str(value.get("path")))


def expect_object(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise Unavailable("a malformed answer: not an object", code="protocol")
    return value


def expect_list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise Unavailable("a malformed answer: not a list", code="protocol")
    return value


def one_channel(fds: list[int]) -> int:
    if len(fds) != 1:
        for fd in fds:
            os.close(fd)
        raise Unavailable("the daemon sent no channel", code="protocol")
    return fds[0]


def own_values(answer: object) -> dict[str, str] | None:
    """What the daemon asks for before it starts a command, of our environment; None if it does not ask."""
    wants = answer.get("wants") if isinstance(answer, dict) else None
    if not isinstance(wants, dict):
        return None
    return {str(name): value for name, variable in wants.items() if (value := os.environ.get(str(variable)))}


def stdin_frames(data: bytes) -> bytes:
    """All of a command's input, and its end."""
    out = bytearray()
    for offset in range(0, len(data), FRAME_DATA_BYTES):
        out += frames.encode(frames.STDIN, data[offset : offset + FRAME_DATA_BYTES])
    out += frames.encode(frames.STDIN, b"")
    return bytes(out)


def box_request(
    *,
    workspace: str,
    name: str = "",
    agent: str = "shell",
    env: dict[str, str] | None = None,
    mounts: Sequence[Mount] = (),
    limits: Limits | None = None,
    network: Network | None = None,
    ephemeral: bool = False,
    secrets: tuple[SecretUse, ...] = (),
    budget: Budget | None = None,
) -> BoxRequest:
    """A request in the caller's name: relative paths are the caller's, and so is PATH."""
    return BoxRequest(
        agent=agent,
        name=name,
        workspace=os.path.abspath(workspace),
        mounts=tuple(mounts),
        env=env or {},
        limits=limits or Limits(),
        network=network or Network(),
        ephemeral=ephemeral,
        caller_path=os.environ.get("PATH", ""),
        secrets=secrets,
        budget=budget or Budget(),
    )


def rooted(request: BoxRequest, template: str, engine: str, runtime: str) -> BoxRequest:
    """With a template, a container; a place is told from a name by how it is written, and is the caller's."""
    if not (template or engine or runtime):
        return request
    from paddock.model import EngineName
    from paddock.model.reference import is_path

    try:
        kind = EngineName(engine or ("container" if template else "process"))
    except ValueError as error:
        known = ", ".join(name.value for name in EngineName)
        raise UserError(f"there is no engine {engine!r}", hint=f"one of: {known}", code="no-engine") from error
    place = os.path.abspath(os.path.expanduser(template)) if is_path(template) else template
    return replace(request, engine=kind, template=place, runtime=runtime)


def _time(value: object) -> float:
    """A huge integer has no float."""
    return float(value) if isinstance(value, (int, float)) and abs(value) < 1 << 62 else 0.0


def _int(row: dict[str, object], key: str) -> int:
    value = row.get(key)
    if type(value) is not int:
        raise Unavailable(f"a malformed answer: {key} is no number", code="protocol")
    return value
