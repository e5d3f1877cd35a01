"""The SDK: the daemon and its boxes. Made by scripts/unasync.py from _async/: edit that."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from paddock import codec, paths
from paddock.client._sync.box import Box
from paddock.client._sync.command import Command
from paddock.client.transport import Channel, Transport
from paddock.client.answers import (
    box_request,
    expect_list,
    expect_object,
    one_channel,
    own_values,
    rooted,
)
from paddock.errors import UserError
from paddock.model import (
    BoxInfo,
    BoxRequest,
    Budget,
    ExecResult,
    ExecSpec,
    JobInfo,
    Lent,
    Limits,
    Mount,
    Network,
    View,
    WorkspaceMode,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.client._sync.policies import Policies
    from paddock.client._sync.templates import Templates
    from paddock.frames import Message
    from paddock.reports import RemovalInfo, RunInfo


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

    @property
    def templates(self) -> Templates:
        """What the roots of container boxes are made of."""
        from paddock.client._sync.templates import Templates

        return Templates(self)

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
        secrets: Sequence[str] = (),
        budget: Budget | None = None,
        template: str = "",
        engine: str = "",
        runtime: str = "",
        stdin: bytes = b"",
        timeout_s: float | None = None,
    ) -> ExecResult:
        """Run one command in a box that exists only for it. Secrets are words as of `--secret`: "github:ro"."""
        lent = self.lent(secrets)
        request = box_request(
            workspace=workspace,
            env=env,
            mounts=mounts,
            limits=limits,
            network=network,
            ephemeral=True,
            secrets=lent.uses,
            budget=budget,
        )
        spec = ExecSpec(argv=tuple(argv), stdin=bool(stdin), timeout_s=timeout_s)
        request = rooted(request, template, engine, runtime)
        command = self.start_run(request, spec, lent.given)
        try:
            result = command.finish(stdin)
        except UserError:  # it could not be started
            command.left()
            raise
        command.left()  # the box is gone then, for whoever lists boxes next
        return result

    def start_run(self, request: BoxRequest, spec: ExecSpec, given: dict[str, str] | None = None) -> Command:
        """`given` are values of secrets that come from the caller's environment, by name."""
        return self.command("run", request=request, exec=spec, given=given or {})

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
        secrets: Sequence[str] = (),
        budget: Budget | None = None,
        with_settings: bool = False,
        mcp: Sequence[str] = (),
        template: str = "",
        engine: str = "",
        runtime: str = "",
    ) -> Box:
        """Make a box; it starts with its first command. Secrets are words as of `--secret`: "github:ro".

        With a `template`, by name or as ./DIRECTORY or ./FILE, it is a container with that root; `runtime` is what
        starts it.
        """
        lent = self.lent(secrets)
        request = box_request(
            name=name,
            workspace=workspace,
            agent=agent,
            env=env,
            mounts=mounts,
            limits=limits,
            network=network,
            secrets=lent.uses,
            budget=budget,
        )
        request = replace(_seen(request, view), with_settings=with_settings, mcp=tuple(mcp))
        request = rooted(request, template, engine, runtime)
        return self.box(self.call("create", request=request, given=lent.given))

    def agent(
        self,
        name: str,
        workspace: str = ".",
        *,
        env: dict[str, str] | None = None,
        mounts: Sequence[Mount] = (),
        limits: Limits | None = None,
        network: Network | None = None,
        view: View | None = None,
        secrets: Sequence[str] = (),
        budget: Budget | None = None,
        with_settings: bool = False,
        mcp: Sequence[str] = (),
        template: str = "",
        engine: str = "",
        runtime: str = "",
    ) -> Box:
        """The box of an agent and a directory, made when there is none; a key of the agent's is lent by itself."""
        from paddock import agents
        from paddock.client.defining import checked
        from paddock.client.lending import with_key

        shown = [workspace, *(mount.source for mount in mounts)]
        found = checked(agents.find(name, self.paths.config), self.ls(), shown)
        lent = with_key(found.agent, self.lent(secrets), self.paths)
        request = box_request(
            workspace=workspace,
            agent=name,
            env=env,
            mounts=mounts,
            limits=limits,
            network=network,
            secrets=lent.uses,
            budget=budget,
        )
        request = replace(request, definition=found.definition, with_settings=with_settings, mcp=tuple(mcp))
        box, _ = self.open(rooted(_seen(request, view), template, engine, runtime), lent.given)
        return box

    def lent(self, words: Sequence[str]) -> Lent:
        """Secrets by their words, with the values that this process's environment has of them."""
        if not words:
            return Lent()
        from paddock.client.lending import lend  # loads much, and is needed by few

        return lend(words, self.paths)

    def open(self, request: BoxRequest, given: dict[str, str] | None = None) -> tuple[Box, bool]:
        """The box of an agent and a directory, made when there is none; says whether it is new."""
        answer = expect_object(self.call("open", request=request, given=given or {}))
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

    def runs(self, box: str = "", limit: int = 0) -> list[RunInfo]:
        """Runs of agents, the newest first: of all boxes, or of one, which may be gone. Without a limit all of them."""
        from paddock.reports import RunInfo

        rows = expect_list(self.call("runs", box=box, limit=limit))
        return [codec.from_wire(RunInfo, row) for row in rows]

    def run_record(self, run: str) -> RunInfo:
        """One run by its id, or by a beginning of it that no other has."""
        from paddock.reports import RunInfo

        return codec.from_wire(RunInfo, self.call("run_show", run=run))

    def import_checkpoint(self, path: str, name: str = "", *, workspace: str = ".") -> Box:
        """A box with the root and home of a checkpoint in a file; all else is as for any new box."""
        from paddock.client.outgoing import absolute

        request = box_request(name=name, workspace=workspace)
        return self.box(self.call("checkpoint_import", path=absolute(path), request=request))

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
        return self.joined(*self.started(verb, **args))

    def joined(self, result: object, fds: list[int]) -> Command:
        """The command of such an answer."""
        channel = Channel(one_channel(fds))
        try:
            answer = expect_object(result)
            info, notes = codec.from_wire(BoxInfo, answer.get("box")), expect_list(answer.get("notes", []))
            return Command(self, info, str(answer.get("job")), channel, tuple(map(str, notes)))
        except BaseException:
            channel.close()
            raise

    def started(self, verb: str, **args: object) -> tuple[object, list[int]]:
        """A verb that starts a command; a daemon that is new asks for the values that our environment has."""
        wire: Message = {key: codec.to_wire(value) for key, value in args.items()}
        result, fds = self._transport.call(verb, wire)
        given = own_values(result)
        if given is None:
            return result, fds
        return self._transport.call(verb, {**wire, "given": given, "asked": True})

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


def _seen(request: BoxRequest, view: View | None) -> BoxRequest:
    if view is None:
        return request
    return replace(request, mode=view.mode, branch=view.branch, masks=view.masks, writable=view.writable)
