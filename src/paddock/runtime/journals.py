"""Reading what init wrote: a job's journal, which lies in the box's storage on the host side.

A journal is the frames of a command's channel in two files (docs/frames.md). It was written from inside the box, so it
is decoded as hostile bytes: a torn or forged frame ends the reading, nothing else.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from paddock import frames
from paddock.errors import Unavailable
from paddock.runtime.commands import journal_paths

_TAIL_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalState:
    running: bool
    exit_code: int | None
    begun: bool  # init has written to it


def state(directory: str, job: str) -> JournalState:
    """Whether the journal holds the command's end, without reading all of it: the end is its last frame."""
    tails = [_tail(path) for path in journal_paths(directory, job)]
    for tail in tails:
        code = _exit_code(tail)
        if code is not None:
            return JournalState(running=False, exit_code=code, begun=True)
    return JournalState(running=True, exit_code=None, begun=any(tails))


def open_files(directory: str, job: str) -> list[int]:
    fds: list[int] = []
    try:
        for path in journal_paths(directory, job):
            fds.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW))
    except OSError as error:
        for fd in fds:
            os.close(fd)
        raise Unavailable(f"the journal of {job} cannot be read: {error.strerror}", code="no-journal") from error
    return fds


def remove(directory: str, job: str) -> None:
    for path in journal_paths(directory, job):
        try:
            os.unlink(path)
        except FileNotFoundError:
            continue


def unused(directory: str) -> set[str]:
    """Jobs whose journal init has not begun."""
    try:
        with os.scandir(f"{directory}/journal") as entries:
            sizes = [(entry.name[:-2], entry.stat(follow_symlinks=False).st_size) for entry in entries]
    except FileNotFoundError:
        return set()
    return {job for job, _ in sizes} - {job for job, size in sizes if size}


def _tail(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return b""
    try:
        size = os.fstat(fd).st_size
        return os.pread(fd, _TAIL_BYTES, max(0, size - _TAIL_BYTES))
    finally:
        os.close(fd)


def _exit_code(tail: bytes) -> int | None:
    """The exit message is the last frame: find the frame that ends exactly where the file does."""
    for start in range(max(0, len(tail) - 1024), len(tail) - frames.HEADER.size + 1):
        length, kind = frames.HEADER.unpack_from(tail, start)
        if kind == frames.MESSAGE and start + frames.HEADER.size + length == len(tail):
            try:
                message = frames.decode_message(tail[start + frames.HEADER.size :])
            except Unavailable:
                continue
            code = message.get("code")
            if message.get("event") == "exit" and isinstance(code, int):
                return code
            if message.get("event") == "error":
                return 127 if message.get("code") == "not-found" else 126
    return None
