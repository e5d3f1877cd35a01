"""Programs that attack a box, run inside it and, as the oracle of every denial, outside it.

An attack is Python source that ends with `say(VALUE)`. The same source runs in a box (`inside`), on the host
(`outside`), and in plain namespaces without any of our protections (`twin`), where even mounting is allowed.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import pty
import select
import subprocess
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paddock.client import Box
    from tests.support.installation import Installation

PYTHON = "/usr/bin/python3"
_TWIN = ("unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc", "--ipc", "--net")

# attempt() turns any act into one word: "ok", or the name of the error.
_PRELUDE = """
import ctypes, errno, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
ARGS = json.loads(sys.argv[1])
def say(value):
    print(json.dumps(value), flush=True)
def word(number):
    return errno.errorcode.get(number, str(number))
def call(number, *args):
    words = [a if isinstance(a, (bytes, type(None))) or hasattr(a, '_type_') else ctypes.c_long(a) for a in args]
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *words)
    return "ok" if result >= 0 else word(ctypes.get_errno())
def attempt(act, *args, **options):
    try:
        act(*args, **options)
    except OSError as error:
        return word(error.errno)
    return "ok"
"""


def program(source: str, *args: object) -> list[str]:
    """The attack as a command line."""
    return [PYTHON, "-I", "-c", _PRELUDE + source, json.dumps(args)]


def inside(box: Box, source: str, *args: object, timeout_s: float = 60.0) -> Any:
    """What the attack says when it runs in the box."""
    result = box.exec(program(source, *args), timeout_s=timeout_s)
    assert result.exit_code == 0, result.stderr.decode(errors="replace")
    return json.loads(result.stdout)


def outside(source: str, *args: object) -> Any:
    """What the same attack says on the host."""
    return _host(program(source, *args))


def twin(source: str, *args: object) -> Any:
    """What the same attack says in namespaces of its own, with root's rights there and no protection of ours."""
    return _host([*_TWIN, "--", *program(source, *args)])


def _host(argv: list[str]) -> Any:
    done = subprocess.run(argv, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return json.loads(done.stdout)


@functools.cache
def number(name: str) -> int:
    """The number of a system call on this machine."""
    found = int(ctypes.CDLL("libseccomp.so.2").seccomp_syscall_resolve_name(name.encode()))
    assert found >= 0, f"this machine has no system call {name}"
    return found


class Terminal:
    """A command line of ours on a terminal of its own, as a person has it."""

    def __init__(self, installation: Installation, *words: str) -> None:
        from tests.support.installation import PROGRAM

        self.master, slave = pty.openpty()
        self.name = os.ttyname(slave)
        self.process = subprocess.Popen(
            [str(PROGRAM), *words],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=installation.workspace,
            env={**installation.environ, "TERM": "xterm"},
            start_new_session=True,
        )
        os.close(slave)
        self.seen = b""

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def read_until(self, wanted: bytes, seconds: float = 20.0) -> bytes:
        """Everything shown so far, once it holds `wanted`."""
        deadline = time.monotonic() + seconds
        while wanted not in self.seen:
            ready, _, _ = select.select([self.master], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"{wanted!r} did not appear in {self.seen!r}"
            self.seen += self._read()
        return self.seen

    def finish(self, seconds: float = 20.0, *, close: bool = True) -> int:
        """Read until the command is gone; its exit code."""
        deadline = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"still running after showing {self.seen!r}"
            if select.select([self.master], [], [], 0.05)[0]:
                self.seen += self._read()
        while select.select([self.master], [], [], 0)[0] and (data := self._read()):
            self.seen += data
        if close:
            self.close()
        return self.process.returncode

    def close(self) -> None:
        os.close(self.master)

    def _read(self) -> bytes:
        try:
            return os.read(self.master, 65536)
        except OSError:  # the last holder of the other end is gone
            return b""


@contextmanager
def background(act: object) -> Iterator[None]:
    """Run a function beside the test until the block ends; it must end by itself then."""
    assert callable(act)
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join(20)
        assert not thread.is_alive(), "the helper thread hangs"
