"""The SDK: the daemon, its boxes and their commands. Made by scripts/unasync.py from _async/: edit that."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from paddock import codec, frames, paths
from paddock.client._sync.files import Files
from paddock.client.transport import Channel, Transport, in_thread
from paddock.client.answers import (
    Started,
    box_request,
    check_applied,
    ended,
    exited,
    expect_list,
    expect_object,
    limit_hint,
    one_channel,
    output_of,
    started,
    stdin_frames,
)
from paddock.errors import Unavailable, UserError
from paddock.limits import FRAME_DATA_BYTES
from paddock.model import (
    BoxInfo,
    BoxRequest,
    ExecResult,
    ExecSpec,
    JobInfo,
    Limits,
    Mount,
    Network,
    View,
    WorkspaceMode,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Collection, Sequence

    from paddock.client._sync.policies import Policies
    from paddock.client.reviewing import Accept, Applied, Confirm, Reviewing, Touched
    from paddock.frames import Message
    from paddock.model import TtySize
    from paddock.reports import FetchInfo, LeaveReport, PolicyInfo, RemovalInfo
    from paddock.workspace.home import Commit
    from paddock.workspace.review import Result
    from paddock.workspace.textdiff import FileDiff

OUTPUT_BYTES_MAX = 64 * 1024 * 1024


class Paddock:
    """This user's daemon, started on first use."""

    def __init__(self, home: str | None = None) -> None:
        environ = {**os.environ, **({"PADDOCK_HOME": home} if home else {})}
        self.paths = paths.Paths(environ)
        self._transport = Transport(self.paths)

    def __repr__(self) -> str:
        return f"<Paddock {self._transport!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._transport.close()

    @property
    def policy(self) -> Policies:
        """Rules, decisions, and what waits for one."""
        from paddock.client._sync.policies import Policies  # loaded by those who use it: `run` does not

        return Policies(self)

    def call(self, verb: str, **args: object) -> object:
        """One request by its wire name, for callers that render the result themselves."""
        result, fds = self._transport.call(verb, {key: codec.to_wire(value) for key, value in args.items()})
        for fd in fds:
            os.close(fd)
        return result

    def run(
        self,
        argv: Sequence[str],
        *,
        workspace: str = ".",
        env: dict[str, str] | None = None,
        mounts: Sequence[Mount] = (),
        limits: Limits | None = None,
        network: Network | None = None,
        stdin: bytes = b"",
        timeout_s: float | None = None,
    ) -> ExecResult:
        """Run one command in a box that exists only for it."""
        request = box_request(
            workspace=workspace, env=env, mounts=mounts, limits=limits, network=network, ephemeral=True
        )
        spec = ExecSpec(argv=tuple(argv), stdin=bool(stdin), timeout_s=timeout_s)
        command = self.start_run(request, spec)
        return command.finish(stdin)

    def start_run(self, request: BoxRequest, spec: ExecSpec) -> Command:
        return self.command("run", request=request, exec=spec)

    def create(
        self,
        name: str = "",
        *,
        workspace: str = ".",
        agent: str = "shell",
        env: dict[str, str] | None = None,
        mounts: Sequence[Mount] = (),
        limits: Limits | None = None,
        network: Network | None = None,
        view: View | None = None,
    ) -> Box:
        """Make a box; it starts with its first command."""
        request = box_request(
            name=name, workspace=workspace, agent=agent, env=env, mounts=mounts, limits=limits, network=network
        )
        if view:
            request = replace(request, mode=view.mode, branch=view.branch, masks=view.masks, writable=view.writable)
        return self.box(self.call("create", request=request))

    def open(self, request: BoxRequest) -> tuple[Box, bool]:
        """The box of an agent and a directory, made when there is none; says whether it is new."""
        answer = expect_object(self.call("open", request=request))
        return self.box(answer.get("box")), answer.get("new") is True

    def get(self, name: str) -> Box:
        return self.box(self.call("inspect", box=name))

    def named(self, name: str) -> Box:
        """A box by its name, without asking whether it exists; its first verb will tell."""
        return Box(self, name)

    def journal(self, name: str, job: str = "") -> tuple[JobInfo, list[int]]:
        """A journalled command and its two files, which the caller closes; the newest when none is named."""
        result, fds = self._transport.call("logs", {"box": name, "job": job})
        return codec.from_wire(JobInfo, result), fds

    def ls(self) -> list[BoxInfo]:
        return [codec.from_wire(BoxInfo, row) for row in expect_list(self.call("ls"))]

    def prune(self) -> list[RemovalInfo]:
        """Remove all boxes that are stopped or failed; those stay that hold changes or commits nowhere else."""
        from paddock.reports import RemovalInfo

        over = [info for info in self.ls() if info.mode is WorkspaceMode.REVIEW and info.pid is None]
        clean = []
        for info in over:
            try:
                if not self.named(info.name).unapplied():
                    clean.append(info.id)
            except UserError:
                continue  # then it stays
        rows = expect_list(self.call("prune", reviewed=tuple(clean)))
        return [codec.from_wire(RemovalInfo, row) for row in rows]

    def reset(self) -> list[RemovalInfo]:
        """Remove all boxes with all they hold; commits come home where they can."""
        from paddock.reports import RemovalInfo

        return [codec.from_wire(RemovalInfo, row) for row in expect_list(self.call("reset"))]

    def command(self, verb: str, **args: object) -> Command:
        """A verb whose answer is a command's channel."""
        wire: Message = {key: codec.to_wire(value) for key, value in args.items()}
        result, fds = self._transport.call(verb, wire)
        channel = Channel(one_channel(fds))
        try:
            answer = expect_object(result)
            info, notes = codec.from_wire(BoxInfo, answer.get("box")), expect_list(answer.get("notes", []))
            return Command(self, info, str(answer.get("job")), channel, tuple(map(str, notes)))
        except BaseException:
            channel.close()
            raise

    def channel(self, name: str) -> Channel:
        """A fresh channel to a box's init (docs/frames.md)."""
        _, fds = self._transport.call("channel", {"box": name})
        return Channel(one_channel(fds))

    def attend(self, name: str) -> Channel:
        """Be there to be asked: while it is open, connections of the box wait for an answer and are told of here."""
        _, fds = self._transport.call("attend", {"box": name})
        return Channel(one_channel(fds))

    def box(self, row: object) -> Box:
        info = codec.from_wire(BoxInfo, row)
        return Box(self, info.name, info)


