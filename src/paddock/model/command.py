"""A command in a box: what is asked for, where it stands, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field

from paddock import limits
from paddock.errors import UserError
from paddock.model.checks import check_env, size_bytes

_WINSIZE_MAX = 65535  # the kernel's struct winsize holds unsigned shorts


@dataclass(frozen=True, slots=True, kw_only=True)
class TtySize:
    rows: int
    cols: int

    def __post_init__(self) -> None:
        if not (0 < self.rows <= _WINSIZE_MAX and 0 < self.cols <= _WINSIZE_MAX):
            raise UserError(f"terminal size {self.rows}x{self.cols} is out of range", code="bad-tty")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecSpec:
    """One command in a box."""

    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    cwd: str = ""
    user: str = ""
    tty: TtySize | None = None
    stdin: bool = False
    detach: bool = False  # journalled, outlives the caller
    keep: bool = False  # outlives the caller's connection, as an interactive session does
    journal: bool = False  # its output is kept on disk too, whoever has it; keep and detach do so anyway
    main: bool = False  # the box ends with this command
    of_image: bool = False  # what the template runs; `argv`, if there is any, in place of its CMD
    timeout_s: float | None = None

    def __post_init__(self) -> None:
        if not self.of_image and (not self.argv or not self.argv[0]):
            raise UserError("no command given", hint="put the command after the box or after --", code="no-command")
        total_bytes = 0
        for word in self.argv:
            word_bytes = size_bytes(word)
            if word_bytes is None:
                raise UserError(f"{word[:80]!r} cannot be a word of a command", hint="no NUL bytes", code="bad-command")
            total_bytes += word_bytes
        if total_bytes > limits.ARGV_BYTES:
            raise UserError(f"the command line is over {limits.ARGV_BYTES // 1024} KiB", code="bad-command")
        if self.timeout_s is not None and not 0 < self.timeout_s < float(1 << 60):
            raise UserError(f"timeout_s must be a positive number, not {self.timeout_s!r}", code="bad-timeout")
        check_env(self.env)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInfo:
    """A detached or kept command and where it stands."""

    id: str
    box: str
    argv: tuple[str, ...]
    started_at: str
    running: bool
    exit_code: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecResult:
    """How a command ended. `exit_code` follows the shells: 128+n for signal n, 124 for a timeout."""

    exit_code: int
    signal: int | None = None
    timed_out: bool = False
    stdout: bytes = b""
    stderr: bytes = b""

    @property
    def ok(self) -> bool:
        return self.exit_code == 0
