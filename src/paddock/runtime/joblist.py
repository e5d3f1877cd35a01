"""A box's journalled commands, running or over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.errors import UserError
from paddock.model import JobInfo
from paddock.runtime import channels, journals

if TYPE_CHECKING:
    from paddock.runtime.box import Box
    from paddock.runtime.core import Runtime
    from paddock.store import JobRow


async def jobs(runtime: Runtime, name: str) -> list[JobInfo]:
    box = runtime.find(name)
    rows = await runtime.register.jobs(box)
    running = await channels.running_ids(runtime.engine(box), box)
    return [_info(box, row, running) for row in rows]


async def log_files(runtime: Runtime, name: str, job: str) -> tuple[JobInfo, list[int]]:
    """A job's journal, as two descriptors to read."""
    box = runtime.find(name)
    chosen = [row for row in await runtime.register.jobs(box) if not job or row.id == job]
    if not chosen:
        what = f"job {job!r}" if job else "journalled command"
        hint = f"`paddock logs --list {box.name}`"
        raise UserError(f"the box {box.name!r} has no {what}", hint=hint, code="no-job")
    row = chosen[-1]
    running = await channels.running_ids(runtime.engine(box), box)
    return _info(box, row, running), journals.open_files(box.directory, row.id)


def _info(box: Box, row: JobRow, running: set[str]) -> JobInfo:
    state = journals.state(box.directory, row.id)
    return JobInfo(
        id=row.id,
        box=box.name,
        argv=row.argv,
        started_at=row.started_at,
        running=state.running and row.id in running,
        exit_code=state.exit_code,
    )
