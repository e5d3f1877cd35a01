"""Starting a command: the message init gets, the journal's files, and the first answer read as hostile bytes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
from typing import TYPE_CHECKING, TypeVar

from paddock import frames, limits
from paddock.errors import PaddockError, Unavailable, UserError
from paddock.model import EngineName
from paddock.readiness import within
from paddock.runtime import surroundings

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from paddock.frames import Message
    from paddock.model import ExecSpec, ImageRun, Limits

T = TypeVar("T")
REPLY_TIMEOUT_S = 30.0
_SAID_BYTES = 4096


def new_job_id() -> str:
    return secrets.token_hex(4)


def journal_bytes(wanted: Limits) -> int:
    """A journal lies in the box's own disk: a quarter of a small one, so that it takes turns before it is refused."""
    return min(limits.JOURNAL_BYTES, (wanted.disk_bytes or limits.DISK_BYTES_DEFAULT) // 4)


def start_message(
    spec: ExecSpec,
    job: str,
    env: dict[str, str],
    default_cwd: str,
    journal_bytes: int = limits.JOURNAL_BYTES,
    image: ImageRun | None = None,
) -> Message:
    """`image` is that of a box with a root of its own."""
    kept = spec.keep or spec.detach
    return {
        "op": "start",
        "id": job,
        "argv": list(argv(spec, image)),
        "env": surroundings.fitted(env, spec.env, tty=spec.tty is not None),
        "cwd": os.path.normpath(os.path.join(default_cwd, image.workdir if image and spec.of_image else "", spec.cwd)),
        **(_user(spec.user, image) if image else {}),
        "tty": {"rows": spec.tty.rows, "cols": spec.tty.cols} if spec.tty else None,
        "stdin": spec.stdin,
        "keep": kept,
        "main": spec.main,
        "detached": spec.detach,
        "timeout_s": spec.timeout_s,
        "journal_bytes": journal_bytes if kept else min(journal_bytes, limits.RUN_JOURNAL_BYTES) * spec.journal,
    }


def argv(spec: ExecSpec, image: ImageRun | None) -> tuple[str, ...]:
    """The words of a command; the template's own are known here alone."""
    if not spec.of_image:
        return spec.argv
    words = (*image.entrypoint, *(spec.argv or image.command)) if image else spec.argv
    if not words or not words[0]:
        hint = "`paddock run -t TEMPLATE -- COMMAND`"
        raise UserError("the template has no command of its own", hint=hint, code="no-command")
    return words


def _user(user: str, image: ImageRun) -> Message:
    """Another user than the box's own has a home and a name of its own, which init knows."""
    return {"user": user, "login": True} if user else {"user": image.user}


def check_user(user: str, engine: EngineName = EngineName.PROCESS) -> None:
    """A box with a root of its own knows itself whom it has."""
    if engine is EngineName.PROCESS and user not in {"", "agent"}:
        raise UserError(
            f"a process box has no user {user!r}",
            hint="it has one user, agent; root needs a template: `-t base`",
            code="bad-user",
        )


def journal_paths(directory: str, job: str) -> tuple[str, str]:
    return f"{directory}/journal/{job}.0", f"{directory}/journal/{job}.1"


@contextlib.contextmanager
def journal_files(directory: str, job: str) -> Iterator[list[int]]:
    """Two fresh files for init to write; closed here when it has them, and removed when it never gets them."""
    fds: list[int] = []
    try:
        for path in journal_paths(directory, job):
            fds.append(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        yield fds
    except BaseException:
        for path in journal_paths(directory, job)[: len(fds)]:
            os.unlink(path)
        raise
    finally:
        for fd in fds:
            os.close(fd)


async def send(channel: socket.socket, message: Message, fds: list[int]) -> None:
    """The box may not read: wait without blocking the daemon, but not for ever."""
    data = frames.encode_message(message)
    channel.setblocking(False)
    sent = socket.send_fds(channel, [data], fds) if fds else 0
    if sent < len(data):
        loop = asyncio.get_running_loop()
        await within(loop.sock_sendall(channel, data[sent:]), REPLY_TIMEOUT_S)


async def ask_first(channel: socket.socket) -> Message:
    """The first message of a channel whose request is already sent."""
    return await _answered(_first_message(channel), REPLY_TIMEOUT_S)


async def await_message(channel: socket.socket) -> Message:
    """The next message of a box, however long it takes."""
    channel.setblocking(False)
    return await _first_message(channel)


async def finish(channel: socket.socket, timeout_s: float) -> tuple[int, bytes]:
    """A command's exit code and the end of what it wrote, read as hostile bytes; its start is already sent."""
    return await _answered(_finish(channel), timeout_s)


async def _answered(answer: Coroutine[None, None, T], timeout_s: float) -> T:
    try:
        return await within(answer, timeout_s)
    except TimeoutError as error:
        raise Unavailable("the box does not answer", hint="`paddock stop` ends it", code="no-answer") from error
    except OSError as error:
        raise Unavailable(f"the box went away: {error.strerror}", hint="run the command again", code="gone") from error


async def _finish(channel: socket.socket) -> tuple[int, bytes]:
    loop = asyncio.get_running_loop()
    decoder = frames.Decoder()
    said = b""
    channel.setblocking(False)
    while data := await loop.sock_recv(channel, limits.FRAME_DATA_BYTES):
        for kind, payload in decoder.feed(data):
            if kind != frames.MESSAGE:
                said = (said + payload)[-_SAID_BYTES:]
                continue
            message = frames.decode_message(payload)
            if message.get("event") == "started":
                continue
            code = expect(message, "exit").get("code")
            if type(code) is not int:
                raise Unavailable("the box sent a malformed answer: no exit code", code="protocol")
            return code, said
        await asyncio.sleep(0)  # a flood must not keep the daemon from everything else
    raise Unavailable("the box ended before it answered", hint="run the command again", code="gone")


async def ask(channel: socket.socket, message: Message) -> Message:
    """One request, one message back."""
    try:
        await send(channel, message, [])
    except (TimeoutError, OSError) as error:
        raise Unavailable("the box does not answer", hint="`paddock stop` ends it", code="no-answer") from error
    return await ask_first(channel)


async def _first_message(channel: socket.socket) -> Message:
    loop = asyncio.get_running_loop()
    decoder = frames.Decoder()
    while True:
        data = await loop.sock_recv(channel, limits.FRAME_DATA_BYTES)
        if not data:
            raise Unavailable("the box ended before it answered", hint="run the command again", code="gone")
        for kind, payload in decoder.feed(data):
            if kind != frames.MESSAGE:  # and no flood of them may keep the daemon from everything else
                raise Unavailable("the box sent bytes out of turn", code="protocol")
            return frames.decode_message(payload)


def expect(message: Message, event: str) -> Message:
    if message.get("event") == event:
        return message
    raise refusal(message)


def refusal(message: Message) -> PaddockError:
    """init's own word for what it would not do, as the error a caller gets."""
    code = str(message.get("code", "protocol"))[:40]
    text = str(message.get("message", "unexpected answer"))[:400]
    if code == "protocol" or message.get("event") != "error":
        return Unavailable(f"the box sent a malformed answer: {text}", code="protocol")
    return UserError(text, code=code)