class Box:
    """One box. Leaving it as a context manager removes it."""

    def __init__(self, paddock: Paddock, name: str, info: BoxInfo | None = None) -> None:
        self._paddock = paddock
        self._info = info
        self.name = name
        self.files = Files(paddock.channel, name)

    def __repr__(self) -> str:
        return f"<Box {self.name} {self._info.state.value if self._info else 'not asked'}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove(force=True)

    @property
    def info(self) -> BoxInfo:
        """The box when we last asked; `refresh` asks again."""
        if self._info is None:
            raise UserError(f"the box {self.name!r} was not looked up", hint="call refresh() first", code="usage")
        return self._info

    def exec(
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
        command = self.start(spec)
        return command.finish(stdin)

    def start(self, spec: ExecSpec) -> Command:
        """Start a command and stream it."""
        return self._paddock.command("exec", box=self.name, exec=spec)

    def session(self, spec: ExecSpec, args: Sequence[str] = ()) -> Command:
        """The agent's own command, or its waiting terminal session."""
        return self._paddock.command("session", box=self.name, exec=spec, args=tuple(args))

    def detach(self, argv: Sequence[str], *, cwd: str = "", env: dict[str, str] | None = None) -> str:
        """Start a command that outlives us; returns the job's id, whose output is journalled."""
        return self.detach_spec(ExecSpec(argv=tuple(argv), cwd=cwd, env=env or {}, detach=True))

    def detach_spec(self, spec: ExecSpec) -> str:
        answer = expect_object(self._paddock.call("exec", box=self.name, exec=spec))
        return str(answer.get("job"))

    def detach_session(self, spec: ExecSpec, args: Sequence[str] = ()) -> str:
        """The agent's own command, left running."""
        answer = expect_object(self._paddock.call("session", box=self.name, exec=spec, args=tuple(args)))
        return str(answer.get("job"))

    def connect(self, job: str) -> Command:
        """Attach again to a running command; output from now on."""
        return self._paddock.command("connect", box=self.name, job=job)

    def jobs(self) -> list[JobInfo]:
        rows = expect_list(self._paddock.call("jobs", box=self.name))
        return [codec.from_wire(JobInfo, row) for row in rows]

    def processes(self) -> list[Message]:
        """What init runs for us right now."""
        channel = self._paddock.channel(self.name)
        try:
            channel.send_message({"op": "list"})
            answer = channel.receive_message()
        finally:
            channel.close()
        return [row for row in expect_list(answer.get("processes")) if isinstance(row, dict)]

    def set_env(self, values: dict[str, str], unset: Sequence[str] = ()) -> None:
        """Change the environment of the next commands; nothing restarts."""
        self._info = codec.from_wire(
            BoxInfo, self._paddock.call("env", box=self.name, set=values, unset=tuple(unset))
        )

    def set_network(self, change: Network) -> PolicyInfo:
        """Add rules and presets and set what is not empty; open connections that are no longer allowed are closed."""
        return self._paddock.policy.change(self.name, change)

    def refresh(self) -> BoxInfo:
        self._info = codec.from_wire(BoxInfo, self._paddock.call("inspect", box=self.name))
        return self._info

    def plan(self) -> list[str]:
        return [str(line) for line in expect_list(self._paddock.call("plan", box=self.name))]

    def diff(self, paths: Collection[str] = (), *, lines: bool = True) -> list[FileDiff]:
        """What a review box changed, at and below these paths of its workspace; the lines are safe to print."""
        reviewing = self._reviewing()
        return in_thread(lambda: reviewing.diff(paths, with_lines=lines))

    def apply(
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
        reviewing = self._reviewing()
        if dry_run:
            return in_thread(lambda: reviewing.apply(paths, accept=accept, merge=merge, dry_run=True))
        touched = reviewing.everywhere
        try:
            done = in_thread(lambda: reviewing.apply(paths, accept=accept, confirm=confirm, merge=merge))
            touched = reviewing.places(done)
        finally:
            if touched != reviewing.nowhere:
                self._touched("changes were applied", touched)
        return done

    def undo(self) -> Result:
        """Take the last apply back; the box has the changes again."""
        reviewing = self._reviewing()
        touched = reviewing.everywhere
        try:
            done = in_thread(reviewing.undo)
            touched = reviewing.places(done)
        finally:
            self._touched("an apply was undone", touched)
        return done

    def discard(self, paths: Collection[str] = ()) -> None:
        """Drop what a review box changed at and below these paths: it has the workspace's again."""
        reviewing = self._reviewing()
        try:
            in_thread(lambda: reviewing.discard(paths))
        finally:
            self._touched("changes were discarded", reviewing.nowhere)

    def _reviewing(self) -> Reviewing:
        from paddock.client.reviewing import Reviewing  # loads much, and is needed by few

        return Reviewing(self._paddock.paths, self.refresh())

    def _touched(self, why: str, where: Touched) -> None:
        self._paddock.call(
            "touched", box=self.name, why=f"{why} ({self.name})", places=where.places, more=where.more
        )

    def git_fetch(self) -> FetchInfo:
        """Bring the box's commits home, as refs/paddock/BOX/BRANCH."""
        from paddock.reports import FetchInfo

        return codec.from_wire(FetchInfo, self._paddock.call("git_fetch", box=self.name))

    def git_log(self) -> list[Commit]:
        """The commits that came home, newest first. Their names and subjects are the box's words."""
        from paddock.workspace.home import Commit

        return [codec.from_wire(Commit, row) for row in expect_list(self._paddock.call("git_log", box=self.name))]

    def unapplied(self) -> int:
        """How many changes of a review box are not applied; 0 in the other modes."""
        if (self.refresh()).mode is not WorkspaceMode.REVIEW:
            return 0
        reviewing = self._reviewing()
        return in_thread(reviewing.count)

    def left(self, *, look: bool = True) -> LeaveReport:
        """What the box left in a live workspace and what came home since this was last asked; each is told once."""
        from paddock.reports import LeaveReport

        info = self.refresh()
        return codec.from_wire(LeaveReport, self._paddock.call("left", box=info.id, look=look))

    def pending(self) -> LeaveReport:
        """What was found when nobody waited, as at the end of a detached job; it stays until `left` tells it."""
        from paddock.reports import LeaveReport

        return codec.from_wire(LeaveReport, self._paddock.call("pending", box=self.name))

    def stop(self, grace_s: float = 5.0) -> LeaveReport:
        from paddock.reports import LeaveReport

        return codec.from_wire(LeaveReport, self._paddock.call("stop", box=self.name, grace_s=grace_s))

    def remove(self, *, force: bool = False) -> RemovalInfo:
        """Remove the box; its commits come home first. UserError, unless forced, if something would be lost."""
        from paddock.reports import RemovalInfo

        if not force:
            check_applied(self.name, self.unapplied())
        return codec.from_wire(RemovalInfo, self._paddock.call("rm", box=self.name, force=force, reviewed=True))


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
        for offset in range(0, len(data), FRAME_DATA_BYTES):
            self.channel.send(frames.STDIN, data[offset : offset + FRAME_DATA_BYTES])

    def close_stdin(self) -> None:
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
