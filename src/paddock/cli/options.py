"""Words of the command line become the values of a request: mounts, limits, engine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from paddock import paths
from paddock.cli import amounts, environment, networds
from paddock.cli.hostpaths import place
from paddock.errors import UserError
from paddock.model import BoxRequest, Budget, EngineName, Limits, Mount, WorkspaceMode

if TYPE_CHECKING:
    import argparse


_RUNTIMES = ("crun", "runc", "runsc")


def volumes(words: list[str]) -> tuple[Mount, ...]:
    mounts = []
    for word in words:
        parts = word.split(":")
        mode = parts.pop() if len(parts) == 3 else "rw"
        if len(parts) != 2 or mode not in {"ro", "rw"} or not all(parts):
            raise UserError(f"{word!r} is not a mount", hint="use HOST:BOX or HOST:BOX:ro", code="bad-mount")
        source, target = parts
        mounts.append(Mount(source=place(source), target=target, read_only=mode == "ro"))
    return tuple(mounts)


def extras(words: list[str]) -> tuple[Mount, ...]:
    return tuple(
        Mount(source=place(word.removesuffix(":ro")), target="", read_only=word.endswith(":ro")) for word in words
    )


def limits(options: argparse.Namespace) -> Limits:
    return Limits(
        memory_bytes=amounts.size(options.memory, "--memory"),
        cpus=amounts.number(options.cpus, "--cpus"),
        pids=amounts.count(options.pids, "--pids"),
        disk_bytes=amounts.size(options.disk, "--disk"),
        wall_s=amounts.duration(options.timeout, "--timeout"),
    )


def budget(options: argparse.Namespace) -> Budget:
    if not (options.max_cost or options.max_tokens or options.max_requests or options.max_time):
        return Budget()
    from paddock.metering.budget import parse_count, parse_dollars

    return Budget(
        picodollars=parse_dollars(options.max_cost) if options.max_cost else None,
        tokens=parse_count(options.max_tokens) if options.max_tokens else None,
        requests=parse_count(options.max_requests) if options.max_requests else None,
        seconds=amounts.duration(options.max_time, "--max-time"),
    )


def engine(word: str) -> EngineName:
    try:
        return EngineName(word)
    except ValueError:
        known = ", ".join(name.value for name in EngineName)
        raise UserError(
            f"engine {word!r} is not available in this version", hint=f"available: {known}", code="no-engine"
        ) from None


def runtime(word: str) -> str:
    if word and word not in _RUNTIMES:
        raise UserError(f"runtime {word!r} is not known", hint=f"known: {', '.join(_RUNTIMES)}", code="no-runtime")
    return word


def template(word: str) -> str:
    """A name stays one; a place is told from it by how it is written."""
    if not word:
        return ""
    from paddock.model.reference import is_path

    return place(word) if is_path(word) else word


def mode(options: argparse.Namespace) -> WorkspaceMode:
    if options.review and options.clone:
        raise UserError("--review and --clone exclude each other", hint="give one", code="usage")
    if options.review:
        return WorkspaceMode.REVIEW
    return WorkspaceMode.CLONE if options.clone or options.branch else WorkspaceMode.LIVE


def _inside(word: str) -> str:
    """A path of the workspace: relative to it, or a place of the host."""
    return place(word) if word.startswith(("/", "~")) else word


def request(options: argparse.Namespace, *, agent: str, ephemeral: bool) -> BoxRequest:
    return BoxRequest(
        agent=agent,
        name=options.name,
        workspace=place(options.workspace or "."),
        mounts=(*extras(options.extra), *volumes(options.volume)),
        engine=engine(options.engine or ("container" if options.template else "process")),
        env=environment.chosen(options),
        limits=limits(options),
        workdir=options.workdir,
        ephemeral=ephemeral,
        caller_path=os.environ.get("PATH", ""),
        caller_home=paths.home_directory(),
        network=networds.network(options),
        mode=mode(options),
        branch=options.branch,
        masks=tuple(map(_inside, options.mask)),
        writable=tuple(map(_inside, options.writable)),
        budget=budget(options),
        logins=tuple(options.allow_login),
        with_settings=options.with_settings,
        mcp=tuple(dict.fromkeys(options.mcp)),
        template=template(options.template),
        runtime=runtime(options.runtime),
    )
