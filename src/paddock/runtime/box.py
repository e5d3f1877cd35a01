"""One box as the daemon holds it: its row, its handle while it runs, and how its last run ended."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paddock import agents
from paddock.engines.base import Placement
from paddock.model import BoxInfo, BoxState, LimitReport
from paddock.runtime import untold
from paddock.runtime.sight import Sight
from paddock.runtime.untold import Untold

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from paddock.agents import Agent
    from paddock.engines.base import Handle
    from paddock.model import Mount
    from paddock.runtime.workspaces import Before
    from paddock.store import BoxRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Why a box stopped: the text people see and the exit code its caller gets."""

    reason: str
    exit_code: int


class Box:
    def __init__(self, row: BoxRow, directory: str) -> None:
        self.row = row
        self.directory = directory
        self.handle: Handle | None = None
        self.lock = asyncio.Lock()
        self.ended = asyncio.Event()
        self.ended.set()
        self.verdict: Ending | None = None  # set before we end a box ourselves, so that its exit is understood
        self.ending: Ending | None = None
        self.view: tuple[Mount, ...] = ()  # as its last start made it
        self.tools: tuple[Mount, ...] = ()  # the same
        self.memory = ""  # what its next start begins from (engines.base.Placement)
        self.in_place = False  # it runs or is being started, and needs what was made in its workspace
        self.notes: list[str] = []  # for whoever runs the next command
        self.looked = asyncio.Event()  # of an ephemeral box: what it left is known
        self.leaving = asyncio.Lock()  # one at a time asks for its commits
        self.looked_last = False  # since it ended: nothing of it can be new
        self.untold = Untold(directory)
        self.sight = Sight()  # how a review box sees its workspace
        self.heir: Callable[[Box], Awaitable[None]] | None = None  # takes files of a box that ends, before they go
        self.compacting = False  # layers that it stands on are being merged
        self.before: Before | None = None  # what was in a live box's workspace when we last told what is new

    def __repr__(self) -> str:
        return f"<Box {self.row.spec.name} {self.state.value}>"

    @property
    def name(self) -> str:
        return self.row.spec.name

    @property
    def agent(self) -> Agent:
        """As the box has it; UserError if this version knows it no more."""
        return agents.of(self.row.spec.agent, self.row.spec.definition)

    @property
    def state(self) -> BoxState:
        return BoxState.RUNNING if self.handle is not None else self.row.state

    @property
    def placement(self) -> Placement:
        return Placement(
            id=self.row.id,
            spec=self.row.spec,
            directory=self.directory,
            index=self.row.position,
            memory=self.memory,
            view=self.view,
            tools=self.tools,
        )

    @property
    def is_over(self) -> bool:
        """The box of one command, whose caller was told of its end: it is only being cleared away."""
        return self.row.spec.ephemeral and self.looked.is_set()

    @property
    def has_run(self) -> bool:
        return self.handle is not None or self.before is not None or self.row.state is not BoxState.CREATED

    def told(self) -> list[str]:
        """The notes, once."""
        notes, self.notes = self.notes, []
        return notes

    def info(self, limits: tuple[LimitReport, ...] = (), network: str = "none", doing: str = "") -> BoxInfo:
        spec = self.row.spec
        return BoxInfo(
            id=self.row.id,
            name=spec.name,
            agent=spec.agent,
            engine=spec.engine,
            state=self.state,
            reason="" if self.handle is not None else self.row.reason,
            workspace=spec.workspace,
            mounts=spec.mounts,
            env_names=tuple(sorted(spec.env)),
            workdir=spec.workdir,
            ephemeral=spec.ephemeral,
            created_at=self.row.created_at,
            pid=self.handle.evidence.pid if self.handle is not None else None,
            limits=limits,
            network=network,
            ports=spec.network.publish,
            mode=spec.mode,
            branch=spec.branch,
            masks=spec.masks,
            secrets=spec.secrets,
            budget=spec.budget,
            ssh_keys=spec.ssh_keys,
            logins=spec.logins,
            with_settings=spec.with_settings,
            mcp=tuple(server.name for server in spec.mcp),
            definition=spec.definition,
            runtime=spec.runtime,
            doing=doing,
            untold=untold.count(self.untold.peek()),
        )
