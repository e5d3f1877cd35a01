"""agent install|rm: npm or pip puts a package into a directory of a box's, and what is good of it becomes a tool."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from paddock import agents, frames, limits, text
from paddock.cli.agentlist import chosen
from paddock.cli.main import warn
from paddock.cli.ticking import Ticking
from paddock.client import Paddock, defining
from paddock.client.answers import box_request, expect_list
from paddock.engines.process import hostprograms
from paddock.errors import PaddockError, Unavailable, UserError
from paddock.model import ExecSpec, Limits
from paddock.paths import home_directory
from paddock.tools import Record, Store, packages, registry, trees, wrapper

if TYPE_CHECKING:
    import argparse

    from paddock.agents import Agent, Found
    from paddock.model import BoxRequest
    from paddock.tools import Tool
    from paddock.tools.packages import Order
    from paddock.tools.registry import Registry
    from paddock.tools.staging import Staging

_SAID_BYTES: Final = 256 * 1024  # of what a package manager says
_SHOWN_LINES: Final = 8
_MARKS: Final = ("npm error ", "npm ERR! ", "ERROR: ")
_HINTS: Final = (
    (("E404", "ETARGET", "No matching distribution", "notarget"), "check the name and the version of the package"),
    (("403", "paddock policy"), "`paddock network log --denied` says what it was refused, and why"),
    (("EAI_AGAIN", "ENOTFOUND", "ECONNREFUSED", "ETIMEDOUT"), "check that this machine reaches the registry"),
    (("CERT", "certificate"), "the registry's certificate is none that this machine trusts"),
    (("No module named pip",), "install pip for your python3, for example `apt install python3-pip`"),
)


def install(options: argparse.Namespace) -> int:
    word, _, version = options.name.partition("@")
    with Paddock() as paddock:
        found = defining.checked(chosen(word, options.agent_file, paddock.paths.config), paddock.ls(), ())
        record = installed(paddock, found.agent, version)
        size = text.size(record.size_bytes)
        print(f"{record.name} {record.version}: {record.files} files, {size}, sha256 {record.digest}")
        _check(paddock, found)
    return 0


def installed(paddock: Paddock, agent: Agent, version: str = "") -> Record:
    """Into the store, unless it is there."""
    asked = packages.order(agent, version)
    store = Store(paddock.paths.tools)
    with store.turn():
        return (_there(store, agent, asked) or _fetched(paddock, store, agent, asked)).record


def _there(store: Store, agent: Agent, asked: Order) -> Tool | None:
    """An exact version that is installed already is used from now on, and nothing is fetched."""
    tool = store.find(agent.name, asked.version)
    if tool is None or tool.record.package != asked.package:
        return None
    if changed := tool.changed():
        raise Unavailable(
            f"{agent.name} {asked.version} is installed, and its files changed: {', '.join(changed)}",
            hint=f"`paddock agent rm {agent.name}@{asked.version}`, then install it again",
            code="tool-damaged",
        )
    store.use(tool)
    _say(f"{agent.name} {asked.version} is installed already")
    return tool


def _fetched(paddock: Paddock, store: Store, agent: Agent, asked: Order) -> Tool:
    # What a box could have put there would choose what the boxes of this agent run.
    path = defining.safe_path(os.environ.get("PATH", ""), paddock.ls())
    _require_manager(agent, asked, path)
    source = registry.of(asked.source, {**os.environ, "PATH": path})
    with store.stage() as room:
        packages.prepare(asked, room.scratch)
        place = ", ".join(host.removesuffix(":443") for host in source.hosts)
        _say(f"{asked.manager} fetches {asked.package}@{asked.version} in a box that reaches {place} alone")
        _run(paddock, asked, source, replace(_request(source, room.scratch), caller_path=path))
        return _published(store, agent, asked, room)


def _require_manager(agent: Agent, asked: Order, path: str) -> None:
    found = hostprograms.find(asked.manager, path, home_directory())
    if not found.path:
        why = found.why or f"there is no {asked.manager}"
        error = packages.not_installable(agent, why)
        if not agent.install.otherwise:
            error.hint = f"install {asked.manager}, for example with `apt install {asked.manager}`; or {error.hint}"
        raise error


def _request(source: Registry, directory: str) -> BoxRequest:
    wall = Limits(wall_s=limits.TOOL_INSTALL_S)
    return box_request(workspace=directory, ephemeral=True, network=source.network, limits=wall)


def _run(paddock: Paddock, asked: Order, source: Registry, request: BoxRequest) -> None:
    said = bytearray()
    with Ticking(request.workspace), paddock.start_run(request, ExecSpec(argv=asked.at(source.url))) as command:
        for kind, data in command.output():
            if kind == frames.STDERR or asked.source == "pip":
                said += data
                del said[:-_SAID_BYTES]
        assert command.result is not None
        code, box = command.result.exit_code, command.box.id
    paddock.call("ending", box=box)  # what it left running has ended too
    if code:
        raise _failed(asked, code, said.decode("utf-8", "replace"))


def _failed(asked: Order, code: int, said: str) -> Unavailable:
    lines = [line for line in said.splitlines() if line.strip()]
    own = [line.removeprefix(mark) for line in lines for mark in _MARKS if line.startswith(mark)]
    for line in (own or lines)[:_SHOWN_LINES]:
        _say(f"  {asked.manager}: {text.neutralise(line)}")
    hint = next((hint for words, hint in _HINTS if any(word in said for word in words)), "")
    return Unavailable(
        f"{asked.manager} could not install {asked.package}@{asked.version}: exit code {code}",
        hint=hint or "see what it said; `paddock network log --denied` shows what it was refused",
        code="install",
    )


def _published(store: Store, agent: Agent, asked: Order, room: Staging) -> Tool:
    came = packages.came(asked, room.scratch)
    if store.find(agent.name, came.version):  # `latest`, which is there; or what another definition installed
        again = packages.order(agent, came.version)
        if tool := _there(store, agent, again):
            return tool
        hint = f"`paddock agent rm {agent.name}@{came.version}` removes that"
        raise UserError(f"{agent.name} {came.version} is there, of another package", hint=hint, code="exists")
    tree = f"{room.new}/tree"
    trees.copy(room.scratch, tree)
    wrapper.write(agent, tree)
    trees.close(tree)
    made = trees.describe(tree)
    with open(f"{room.new}/manifest", "w", encoding="utf-8") as file:
        file.write(made.manifest)
    record = Record(
        name=agent.name,
        version=came.version,
        source=asked.source,
        package=asked.package,
        program=wrapper.program_of(agent),
        digest=trees.digest(made.manifest),
        files=made.files,
        size_bytes=made.size_bytes,
        installed=dt.datetime.now(dt.UTC).isoformat(),
        integrity=came.integrity,
    )
    return store.publish(room.new, record)


def _check(paddock: Paddock, found: Found) -> None:
    """What does not match is said now, and not at the first run."""
    from paddock.cli import checking

    try:
        result = checking.checked(paddock, found, whole=False)
    except PaddockError as error:
        warn(f"{found.agent.name} could not be asked for its version: {error.message}")
        return
    for problem in result.problems:
        warn(f"{found.agent.name}: {problem}")


# -- rm ----------------------------------------------------------------------------------------------------------------


def rm(options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        store = Store(paddock.paths.tools)
        with store.turn():
            store.clear()
            for word in options.names:
                name, _, version = word.partition("@")
                _remove(paddock, store, name, version)
    return 0


def _remove(paddock: Paddock, store: Store, name: str, version: str) -> None:
    """One version, or all where none is named."""
    there = store.versions(name)
    if not there or (version and version not in there):
        raise _not_there(paddock, store, name, version)
    for one in (version,) if version else there:
        current = store.remove(name, one, lambda tree: _users(paddock, tree))
        then = f"; the next box takes {current}" if current else ""
        _say(f"{name} {one} is removed{then}")


def _users(paddock: Paddock, tree: str) -> tuple[str, ...]:
    return tuple(map(str, expect_list(paddock.call("tool_users", tree=tree))))


def _not_there(paddock: Paddock, store: Store, name: str, version: str) -> UserError:
    known = {*store.names(), *agents.names(paddock.paths.config)}
    if name not in known:
        return agents.unknown(name, tuple(sorted(known)))
    there = store.versions(name)
    hint = f"installed: {', '.join(there)}" if there else "`paddock agent ls` shows where its program comes from"
    return UserError(f"{name} {version}".strip() + " is not installed by paddock", hint=hint, code="not-installed")


def _say(line: str) -> None:
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)
