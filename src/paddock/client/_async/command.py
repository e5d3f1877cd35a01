"""A command in a box, as the SDK has it. Written once, async; scripts/unasync.py makes _sync/ from it."""

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
    from collections.abc import AsyncIterator

    from paddock.client._async.core import AsyncPaddock
    from paddock.client.aio_transport import AsyncChannel
    from paddock.model import (
        BoxInfo,
        ExecResult,
        TtySize,
    )
    from paddock.reports import LeaveReport

OUTPUT_BYTES_MAX = 64 * 1024 * 1024


class AsyncCommand:
    """A command in a box, streaming over its own channel. Leaving it as a context manager lets go of it."""

    def __init__(
        self, paddock: AsyncPaddock, box: BoxInfo, job: str, channel: AsyncChannel, notes: tuple[str, ...] = ()
    ) -> None:
        self._paddock = paddock
        self.notes = notes  # what the caller should know of the box
        self.box = box
        self.job = job
        self.channel = channel
        self.started: Started | None = None
        self.result: ExecResult | None = None

    def __repr__(self) -> str:
        return f"<AsyncCommand {self.job} in {self.box.name}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def wait_started(self) -> Started:
        """Raises UserError when the command could not be started."""
        if self.started is None:
            frame = await self.channel.receive()
            if frame is None:
                raise await self.gone()
            self.started = started(frame)
        return self.started

    async def write(self, data: bytes) -> None:
        """Input; of a command that has ended it is dropped, like what one does not read before it ends."""
        with contextlib.suppress(Unavailable):  # why it hung up is told to whoever waits for its end
            for offset in range(0, len(data), FRAME_DATA_BYTES):
                await self.channel.send(frames.STDIN, data[offset : offset + FRAME_DATA_BYTES])

    async def close_stdin(self) -> None:
        with contextlib.suppress(Unavailable):
            await self.channel.send(frames.STDIN, b"")

    async def signal(self, number: int) -> None:
        """Not over the channel, where it would wait behind input that the command does not read."""
        await self._paddock.call("signal", box=self.box.id, job=self.job, signal=number)

    async def resize(self, size: TtySize) -> None:
        await self.channel.send_message({"op": "resize", "rows": size.rows, "cols": size.cols})

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """(frames.STDOUT or frames.STDERR, bytes) as they come, until the command ends."""
        await self.wait_started()
        while True:
            frame = await self.channel.receive()
            if frame is None:
                raise await self.gone()
            if frame[0] == frames.MESSAGE:
                self.result = exited(frame[1])
                return
            yield output_of(frame)

    async def finish(self, stdin: bytes = b"") -> ExecResult:
        """Feed `stdin`, gather the output, wait for the end. Output past the limit is dropped, and said."""
        kept: dict[int, bytearray] = {frames.STDOUT: bytearray(), frames.STDERR: bytearray()}
        try:
            await self.wait_started()
            if stdin:
                await self.channel.queue(stdin_frames(stdin))
            while True:
                frame = await self.channel.receive()
                if frame is None:
                    raise await self.gone()
                if frame[0] == frames.MESSAGE:
                    return ended(exited(frame[1]), bytes(kept[frames.STDOUT]), bytes(kept[frames.STDERR]))
                kind, payload = output_of(frame)
                if len(kept[kind]) < OUTPUT_BYTES_MAX:
                    kept[kind] += payload
        finally:
            await self.close()

    async def close(self) -> None:
        await self.channel.close()

    async def why_killed(self) -> str:
        """After exit code 137: the limit at which the kernel killed processes of the box, or nothing."""
        return str(await self._paddock.call("killed", box=self.box.id))

    async def left(self) -> LeaveReport:
        """After its end: what the box left that the host trusts, and the commits that came home with it."""
        from paddock.reports import LeaveReport

        return codec.from_wire(LeaveReport, await self._paddock.call("left", box=self.box.id))

    async def gone(self) -> Unavailable:
        """The channel broke: the daemon knows whether a limit ended the box."""
        answer = expect_object(await self._paddock.call("ending", box=self.box.id))
        reason = str(answer.get("reason") or "it was stopped")
        error = Unavailable(f"the box {self.box.name!r} ended: {reason}", hint=limit_hint(reason), code="box-ended")
        code = answer.get("exit_code")
        if isinstance(code, int):
            error.exit_code = code
        return error
