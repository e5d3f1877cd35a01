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
from paddock.text import neutralise

_TAIL_BYTES = 4096
_CODE_MAX, _SIGNALS = 255, 65
_REFUSED_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalState:
    running: bool
    exit_code: int | None
    signal: int | None = None
    timed_out: bool = False
    refused: str = ""  # why the command could not be started


def state(directory: str, job: str) -> JournalState:
    """Whether the journal holds the command's end, without reading all of it: the end is its last frame."""
    tails = [_tail(path) for path in journal_paths(directory, job)]
    for tail in tails:
        end = _end(tail, job)
        if end is not None:
            return end
    return JournalState(running=True, exit_code=None)


def open_files(directory: str, job: str, how: int = os.O_RDONLY) -> list[int]:
    """To read them; or for init to write on."""
    fds: list[int] = []
    try:
        for path in journal_paths(directory, job):
            fds.append(os.open(path, how | os.O_CLOEXEC | os.O_NOFOLLOW))
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


def _end(tail: bytes, job: str) -> JournalState | None:
    """The end is the last frame: find the one that ends exactly where the file does, and names the job.

    A command's own output may look like such a frame. But it does not know its job: only init and the host do.
    """
    for start in range(max(0, len(tail) - 1024), len(tail) - frames.HEADER.size + 1):
        length, kind = frames.HEADER.unpack_from(tail, start)
        if kind == frames.MESSAGE and start + frames.HEADER.size + length == len(tail):
            try:
                message = frames.decode_message(tail[start + frames.HEADER.size :])
            except Unavailable:
                continue
            if message.get("id") != job:
                continue
            if message.get("event") == "exit" and (found := ended(message)):
                return found
            if message.get("event") == "error":
                code = 127 if message.get("code") == "not-found" else 126
                refused = neutralise(str(message.get("message", "")), _REFUSED_CHARS)
                return JournalState(running=False, exit_code=code, refused=refused)
    return None


def ended(message: frames.Message) -> JournalState | None:
    """init's word that a command ended, in its journal or to whoever waits; None if it makes no sense."""
    code, number = message.get("code"), message.get("signal")
    if type(code) is not int or not 0 <= code <= _CODE_MAX:
        return None
    known = number if type(number) is int and 0 < number < _SIGNALS else None
    return JournalState(running=False, exit_code=code, signal=known, timed_out=message.get("timed_out") is True)
