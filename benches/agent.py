"""Claude Code from its command line to its first request, by `paddock run claude . -- x` and outside of every box.

Its service is a stand-in that tells when each request came. Each round starts it in the box of the directory, in a box
that is new, and outside: with a home that it knows, and with one that is as new as the box.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benches.figures import Figure, Samples, Target, Yardstick
from paddock.agents import Turn, compose, of
from paddock.runtime import seeding
from paddock.runtime.homes import Home
from tests.support.agents import NAMED, NotInstalled, installed
from tests.support.pasture import Pasture, Services

if TYPE_CHECKING:
    from collections.abc import Callable

    from benches.installation import Installation

ROUNDS = 10
MOST_MS = 150.0
_PATIENCE_S = 60.0
_INSTALL_S = 600.0
_CLAUDE = NAMED[0]


def measure(_installation: Installation) -> list[Figure]:
    try:
        programs = installed(_INSTALL_S)
    except NotInstalled as reason:
        print(f"error: {reason}", file=sys.stderr)
        return []
    with tempfile.TemporaryDirectory(prefix="paddock-bench.", dir=os.environ.get("TMPDIR") or "/var/tmp") as scratch:
        services = Services(Path(scratch))
        pasture = Pasture(Path(scratch), services, programs)
        try:
            taken = _rounds(_Claude(pasture, Path(scratch), programs))
        finally:
            pasture.close()
            services.close()
    return [
        _figure("agent_request", "what a box adds until claude's first request", taken["box"], taken["outside"]),
        _figure("agent_request_new", "what a new box adds until that", taken["new box"], taken["new home"]),
    ]


def _figure(name: str, what: str, inside: list[float], outside: list[float]) -> Figure:
    added = Samples.of([one - other for one, other in zip(inside, outside, strict=True)])
    alone = Yardstick(name="all of it, outside of a box", samples=Samples.of(outside))
    return Figure(name=name, what=what, unit="ms", samples=added, target=Target(p50_most=MOST_MS), yardsticks=(alone,))


def _rounds(claude: _Claude) -> dict[str, list[float]]:
    acts: dict[str, Callable[[], float]] = {
        "box": lambda: claude.boxed("kept"),
        "outside": lambda: claude.outside(new=False),
        "new box": lambda: claude.boxed("new"),
        "new home": lambda: claude.outside(new=True),
    }
    taken: dict[str, list[float]] = {name: [] for name in acts}
    for number in range(-1, ROUNDS):
        for name, act in acts.items():
            spent = act()
            if number >= 0:
                taken[name].append(spent)
    return taken


class _Claude:
    def __init__(self, pasture: Pasture, scratch: Path, programs: Path) -> None:
        self._pasture = pasture
        self._services = pasture.services
        self._home = scratch / "outside"
        self._program = str(programs / "lib" / "node_modules" / _CLAUDE.packages[0] / _CLAUDE.name)
        self._key = self._services.keys[_CLAUDE.host]
        pasture.cli("secret", "set", _CLAUDE.secret, stdin=self._key.encode())

    def boxed(self, name: str) -> float:
        """A box of this name, which is gone afterwards unless it is to be kept."""
        words = ("run", "-q", "--name", name, _CLAUDE.name, ".", "--", "x")
        spent = self._until_request(self._pasture.command(words), self._pasture.environ)
        if name == "new":
            self._pasture.cli("rm", "-f", name)
        return spent

    def outside(self, *, new: bool) -> float:
        definition = of(_CLAUDE.name, "")
        if new:
            shutil.rmtree(self._home, ignore_errors=True)
        self._home.mkdir(exist_ok=True)
        environ = {**os.environ, **definition.env, "HOME": str(self._home), "ANTHROPIC_API_KEY": self._key}
        environ["NODE_EXTRA_CA_CERTS"] = environ["SSL_CERT_FILE"] = str(self._services.root / "bundle.pem")
        for one in definition.seed:
            seeding.seed(Home(str(self._home)), one, str(self._pasture.workspace), environ)
        words = compose(definition, Turn(prompt="x", headless=True))
        enter = [*self._services.enter, f"--wd={self._pasture.workspace}"]
        return self._until_request([*enter, self._program, *words], environ)

    def _until_request(self, argv: list[str], environ: dict[str, str]) -> float:
        """Milliseconds; the run goes on to its end, untimed."""
        self._services.forget()
        begun = time.monotonic()
        done = subprocess.run(
            argv, env=environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE_S, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{argv[:8]} failed: {done.stderr.decode(errors='replace')[-500:]}")
        return float(min(row["at"] for row in self._services.requests(_CLAUDE.host)) - begun) * 1e3
