"""What a new host process runs first: descriptors to their numbers, signals to their defaults, then its program.

proc.py starts this file by path in a bare interpreter, so it imports nothing of ours. Doing these steps here, after an
exec, is safe in a caller with threads; between fork and exec it would not be.

    trampoline.py stay|terminal|detach REPORT_FD FROM:TO,FROM:TO,... PROGRAM ARGUMENT...

With `terminal`, what becomes 0 is the controlling terminal of the program, which leads a session. REPORT_FD receives
the pid of the program, and an errno if it could not be started.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
import termios

_STANDARD = (0, 1, 2)


def main(words: list[str]) -> None:
    mode, report, moves = words[:3]
    if mode == "detach" and os.fork():
        os._exit(0)  # the orphan is no session leader: no terminal can become its own
    report_fd = renumber(int(report), parse_moves(moves))
    os.write(report_fd, b"%d\n" % os.getpid())
    reset_signals()
    if mode == "terminal":
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.umask(0o077)
    try:
        os.execvpe(words[3], words[3:], original_environment())  # noqa: S606 - no shell is the point
    except OSError as error:
        os.write(report_fd, b"%d\n" % (error.errno or 0))
        os._exit(127)


def parse_moves(text: str) -> dict[int, int]:
    """`5:3,6:4` as {3: 5, 4: 6}: the number wanted, and where it is now."""
    pairs = [pair.split(":") for pair in text.split(",") if pair]
    return {int(wanted): int(source) for source, wanted in pairs}


def renumber(report_fd: int, moves: dict[int, int]) -> int:
    """Put each descriptor at its number and nothing else; returns the new, close-on-exec number of the report."""
    free = max([*_STANDARD, *moves]) + 1
    high = {wanted: fcntl.fcntl(source, fcntl.F_DUPFD_CLOEXEC, free) for wanted, source in moves.items()}
    report = fcntl.fcntl(report_fd, fcntl.F_DUPFD_CLOEXEC, free)
    for wanted, source in high.items():
        os.dup2(source, wanted)
    for old in {report_fd, *moves.values()} - {*_STANDARD, *moves}:
        os.close(old)
    return report


def reset_signals() -> None:
    """What our caller ignored or blocked is not the program's business; an ignored SIGCHLD would hide its children."""
    for number in signal.valid_signals():
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def original_environment() -> dict[bytes, bytes]:
    # Not os.environ: the interpreter adds LC_CTYPE to it in the C locale (PEP 538).
    with open("/proc/self/environ", "rb") as file:
        entries = file.read().split(b"\0")
    return {name: value for name, _, value in (entry.partition(b"=") for entry in entries if entry)}


if __name__ == "__main__":
    main(sys.argv[1:])
