"""Real agents from their npm packages: installed once for whoever runs the tests, and what their services are.

    python -m tests.support.agents        installs them, or says why not

They lie in the user's cache, one directory for one set of versions, so a second run finds them.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_ARCH: Final = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
PACKAGES: Final = {
    "@anthropic-ai/claude-code": "2.1.325",
    "@openai/codex": "0.166.0",
    "@google/gemini-cli": "0.61.0",
    # The programs alone: the packages that choose between them would bring those of other machines too.
    f"@github/copilot-linux-{_ARCH}": "1.0.102",
    f"opencode-linux-{_ARCH}": "1.18.33",
    f"node-linux-{_ARCH}": "24.21.0",  # what distributions have is older than what the agents ask for
}
INSIDE: Final = "/opt/agents"  # where boxes have them that are given the directory
_MODULES: Final = f"{INSIDE}/lib/node_modules"
_NODE: Final = f"{_MODULES}/node-linux-{_ARCH}/bin/node"
# No scripts: nothing of the packages runs outside of boxes. Claude Code's would only link the program that is run here.
_INSTALL: Final = ("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock")
_PATIENCE: Final = ("--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-timeout=30000", "--loglevel=error")
_LAYOUT: Final = 2  # of the directory: another one is another directory
_IN_A_TEST_S: Final = 90.0
_BEFORE_S: Final = 600.0
_UNUSED_S: Final = 7 * 86400.0  # until older versions go: a gigabyte each


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    name: str
    secret: str
    host: str
    key: str  # how keys of this service begin
    model: str
    prices: tuple[float, float, float]  # dollars for a million tokens: input, read from a cache, output
    argv: tuple[str, ...]
    header: str  # that brings the key, up to its value
    path: str  # of the service's API
    uninvited: frozenset[str] = frozenset()  # hosts that it asks for besides its model's

    @property
    def words(self) -> tuple[str, ...]:
        """What comes last in `paddock run`."""
        return ("--", *self.argv, "Count the lambs.")


CLAUDE: Final = Agent(
    name="claude",
    secret="anthropic",
    host="api.anthropic.com",
    key="sk-ant-api03-",
    model="claude-haiku-4-5",
    prices=(1, 0.1, 5),
    argv=(
        f"{_MODULES}/@anthropic-ai/claude-code-linux-{_ARCH}/claude",
        *("--model", "claude-haiku-4-5", "--dangerously-skip-permissions", "-p"),
    ),
    header="x-api-key: ",
    path="/v1/messages",
)
CODEX: Final = Agent(
    name="codex",
    secret="openai",
    host="api.openai.com",
    key="sk-proj-",
    model="gpt-5.5",
    prices=(5, 0.5, 30),
    argv=(
        *(_NODE, f"{_MODULES}/@openai/codex/bin/codex.js", "exec", "--model", "gpt-5.5", "--skip-git-repo-check"),
        "--dangerously-bypass-approvals-and-sandbox",
    ),
    header="authorization: Bearer ",
    path="/v1/responses",
    uninvited=frozenset({"ab.chatgpt.com", "chatgpt.com", "github.com"}),
)
GEMINI: Final = Agent(
    name="gemini",
    secret="gemini",
    host="generativelanguage.googleapis.com",
    key="AIzaSy",
    model="gemini-2.5-pro",
    prices=(1.25, 0.125, 10),
    argv=(
        *(_NODE, f"{_MODULES}/@google/gemini-cli/bundle/gemini.js", "--model", "gemini-2.5-pro"),
        *("--yolo", "--skip-trust", "--prompt"),
    ),
    header="x-goog-api-key: ",
    path="/v1beta/models/gemini-2.5-pro:generateContent",
    uninvited=frozenset({"play.googleapis.com"}),
)
AGENTS: Final = (CLAUDE, CODEX, GEMINI)


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """An agent as `paddock run NAME` runs it, by its definition alone."""

    name: str
    secret: str
    host: str  # of its models
    key: str
    packages: tuple[str, ...]  # what of the directory is its own
    more: frozenset[str] = frozenset()  # other hosts of its service that take the key

    @property
    def hosts(self) -> frozenset[str]:
        return self.more | {self.host}


NAMED: Final = (
    Named(
        name="claude",
        secret="anthropic",
        host=CLAUDE.host,
        key=CLAUDE.key,
        packages=(f"@anthropic-ai/claude-code-linux-{_ARCH}",),
    ),
    Named(name="codex", secret="openai", host=CODEX.host, key=CODEX.key, packages=("@openai", f"node-linux-{_ARCH}")),
    Named(
        name="gemini",
        secret="gemini",
        host=GEMINI.host,
        key=GEMINI.key,
        packages=("@google", "@lydell", "node-pty", "node-addon-api", "nan", f"node-linux-{_ARCH}"),
    ),
    Named(
        name="copilot",
        secret="copilot",
        host="api.individual.githubcopilot.com",
        key="github_pat_",
        packages=(f"@github/copilot-linux-{_ARCH}",),
        more=frozenset({"api.github.com"}),
    ),
    Named(
        name="opencode",
        secret="anthropic",
        host=CLAUDE.host,
        key=CLAUDE.key,
        packages=(f"opencode-linux-{_ARCH}",),
    ),
)


class NotInstalled(Exception):
    """Why the agents are not there."""


def cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(base) / "paddock-tests"


def installed(patience_s: float = _IN_A_TEST_S) -> Path:
    """The directory that has node_modules; NotInstalled with the reason if it cannot be had."""
    wanted = json.dumps([_LAYOUT, PACKAGES], sort_keys=True).encode()
    place = cache() / f"agents-{hashlib.sha256(wanted).hexdigest()[:12]}"
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / "agents.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two workers of one run, or two runs
        if not place.is_dir():
            _install(place, patience_s)
        if os.access(place, os.W_OK):
            os.utime(place)  # it is used
    return place


def _install(place: Path, patience_s: float) -> None:
    if not shutil.which("npm"):
        raise NotInstalled("npm is not installed")
    for other in place.parent.glob("agents-*"):
        if other.stat().st_mtime < time.time() - _UNUSED_S:
            shutil.rmtree(other)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix="new.") as scratch:
        fresh = Path(scratch) / "agents"
        for directory in (fresh, fresh / "lib"):
            directory.mkdir()
            directory.chmod(0o755)  # also for an ordinary user, to whom `./test` of root lends it
        (fresh / "lib" / "package.json").write_text(json.dumps({"private": True, "dependencies": PACKAGES}))
        words = [*_INSTALL, *_PATIENCE, "--cache", f"{scratch}/cache"]
        try:
            done = subprocess.run(
                words, cwd=fresh / "lib", capture_output=True, timeout=patience_s, umask=0o022, check=False
            )
        except subprocess.TimeoutExpired:
            raise NotInstalled(f"npm did not install the agents within {patience_s:.0f} s") from None
        if done.returncode:
            said = [line.removeprefix("npm error ") for line in done.stderr.decode(errors="replace").splitlines()]
            raise NotInstalled(f"npm could not install the agents: {', '.join(said[:4])[:300]}")
        fresh.rename(place)


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{installed(_BEFORE_S)}\n")
    except NotInstalled as error:
        sys.exit(str(error))
