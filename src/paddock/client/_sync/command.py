"""A command in a box, as the SDK has it. Made by scripts/unasync.py from _async/: edit that."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Self

from paddock import codec, frames
from paddock.client.answers import (
    Started,
    ended,
    exited,
    expect_object,
    limit_hint,
    output_of,
    started,
    stdin_frames,
)
from paddock.errors import Unavailable
from paddock.limits import FRAME_DATA_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paddock.client._sync.core import Paddock
    from paddock.client.transport import Channel
    from paddock.model import (
        BoxInfo,
        ExecResult,
        TtySize,
    )
    from paddock.reports import LeaveReport

OUTPUT_BYTES_MAX = 64 * 1024 * 1024


class Command:
    """A command in a box, streaming over its own channel. Leaving it as a context manager lets go of it."""

    def __init__(
        self, paddock: Paddock, box: BoxInfo, job: str, channel: Channel, notes: tuple[str, ...] = ()
    ) -> None:
        self._paddock = paddock
        self.notes = notes  # what the caller should know of the box
        self.box = box
        self.job = job
        self.channel = channel
        self.started: Started | None = None
        self.result: ExecResult | None = None

    def __repr__(self) -> str:
        return f"<Command {self.job} in {self.box.name}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait_started(self) -> Started:
        """Raises UserError when the command could not be started."""
        if self.started is None:
            frame = self.channel.receive()
            if frame is None:
                raise self.gone()
            self.started = started(frame)
        return self.started

    def write(self, data: bytes) -> None:
        """Input; of a command that has ended it is dropped, like what one does not read before it ends."""
        with contextlib.suppress(Unavailable):  # why it hung up is told to whoever waits for its end
            for offset in range(0, len(data), FRAME_DATA_BYTES):
                self.channel.send(frames.STDIN, data[offset : offset + FRAME_DATA_BYTES])

    def close_stdin(self) -> None:
        with contextlib.suppress(Unavailable):
            self.channel.send(frames.STDIN, b"")

    def signal(self, number: int) -> None:
        """Not over the channel, where it would wait behind input that the command does not read."""
        self._paddock.call("signal", box=self.box.id, job=self.job, signal=number)

    def resize(self, size: TtySize) -> None:
        self.channel.send_message({"op": "resize", "rows": size.rows, "cols": size.cols})

    def output(self) -> Iterator[tuple[int, bytes]]:
        """(frames.STDOUT or frames.STDERR, bytes) as they come, until the command ends."""
        self.wait_started()
        while True:
            frame = self.channel.receive()
            if frame is None:
                raise self.gone()
            if frame[0] == frames.MESSAGE:
                self.result = exited(frame[1])
                return
            yield output_of(frame)

    def finish(self, stdin: bytes = b"") -> ExecResult:
        """Feed `stdin`, gather the output, wait for the end. Output past the limit is dropped, and said."""
        kept: dict[int, bytearray] = {frames.STDOUT: bytearray(), frames.STDERR: bytearray()}
        try:
            self.wait_started()
            if stdin:
                self.channel.queue(stdin_frames(stdin))
            while True:
                frame = self.channel.receive()
                if frame is None:
                    raise self.gone()
                if frame[0] == frames.MESSAGE:
                    return ended(exited(frame[1]), bytes(kept[frames.STDOUT]), bytes(kept[frames.STDERR]))
                kind, payload = output_of(frame)
                if len(kept[kind]) < OUTPUT_BYTES_MAX:
                    kept[kind] += payload
        finally:
            self.close()

    def close(self) -> None:
        self.channel.close()

    def why_killed(self) -> str:
        """After exit code 137: the limit at which the kernel killed processes of the box, or nothing."""
        return str(self._paddock.call("killed", box=self.box.id))

    def left(self) -> LeaveReport:
        """After its end: what the box left that the host trusts, and the commits that came home with it."""
        from paddock.reports import LeaveReport

        return codec.from_wire(LeaveReport, self._paddock.call("left", box=self.box.id))

    def gone(self) -> Unavailable:
        """The channel broke: the daemon knows whether a limit ended the box."""
        answer = expect_object(self._paddock.call("ending", box=self.box.id))
        reason = str(answer.get("reason") or "it was stopped")
        error = Unavailable(f"the box {self.box.name!r} ended: {reason}", hint=limit_hint(reason), code="box-ended")
        code = answer.get("exit_code")
        if isinstance(code, int):
            error.exit_code = code
        return error
