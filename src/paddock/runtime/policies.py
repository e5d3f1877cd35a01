"""Where a box's policy comes from: the organisation's file, the user's, the box's own flags and its project.

A file that does not parse changes nothing: what it said last stays in force, the problem is shown, and no box starts
while it is there. A project's file is a stranger's: it narrows freely, and what it asks for counts once its content was
approved. The text a box goes by is stored with the box, so that a running box never reads it again.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from ipaddress import ip_address
from typing import TYPE_CHECKING

from paddock.errors import UserError
from paddock.fs import notify
from paddock.policy import (
    Action,
    Default,
    Evaluator,
    Layer,
    OnDeny,
    Policy,
    SourceKind,
    files,
    layering,
)
from paddock.policy.target import parse_target
from paddock.readiness import readable, within
from paddock.reports import PolicyInfo, SourceInfo
from paddock.runtime import flags, project
from paddock.runtime.policyfile import REWRITTEN_S, PolicyFile
from paddock.runtime.showing import layer_info, request_info, verdict_info

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from paddock.model import Network
    from paddock.policy import Address
    from paddock.policy.layering import Statement
    from paddock.reports import VerdictInfo
    from paddock.runtime.approvals import Approvals
    from paddock.runtime.box import Box

_CACHED = 128  # boxes made alike share a policy and its index
_LOOK_EVERY_S = 2.0  # where inotify does not speak


class Policies:
    def __init__(self, organisation: str, user: str, approvals: Approvals) -> None:
        self.organisation = PolicyFile(organisation, SourceKind.ORGANISATION)
        self.user = PolicyFile(user, SourceKind.USER)
        self.approvals = approvals
        self._own_addresses: frozenset[Address] = frozenset()
        self._watched = notify.Files((organisation, user))
        self._made: dict[object, tuple[Policy, Evaluator]] = {}

    def __repr__(self) -> str:
        return f"<Policies {self.organisation!r} {self.user!r}>"

    # -- files ---------------------------------------------------------------------------------------------------------

    def require_good(self) -> None:
        """A box does not start by half of the rules."""
        for file in (self.organisation, self.user):
            if file.problem is not None:
                raise file.problem

    async def changes(self) -> AsyncIterator[None]:
        """Yields after the files were read again; for ever."""
        while True:
            leaving = self.organisation.is_leaving or self.user.is_leaving
            heard = await happened(self._watched, REWRITTEN_S + 0.01 if leaving else _LOOK_EVERY_S)
            if self.reload() if heard else self._look():
                yield

    def reload(self) -> bool:
        """Read what changed; says whether anything did."""
        leaving = self.organisation.is_leaving or self.user.is_leaving
        return False if self._watched.is_quiet() and not leaving else self._look()

    def _look(self) -> bool:
        stirred = not self._watched.is_quiet()
        changed = self._watched.changed()
        looked = [file for file in (self.organisation, self.user) if file.path in changed or file.is_leaving]
        for file in looked:
            file.reload(stirred=stirred)
        read = [file for file in looked if not file.is_leaving]
        if read:
            self._made.clear()
        return bool(read)

    def set_own_addresses(self, addresses: tuple[str, ...]) -> None:
        """The host's own, as the gateway is told them: `policy check` decides as it does."""
        self._own_addresses = frozenset(ip_address(address) for address in addresses)
        self._made.clear()

    def close(self) -> None:
        self._watched.close()

    # -- composing -----------------------------------------------------------------------------------------------------

    def of(self, network: Network, workspace: str) -> Policy:
        return self._make(network, workspace)[0]

    def evaluator(self, network: Network, workspace: str) -> Evaluator:
        return self._make(network, workspace)[1]

    def _make(self, network: Network, workspace: str) -> tuple[Policy, Evaluator]:
        # Where a project's rules come from is said by its path; without one boxes anywhere are alike.
        key = (replace(network, publish=()), workspace if network.project else "")
        made = self._made.get(key)
        if made is None:
            policy = self._compose(network, workspace)
            made = policy, Evaluator(policy, self._own_addresses)
            while len(self._made) >= _CACHED:
                del self._made[next(iter(self._made))]
            self._made[key] = made
        return made

    def _compose(self, network: Network, workspace: str, *, approved: bool = True) -> Policy:
        if not (self.organisation.is_known and self.user.is_known):
            return Policy(layers=(Layer(layering.BOX),))  # a new daemon and a broken file: nobody knows what it denied
        asking = parse_project(network.project, workspace)
        return layering.compose(
            organisation=self.organisation.good,
            user=self.user.good,
            flags=flags.statement(network),
            project=asking,
            approved=approved and asking is not None and self._is_approved(asking, workspace),
        )

    def _is_approved(self, asking: Statement, workspace: str) -> bool:
        return self.approvals.has(workspace, files.digest(asking))

    # -- projects ------------------------------------------------------------------------------------------------------

    def take_project(self, network: Network, workspace: str) -> Network:
        """For a box that is made or starts anew: the project file's text, if the box may go by it.

        A box that had none takes any: without approval it can only narrow. One that had another keeps that until the
        new one is approved, since the box itself may have written it to be rid of the old one.
        """
        text = _project_text(workspace)
        if text == network.project:
            return network
        asking = parse_project(text, workspace)
        if not network.project or (asking is not None and self._is_approved(asking, workspace)):
            return replace(network, project=text)
        return network

    def asks(self, network: Network, workspace: str) -> tuple[str, ...]:
        """What the project of a box wants and does not get without its user's word."""
        asking = parse_project(network.project, workspace)
        if asking is None or self._is_approved(asking, workspace):
            return ()
        return layering.asks(asking, self._compose(network, workspace, approved=False))

    def newer(self, network: Network, workspace: str) -> tuple[str, tuple[str, ...]] | None:
        """The project file on disk, when it is not the one the box goes by and wants more: its digest and what."""
        try:
            text = _project_text(workspace)
        except UserError:
            return None
        asking = parse_project(text, workspace)
        if asking is None or text == network.project or self._is_approved(asking, workspace):
            return None
        wanted = self._wanted(replace(network, project=text), workspace, parse_project(network.project, workspace))
        return (files.digest(asking), wanted) if wanted else None

    def _wanted(self, network: Network, workspace: str, before: Statement | None) -> tuple[str, ...]:
        """What is asked for, and what the file before it denied and this one does not."""
        asking = parse_project(network.project, workspace)
        assert asking is not None
        wanted = self.asks(network, workspace)
        if before is not None:
            wanted += tuple(f"{text} (no longer denied)" for text in before.deny if text not in asking.deny)
            wanted += tuple(
                f"{text} (no longer held to)"
                for key in layering.REQUESTS
                for text in getattr(before, key)
                if text not in getattr(asking, key)
            )
            if before.default is Default.DENY and asking.default is not Default.DENY:
                wanted += ("no denial by default",)
        return wanted

    def approve(self, network: Network, workspace: str, content: str = "") -> tuple[Network, tuple[str, ...]]:
        """Approve the project file that a box goes by, or the one on disk whose digest begins with `content`.

        TRUST: a box may write the file at any time, so what is approved is what someone was shown, or nothing. Returns
        the network that goes by it, and what it asked for.
        """
        text = _project_text(workspace) if content else network.project
        asking = parse_project(text, workspace)
        hint = "`paddock policy pending` lists what waits"
        if asking is None:
            raise UserError(f"{workspace}/{project.FILE} asks for nothing", hint=hint, code="no-project")
        if not files.digest(asking).startswith(content):
            what = "is not what it was when it was listed"
            raise UserError(f"{workspace}/{project.FILE} {what}", hint=hint, code="changed")
        changed = replace(network, project=text)
        asked = self._wanted(changed, workspace, parse_project(network.project, workspace))
        self.approvals.add(workspace, files.digest(asking))
        self._made.clear()
        return changed, asked

    # -- showing -------------------------------------------------------------------------------------------------------

    def word(self, network: Network, workspace: str) -> str:
        policy = self.of(network, workspace)
        defaults = [layer.default for layer in policy.layers]
        if Default.DENY in defaults:
            if policy.on_deny is OnDeny.ASK:
                return "ask"
            allowed = all(
                layer.default is not Default.DENY or any(rule.action is Action.ALLOW for rule in layer.rules)
                for layer in policy.layers
            )
            return "rules" if allowed else "deny"
        return "observe" if Default.OBSERVE in defaults else "allow"

    def info(self, name: str, network: Network, workspace: str) -> PolicyInfo:
        policy = self.of(network, workspace)
        sources = [self.organisation.info(), self.user.info()]
        if workspace:
            sources += self._project_info(network, workspace)
        return PolicyInfo(
            box=name,
            network=self.word(network, workspace),
            on_deny=policy.on_deny.value,
            layers=tuple(map(layer_info, policy.layers)),
            sources=tuple(sources),
        )

    def _project_info(self, network: Network, workspace: str) -> list[SourceInfo]:
        place = f"{workspace}/{project.FILE}"
        try:
            text = _project_text(workspace)
        except UserError as error:
            return [SourceInfo(kind="project", place=place, state="broken", problem=error.message)]
        if text != network.project:
            note = "this box goes by an earlier one, until this one is approved and the box starts anew"
            return [SourceInfo(kind="project", place=place, state="changed", problem=note)]
        if asked := self.asks(network, workspace):
            note = f"asks for {', '.join(asked)}"
            return [SourceInfo(kind="project", place=place, state="unapproved", problem=note)]
        return [SourceInfo(kind="project", place=place, state="ok")] if text else []

    def check(self, asked: str, name: str, network: Network, workspace: str, method: str = "") -> VerdictInfo:
        target = parse_target(asked, method)
        evaluator = self.evaluator(network, workspace)
        verdict = evaluator.decide(target.host, target.port)
        info = verdict_info(verdict, target.host.text, target.port, name)
        rules = evaluator.requests.at(target.host, target.port)
        if not verdict.allowed or (rules is None and not target.method):
            return info
        return request_info(info, rules, target, name)


def of_box(box: Box) -> tuple[Network, str]:
    """What a box's policy is made of."""
    return box.row.spec.network, box.row.spec.workspace


def parse_project(text: str, workspace: str) -> Statement | None:
    return files.parse_project_toml(text, f"{workspace}/{project.FILE}") if text else None


def _project_text(workspace: str) -> str:
    """The project file as it is on disk; empty when it says nothing of the network. UserError names file and line."""
    text = project.read(workspace)
    return text if parse_project(text, workspace) is not None else ""


async def happened(watched: notify.Files, every_s: float) -> bool:
    """Wait until something may have changed: True for an event, False after enough time without one."""
    if watched.fileno() < 0:  # there is no inotify
        await asyncio.sleep(every_s)
        return False
    try:
        await within(readable(watched.fileno()), every_s)
    except TimeoutError:
        return False
    return True
