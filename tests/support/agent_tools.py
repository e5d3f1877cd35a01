"""The real agents in an installation's tool store, as `paddock agent install` leaves them there, without a registry."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from paddock import agents
from paddock.tools import Record, Store, trees, wrapper
from tests.support.agents import NAMED, Named


def publish(programs: Path, state: Path) -> None:
    """`programs` is what tests.support.agents installed; the files are not copied where they can be linked."""
    store = Store(f"{state}/tools")
    for named in NAMED:
        agent = agents.of(named.name, "")
        with store.turn(), store.stage() as room:
            tree = Path(room.new, "tree")
            _gather(programs / "lib" / "node_modules", tree / "node_modules", named)
            wrapper.write(agent, str(tree))
            trees.close(str(tree))
            manifest = f"{agent.name} {agent.verified}\n"  # nobody compares a gigabyte with it here
            Path(room.new, "manifest").write_text(manifest)
            record = Record(
                name=agent.name,
                version=agent.verified,
                source="npm",
                package=agent.install.npm,
                program=agent.program,
                digest=trees.digest(manifest),
                files=0,
                size_bytes=0,
                installed="2026-01-01T00:00:00",
            )
            store.publish(room.new, record)


def _gather(modules: Path, target: Path, named: Named) -> None:
    for package in named.packages:
        if (modules / package).is_dir():  # some are there for other kinds of machines alone
            shutil.copytree(modules / package, target / package, symlinks=True, copy_function=_link)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # another disk, or files that are only lent to us
        shutil.copy2(source, target, follow_symlinks=False)
