"""One box, as the SDK has it. Written once, async; scripts/unasync.py makes _sync/ from it."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Self

from paddock import codec
from paddock.client._async.files import AsyncFiles
from paddock.client.aio_transport import in_thread
from paddock.client.answers import (
    check_applied,
    expect_list,
    expect_object,
)
from paddock.errors import UserError
from paddock.model import (
    BoxInfo,
    ExecResult,
    ExecSpec,
    JobInfo,
    Network,
    WorkspaceMode,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from paddock.agents import Turn
    from paddock.client._async.command import AsyncCommand
    from paddock.client._async.core import AsyncPaddock
    from paddock.client.reviewing import Accept, Applied, Confirm, Reviewing, Touched
    from paddock.frames import Message
    from paddock.reports import CheckpointInfo, FetchInfo, LeaveReport, PolicyInfo, RemovalInfo, TemplateInfo
    from paddock.workspace.commits import Commit
    from paddock.workspace.review import Result
    from paddock.workspace.textdiff import FileDiff


class AsyncBox:
    """One box. Leaving it as a context manager removes it."""

    def __init__(self, paddock: AsyncPaddock, name: str, info: BoxInfo | None = None) -> None:
        self._paddock = paddock
        self._info = info
        self.name = name
        self.files = AsyncFiles(paddock.channel, name)

    def __repr__(self) -> str:
        return f"<AsyncBox {self.name} {self._info.state.value if self._info else 'not asked'}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.remove(force=True)

    @property
    def info(self) -> BoxInfo:
        """The box when we last asked; `refresh` asks again."""
        if self._info is None:
            raise UserError(f"the box {self.name!r} was not looked up", hint="call refresh() first", code="usage")
        return self._info

    async def exec(
        self,
        argv: Sequence[str],
        *,
        cwd: str = "",
        env: dict[str, str] | None = None,
        stdin: bytes = b"",
        timeout_s: float | None = None,
        user: str = "",
    ) -> ExecResult:
        """Run a command to its end and keep its output."""
        spec = ExecSpec(argv=tuple(argv), cwd=cwd, env=env or {}, stdin=bool(stdin), timeout_s=timeout_s, user=user)
        command = await self.start(spec)
        return await command.finish(stdin)

    async def start(self, spec: ExecSpec) -> AsyncCommand:
        """Start a command and stream it."""
        return await self._paddock.command("exec", box=self.name, exec=spec, asked=False)

    async def session(self, spec: ExecSpec, turn: Turn) -> AsyncCommand:
        """The agent's own command, or its waiting terminal session."""
        return await self._paddock.command("session", box=self.name, exec=spec, turn=turn, asked=False)

    async def prompt(
        self,
        text: str,
        *,
        model: str = "",
        resume: str = "",
        ask: bool = False,
        json: bool = False,
        args: Sequence[str] = (),
        timeout_s: float | None = None,
    ) -> ExecResult:
        """Have the box's agent do something, without a terminal; `resume` is "last" or the id of a conversation.

        `args` are flags of the agent's own, `json` asks for its machine output.
        """
        from paddock.agents import Turn

        turn = Turn(words=tuple(args), prompt=text, headless=True, ask=ask, model=model, json=json, resume=resume)
        command = await self.session(ExecSpec(argv=("agent",), timeout_s=timeout_s), turn)
        return await command.finish()

    async def detach(self, argv: Sequence[str], *, cwd: str = "", env: dict[str, str] | None = None) -> str:
        """Start a command that outlives us; returns the job's id, whose output is journalled."""
        return await self.detach_spec(ExecSpec(argv=tuple(argv), cwd=cwd, env=env or {}, detach=True))

    async def detach_spec(self, spec: ExecSpec) -> str:
        answer, _ = await self._paddock.started("exec", box=self.name, exec=spec, asked=False)
        return str(expect_object(answer).get("job"))

    async def detach_session(self, spec: ExecSpec, turn: Turn) -> str:
        """The agent's own command, left running."""
        answer, _ = await self._paddock.started("session", box=self.name, exec=spec, turn=turn, asked=False)
        return str(expect_object(answer).get("job"))

    async def connect(self, job: str) -> AsyncCommand:
        """Attach again to a running command; output from now on."""
        return await self._paddock.command("connect", box=self.name, job=job)

    async def save(
        self, name: str, path: str = "", *, stop: bool = False, directory: int | None = None
    ) -> TemplateInfo:
        """The root of a container box as a template of this name; with a path as a file, and no template."""
        from paddock.client.outgoing import outgoing
        from paddock.reports import TemplateInfo

        with outgoing(path, directory) if path else nullcontext("") as file:
            answer = await self._paddock.call("save", box=self.name, name=name, path=file, stop=stop)
        return codec.from_wire(TemplateInfo, answer)

    async def jobs(self) -> list[JobInfo]:
        rows = expect_list(await self._paddock.call("jobs", box=self.name))
        return [codec.from_wire(JobInfo, row) for row in rows]

    async def processes(self) -> list[Message]:
        """What init runs for us right now."""
        channel = await self._paddock.channel(self.name)
        try:
            await channel.send_message({"op": "list"})
            answer = await channel.receive_message()
        finally:
            await channel.close()
        return [row for row in expect_list(answer.get("processes")) if isinstance(row, dict)]

    async def set_env(self, values: dict[str, str], unset: Sequence[str] = ()) -> None:
        """Change the environment of the next commands; nothing restarts."""
        self._info = codec.from_wire(
            BoxInfo, await self._paddock.call("env", box=self.name, set=values, unset=tuple(unset))
        )

    async def lend(self, *secrets: str) -> None:
        """More secrets, by words as of `--secret`; commands that start from now on have their placeholders."""
        lent = self._paddock.lent(secrets)
        await self._paddock.call("secrets_lend", box=self.name, uses=lent.uses, given=lent.given)

    async def set_network(self, change: Network) -> PolicyInfo:
        """Add rules and presets and set what is not empty; open connections that are no longer allowed are closed."""
        return await self._paddock.policy.change(self.name, change)

    async def refresh(self) -> BoxInfo:
        self._info = codec.from_wire(BoxInfo, await self._paddock.call("inspect", box=self.name))
        return self._info

    async def plan(self) -> list[str]:
        return [str(line) for line in expect_list(await self._paddock.call("plan", box=self.name))]

    async def diff(self, paths: Collection[str] = (), *, lines: bool = True) -> list[FileDiff]:
        """What a review box changed, at and below these paths of its workspace; the lines are safe to print."""
        reviewing = await self._reviewing()
        return await in_thread(lambda: reviewing.diff(paths, with_lines=lines))

    async def apply(
        self,
        paths: Collection[str] = (),
        *,
        accept: Accept = (),
        confirm: Confirm | None = None,
        merge: bool = False,
        dry_run: bool = False,
    ) -> Applied:
        """Bring changes of a review box home. Dangerous ones stay unless `accept` names each, or answers yes to it.

        `confirm` is shown the whole plan first: nothing comes home unless it says yes.
        """
        reviewing = await self._reviewing()
        if dry_run:
            return await in_thread(lambda: reviewing.apply(paths, accept=accept, merge=merge, dry_run=True))
        touched = reviewing.everywhere
        try:
            done = await in_thread(lambda: reviewing.apply(paths, accept=accept, confirm=confirm, merge=merge))
            touched = reviewing.places(done)
        finally:
            if touched != reviewing.nowhere:
                await self._touched("changes were applied", touched)
        return done

    async def undo(self) -> Result:
        """Take the last apply back; the box has the changes again."""
        reviewing = await self._reviewing()
        touched = reviewing.everywhere
        try:
            done = await in_thread(reviewing.undo)
            touched = reviewing.places(done)
        finally:
            await self._touched("an apply was undone", touched)
        return done

    async def discard(self, paths: Collection[str] = ()) -> None:
        """Drop what a review box changed at and below these paths: it has the workspace's again."""
        reviewing = await self._reviewing()
        try:
            await in_thread(lambda: reviewing.discard(paths))
        finally:
            await self._touched("changes were discarded", reviewing.nowhere)

    async def _reviewing(self) -> Reviewing:
        from paddock.client.reviewing import Reviewing  # loads much, and is needed by few

        return Reviewing(self._paddock.paths, await self.refresh())

    async def _touched(self, why: str, where: Touched) -> None:
        await self._paddock.call(
            "touched", box=self.name, why=f"{why} ({self.name})", places=where.places, more=where.more
        )

    async def git_fetch(self) -> FetchInfo:
        """Bring the box's commits home, as refs/paddock/BOX/BRANCH."""
        from paddock.reports import FetchInfo

        return codec.from_wire(FetchInfo, await self._paddock.call("git_fetch", box=self.name))

    async def git_log(self) -> list[Commit]:
        """The commits that came home, newest first. Their names and subjects are the box's words."""
        from paddock.workspace.commits import Commit

        return [codec.from_wire(Commit, row) for row in expect_list(await self._paddock.call("git_log", box=self.name))]

    async def unapplied(self) -> int:
        """How many changes of a review box are not applied; 0 in the other modes."""
        if (await self.refresh()).mode is not WorkspaceMode.REVIEW:
            return 0
        reviewing = await self._reviewing()
        return await in_thread(reviewing.count)

    async def left(self, *, look: bool = True) -> LeaveReport:
        """What the box left in a live workspace and what came home since this was last asked; each is told once."""
        from paddock.reports import LeaveReport

        info = await self.refresh()
        return codec.from_wire(LeaveReport, await self._paddock.call("left", box=info.id, look=look))

    async def pending(self) -> LeaveReport:
        """What was found when nobody waited, as at the end of a detached job; it stays until `left` tells it."""
        from paddock.reports import LeaveReport

        return codec.from_wire(LeaveReport, await self._paddock.call("pending", box=self.name))

    async def checkpoint(self, name: str = "", *, stop: bool = False, with_workspace: bool = False) -> CheckpointInfo:
        """Keep what the box is now. UserError while a command runs in it, unless it may be stopped.

        `with_workspace` keeps a copy of a live workspace too, which no restore and no fork uses.
        """
        from paddock.reports import CheckpointInfo

        wanted = {"name": name, "stop": stop, "with_workspace": with_workspace}
        return codec.from_wire(CheckpointInfo, await self._paddock.call("checkpoint_create", box=self.name, **wanted))

    async def checkpoints(self) -> list[CheckpointInfo]:
        """Oldest first."""
        from paddock.reports import CheckpointInfo

        rows = expect_list(await self._paddock.call("checkpoint_ls", box=self.name))
        return [codec.from_wire(CheckpointInfo, row) for row in rows]

    async def restore(self, name: str, *, stop: bool = False) -> CheckpointInfo:
        """Put the box back to one of its checkpoints; what it did since is gone."""
        from paddock.reports import CheckpointInfo

        word = f"{self.name}@{name}"
        return codec.from_wire(
            CheckpointInfo, await self._paddock.call("checkpoint_restore", checkpoint=word, stop=stop)
        )

    async def fork(self, count: int = 1, *, checkpoint: str = "", stop: bool = False) -> list[AsyncBox]:
        """Boxes that begin as this one is, or as it was at a checkpoint; they stay until they are removed."""
        source = f"{self.name}@{checkpoint}" if checkpoint else self.name
        rows = expect_list(await self._paddock.call("checkpoint_fork", source=source, count=count, stop=stop))
        return [self._paddock.box(row) for row in rows]

    async def export(self, checkpoint: str, path: str, *, directory: int | None = None) -> str:
        """A checkpoint's root and home into a file, without any right of the box; returns a sum of it."""
        from paddock.client.outgoing import outgoing

        with outgoing(path, directory) as file:
            word = f"{self.name}@{checkpoint}"
            return str(await self._paddock.call("checkpoint_export", checkpoint=word, path=file))

    async def stop(self, grace_s: float = 5.0) -> LeaveReport:
        from paddock.reports import LeaveReport

        return codec.from_wire(LeaveReport, await self._paddock.call("stop", box=self.name, grace_s=grace_s))

    async def remove(self, *, force: bool = False, keep_state: bool = False) -> RemovalInfo:
        """Remove the box; its commits come home first. UserError, unless forced, if something would be lost.

        `keep_state`: the state of its agent is kept, and given to the next box of that agent and directory.
        """
        from paddock.reports import RemovalInfo

        if not force:
            check_applied(self.name, await self.unapplied())
        wanted = {"force": force, "reviewed": True, "keep_state": keep_state}
        return codec.from_wire(RemovalInfo, await self._paddock.call("rm", box=self.name, **wanted))
