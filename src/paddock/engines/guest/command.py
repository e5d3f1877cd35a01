"""One command of a box: its descriptors, its clients, its journal, its end."""

from __future__ import annotations

import errno
import fcntl
import os
import select
import signal
import struct
import termios
import time

from paddock.engines.guest import accounts, spawn
from paddock.engines.guest.wire import (
    DATA_BYTES,
    HIGH_BYTES,
    READABLE,
    STDERR,
    STDOUT,
    WRITABLE,
    Refused,
    frame,
    message,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from paddock.engines.guest.init import Init
    from paddock.engines.guest.journal import Journal
    from paddock.engines.guest.wire import Connection, Handler, Request


DRAIN_S = 0.25  # how long output held open by a background child is still read after the command ended
HANGUP_S = 2.0
_LIMITS = {
    errno.EAGAIN: "the box has as many processes as it may have",
    errno.ENOMEM: "the box has as much memory as it may have",
}
TIMEOUT_S_MAX = float(1 << 61)  # more than any spec holds; not infinity, which no clock reaches


class Command:
    def __init__(self, init: Init, request: Request, journal: Journal | None) -> None:
        self.init = init
        self.id = str(request["id"])
        self.argv = [str(word) for word in request["argv"]]
        self.keep = bool(request.get("keep"))
        self.main = bool(request.get("main"))
        self.tty = request.get("tty")
        self.journal = journal
        self.clients: list[Connection] = []
        self.awaiting: list[Connection] = []  # want to know its end alone
        self.timed_out = False
        self.ended_with: int | None = None  # the host ended it, and says with which code
        self.status: int | None = None
        self.done = False
        self._slave = -1
        self._stdin_fd = -1
        self._stdin = bytearray()
        self._stdin_eof = False
        self._outputs: dict[int, int] = {}
        self.started_at = time.time()
        self.tracked = request.get("timeout_s") is not None
        timeout_s = float(request["timeout_s"]) if self.tracked else 0.0
        if not 0 <= timeout_s < TIMEOUT_S_MAX:
            raise Refused("bad-timeout", "timeout_s is out of range")
        self.pid = self._start(request)
        if self.tracked:
            init.loop.at(time.monotonic() + timeout_s, self._expire)

    # -- start ---------------------------------------------------------------------------------------------------------

    def _start(self, request: Request) -> int:
        env = {str(key): str(value) for key, value in request["env"].items()}
        account = self._account(str(request.get("user") or ""), chosen=bool(request.get("login")))
        if account is None:
            return self._enter(request, env, None)
        if request.get("login"):
            env |= {"HOME": account.home, "USER": account.name, "LOGNAME": account.name}
        with accounts.acting_as(account, self.init.owner):
            return self._enter(request, env, account)

    def _account(self, user: str, *, chosen: bool) -> accounts.Account | None:
        """None for who we are ourselves: in a box of one id all that its template would have others do, too."""
        alone = accounts.are_alone()
        if not user or (alone and not chosen):
            return None
        try:
            account = accounts.here(user)
        except accounts.Unknown as error:
            raise Refused("bad-user", f"the box cannot run it as another user: {error}") from error
        if alone and (account.uid, account.gid) != (os.geteuid(), os.getegid()):
            raise Refused("bad-user", f"this box has one user, {os.geteuid()}: its host gave it no other ids")
        return None if alone else account

    def _enter(self, request: Request, env: dict[str, str], account: accounts.Account | None) -> int:
        try:
            os.chdir(request["cwd"])
        except OSError as error:
            raise Refused("bad-cwd", f"cannot enter {request['cwd']}: {error.strerror}", error.errno) from error
        try:
            program = spawn.resolve(self.argv[0], env.get("PATH", ""))
            return self._launch(program, env, account, stdin=bool(request.get("stdin")))
        except FileNotFoundError as error:
            raise Refused("not-found", f"{self.argv[0]}: command not found", error.errno) from error
        except OSError as error:
            if error.errno in _LIMITS:
                raise Refused("limit", f"{self.argv[0]}: {_LIMITS[error.errno]}", error.errno) from error
            raise Refused("not-executable", f"{self.argv[0]}: {error.strerror}", error.errno) from error
        finally:
            os.chdir("/")

    def _launch(self, program: str, env: dict[str, str], account: accounts.Account | None, *, stdin: bool) -> int:
        inner, outer = self._pipes(stdin=stdin)
        try:
            try:
                pid = self._spawn(program, self.argv, env, inner, account)
            except OSError as error:
                if error.errno != errno.ENOEXEC:
                    raise
                pid = self._spawn("/bin/sh", ["sh", program, *self.argv[1:]], env, inner, account)
        except BaseException:
            _close({*inner, *outer})
            raise
        if self.tty:
            # A program may close its terminal just before it exits: without this copy we would read an end and hang up,
            # and its exit code would be that of SIGHUP.
            self._slave = int(inner.pop())
        _close(inner)
        self._stdin_fd, out, err = outer
        self._outputs = {out: STDOUT} if err < 0 else {out: STDOUT, err: STDERR}
        return pid

    def _spawn(
        self,
        program: str,
        argv: list[str],
        env: dict[str, str],
        inner: list[int | str],
        account: accounts.Account | None,
    ) -> int:
        if account or self.tracked:
            return spawn.forked(program, argv, env, inner, tracked=self.tracked, account=account)
        return spawn.plain(program, argv, env, inner)

    def _pipes(self, *, stdin: bool) -> tuple[list[int | str], list[int]]:
        """What the command gets as 0, 1, 2 (a terminal by its path) and our three ends."""
        if self.tty:
            size = self._winsize(self.tty)
            ours, theirs = os.openpty()
            fcntl.ioctl(ours, termios.TIOCSWINSZ, size)
            name = os.ttyname(theirs)
            os.set_blocking(ours, False)
            return [name, theirs], [ours, ours, -1]
        out_r, out_w = os.pipe2(os.O_CLOEXEC)
        err_r, err_w = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(out_r, False)
        os.set_blocking(err_r, False)
        if not stdin:
            return [os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC), out_w, err_w], [-1, out_r, err_r]
        in_r, in_w = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(in_w, False)
        return [in_r, out_w, err_w], [in_w, out_r, err_r]

    @staticmethod
    def _winsize(size: Request) -> bytes:
        return struct.pack("HHHH", int(size["rows"]), int(size["cols"]), 0, 0)

    # -- clients -------------------------------------------------------------------------------------------------------

    def attach(self, client: Connection, *, again: bool = False) -> None:
        self.clients.append(client)
        client.command = self
        started = {"event": "started", "pid": self.pid, "id": self.id, "tty": bool(self.tty), "again": again}
        client.send(message(started))
        self.update()

    def detach(self, client: Connection) -> None:
        self.clients.remove(client)
        if self.done:
            self.init.maybe_exit(self)
        elif not self.clients and not self.keep:
            if self.main:
                os._exit(0)  # the caller of an ephemeral box is gone, and the box with it
            if self.status is None:  # otherwise only a background child holds its output
                self.signal(signal.SIGHUP)
            self.init.loop.at(time.monotonic() + HANGUP_S, self._kill_if_running)
        self.update()

    def _kill_if_running(self) -> None:
        if self.status is None and not self.clients:
            self.signal(signal.SIGKILL)

    def feed(self, payload: bytes) -> None:
        if self._stdin_fd < 0:
            return
        if payload:
            self._stdin += payload
        elif self.tty:
            self._stdin += b"\x04"
        else:
            self._stdin_eof = True
        self._write_stdin(0)

    def stdin_full(self) -> bool:
        return len(self._stdin) > HIGH_BYTES

    def control(self, request: Request) -> None:
        if request["op"] == "resize":
            if self.tty and self._stdin_fd >= 0:
                fcntl.ioctl(self._stdin_fd, termios.TIOCSWINSZ, self._winsize(request))
                self.init.resized(self)
        elif request["op"] == "signal":
            self.signal(int(request["signal"]))
        else:
            raise Refused("busy", f"{request['op']} is not possible while attached to a command")

    def signal(self, number: int) -> None:
        if self.status is not None:
            raise Refused("ended", "the command has ended")
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass
        except PermissionError as error:
            raise Refused("io", "signal refused", error.errno) from error

    # -- bytes ---------------------------------------------------------------------------------------------------------

    def update(self) -> None:
        stalled = any(client.pending > HIGH_BYTES for client in self.clients)
        for fd in self._outputs:
            if fd != self._stdin_fd:
                self.init.loop.want(fd, 0 if stalled else READABLE, self._reader(fd))
        if self._stdin_fd >= 0:
            mask = WRITABLE if self._stdin or self._stdin_eof else 0
            if self._stdin_fd in self._outputs and not stalled:
                mask |= READABLE
            self.init.loop.want(self._stdin_fd, mask, self._stdin_ready)

    def _reader(self, fd: int) -> Handler:
        def ready(_events: int) -> None:
            self._read(fd)

        return ready

    def _stdin_ready(self, events: int) -> None:
        fd = self._stdin_fd
        if events & READABLE and fd in self._outputs:
            self._read(fd)
        if events & (WRITABLE | select.EPOLLERR) and self._stdin_fd == fd:
            self._write_stdin(events)

    def _write_stdin(self, events: int) -> None:
        try:
            if self._stdin:
                if self.tty and self._slave >= 0:
                    self.init.typed(self._slave)
                del self._stdin[: os.write(self._stdin_fd, self._stdin)]
        except BlockingIOError:
            pass
        except OSError:
            self._close_stdin()
            return
        broken = events & select.EPOLLERR and not self.tty  # the reading end is closed
        if (self._stdin_eof and not self._stdin) or broken:
            self._close_stdin()
            return
        self.update()
        for client in self.clients:
            client.update()

    def _close_stdin(self) -> None:
        fd, self._stdin_fd = self._stdin_fd, -1
        self._stdin.clear()
        if fd >= 0 and fd not in self._outputs:
            self.init.loop.forget(fd)
            os.close(fd)
        for client in self.clients:
            client.update()

    def _read(self, fd: int) -> bool:
        """Move one chunk; False at the end of the stream or when there is nothing now."""
        try:
            data = os.read(fd, DATA_BYTES)
        except BlockingIOError:
            return False
        except OSError:  # EIO: the last slave of a terminal was closed
            data = b""
        if not data:
            self._close_output(fd)
            return False
        self._emit(frame(self._outputs[fd], data))
        self.update()
        return True

    def _emit(self, data: bytes) -> None:
        if self.journal:
            self.journal.write(data)
        for client in list(self.clients):
            client.send(data)

    def _close_output(self, fd: int) -> None:
        self.init.loop.forget(fd)
        del self._outputs[fd]
        if fd == self._stdin_fd:
            self._stdin_fd = -1
        os.close(fd)
        self._maybe_finish()

    # -- the end -------------------------------------------------------------------------------------------------------

    def reaped(self, status: int) -> None:
        self.status = status
        _close([self._slave])
        self._maybe_finish()
        if not self.done:  # a background child still holds the output
            self.init.loop.at(time.monotonic() + DRAIN_S, self._stop_draining)

    def _stop_draining(self) -> None:
        if self.done:
            return
        if any(client.pending > HIGH_BYTES for client in self.clients):
            self.init.loop.at(time.monotonic() + DRAIN_S, self._stop_draining)
            return
        for fd in list(self._outputs):
            while fd in self._outputs and self._read(fd):
                if any(client.pending > HIGH_BYTES for client in self.clients):
                    self.init.loop.at(time.monotonic() + DRAIN_S, self._stop_draining)
                    return
        for fd in list(self._outputs):
            self._close_output(fd)

    def _expire(self) -> None:
        if self.status is None:
            self.timed_out = True
            if self.main:
                self._finish_all_outputs()
            spawn.kill_tree(self.pid)

    def end(self, code: int) -> None:
        """The host's wish, as a deadline would: it and what is below it now."""
        if not 0 <= code <= 255:
            raise Refused("protocol", "no exit code")
        if self.status is None:
            self.ended_with = code
            spawn.kill_tree(self.pid)

    def _finish_all_outputs(self) -> None:
        for fd in list(self._outputs):
            while fd in self._outputs and self._read(fd) and not any(c.pending > HIGH_BYTES for c in self.clients):
                pass

    def _maybe_finish(self) -> None:
        if self.done or self.status is None or self._outputs:
            return
        self.done = True
        self._close_stdin()
        end = message(self.result())
        if self.journal:
            self.journal.write(message({**self.result(), "id": self.id}))  # the id tells it from our own output
            away = self.journal.is_away  # then it is written when it has its files again (sleep.py)
            self.journal.close()
            self.journal = self.journal if away else None
        for client in list(self.clients):
            client.closing = True
            client.send(end)
            if not client.pending:
                client.close()
        for client in self.awaiting:
            if client in self.init.connections:
                client.send(end)
        self.awaiting.clear()
        self.init.finished(self)

    def result(self) -> Request:
        assert self.status is not None
        number = os.WTERMSIG(self.status) if os.WIFSIGNALED(self.status) else None
        code = 128 + number if number else os.WEXITSTATUS(self.status)
        if self.timed_out:
            code = 124
        elif self.ended_with is not None:
            code = self.ended_with
        return {"event": "exit", "code": code, "signal": number, "timed_out": self.timed_out}


def _close(entries: Iterable[int | str]) -> None:
    for entry in entries:
        if isinstance(entry, int) and entry >= 0:
            os.close(entry)
