"""An internet of a test's own: a network namespace whose loopback has public addresses, a name server and origins.

Nothing leaves it, so tests reach `public` hosts, see every query that was sent, and rebind names, as root or not.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING

from tests.support.installation import IS_ROOT, ROOT, Installation

if TYPE_CHECKING:
    from collections.abc import Sequence

PUBLIC = "93.184.215.14"  # of the names below, inside the namespace only
OTHER = "93.184.215.15"
ZONE: dict[str, list[list[str]]] = {
    "allowed.example": [[PUBLIC]],
    "www.allowed.example": [[PUBLIC]],
    "other.example": [[OTHER]],
    "api.anthropic.com": [[PUBLIC]],
    "github.com": [[PUBLIC]],
    "claude.ai": [[PUBLIC]],
    "platform.claude.com": [[PUBLIC]],
    "pypi.org": [[PUBLIC]],
    "wheels.pythonhosted.org": [[PUBLIC]],
    "packages.example": [[PUBLIC]],
    "elsewhere.example": [[PUBLIC]],
    "private.example": [["10.20.30.40"]],
    "loopback.example": [["127.0.0.1"]],
    "metadata.example": [["169.254.169.254"]],
    "mixed.example": [["10.20.30.40", PUBLIC]],
    "rebound.example": [[PUBLIC], ["127.0.0.1"]],
    "six.example": [["2606:2800:21f:cb07:6820:80da:af6b:8b2c"]],
}
# Routes, not addresses: those would be the host's own, which no policy opens but by name.
_SCRIPT = """
set -e
export PATH="$PATH:/usr/sbin:/sbin"
ip link set lo up
for address in 93.184.215.14 93.184.215.15 10.20.30.40 169.254.169.254; do ip route add local $address/32 dev lo; done
ip -6 route add local 2606:2800:21f:cb07:6820:80da:af6b:8b2c/128 dev lo
echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start
mount --bind "$1/resolv.conf" /etc/resolv.conf
mount --bind "$1/hosts" /etc/hosts
mount --bind "$1/bundle.pem" /etc/ssl/certs/ca-certificates.crt
mount --bind "$1/passwd" /etc/passwd
[ ! -d /etc/ssh ] || mount --bind "$1/ssh" /etc/ssh
echo ready
exec cat
"""
_TOOLS = ("ip", "unshare", "nsenter", "openssl")


def missing() -> list[str]:
    return [name for name in _TOOLS if not shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")]


def accounts() -> str:
    """Servers want an account to run under, which the user of the tests may not have."""
    known = Path("/etc/passwd").read_text()
    own = f"paddock-tests:x:{os.getuid()}:{os.getgid()}::/:/bin/sh\n"
    return known if any(line.split(":")[2] == str(os.getuid()) for line in known.splitlines()) else known + own


class Internet:
    def __init__(
        self, root: Path, zone: dict[str, list[list[str]]] = ZONE, origins: str = "tests.support.origins"
    ) -> None:
        self.root = root / "internet"
        self.root.mkdir()
        self.zone = {name: [list(turn) for turn in turns] for name, turns in zone.items()}
        self._write_zone()
        (self.root / "resolv.conf").write_text("nameserver 127.0.0.1\n")
        (self.root / "hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")
        (self.root / "queries.log").write_text("")
        (self.root / "passwd").write_text(accounts())
        (self.root / "ssh").mkdir()  # where a test writes which hosts this internet's machines know
        self._certify()
        words = ["--user", "--map-current-user", "--keep-caps"] if not IS_ROOT else []
        argv = ["unshare", *words, "--net", "--mount", "--propagation", "private", "sh", "-c", _SCRIPT, "sh"]
        self._holder = self._wait_ready([*argv, str(self.root)])
        files = [str(self.root / name) for name in ("zone.json", "queries.log", "origin.pem", "origin.key")]
        self._origins = self._wait_ready([*self.enter, f"--wd={ROOT}", sys.executable, "-m", origins, *files])

    @property
    def enter(self) -> list[str]:
        """The words before a command that is to run in this internet, outside every box."""
        words = ["--user", "--preserve-credentials"] if not IS_ROOT else []
        return ["nsenter", "--target", str(self._holder.pid), *words, "--net", "--mount"]

    def run(self, argv: Sequence[str], timeout_s: float = 30.0) -> subprocess.CompletedProcess[bytes]:
        """Outside every box: the oracle of what a box is refused."""
        return subprocess.run(
            [*self.enter, *argv], stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=False
        )

    def start(self, argv: Sequence[str], log: IO[bytes] | int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*self.enter, *argv], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def name(self, name: str, *turns: list[str]) -> None:
        """What a name resolves to, query by query."""
        self.zone[name] = list(turns)
        self._write_zone()

    def queries(self) -> list[str]:
        """Names that were asked for upstream, in order."""
        return [line.split()[0] for line in (self.root / "queries.log").read_text().splitlines()]

    def close(self) -> None:
        for process in (self._origins, self._holder):
            process.communicate()  # both end with their input

    def _write_zone(self) -> None:
        fresh = self.root / "zone.new"
        fresh.write_text(json.dumps(self.zone))
        fresh.rename(self.root / "zone.json")

    def _wait_ready(self, argv: list[str]) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        return process

    def _certify(self) -> None:
        """Origins with certificates of an authority that this internet's machines trust."""
        names = ",".join(f"DNS:{name}" for name in (*self.zone, "*.npmjs.org"))
        authority = ["-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=Test Internet Authority", "-days", "30"]
        leaf = ["-CA", "ca.pem", "-CAkey", "ca.key", "-keyout", "origin.key", "-out", "origin.pem", "-days", "30"]
        common = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        usage = ["-addext", "basicConstraints=critical,CA:FALSE", "-addext", f"subjectAltName={names}"]
        self._openssl([*common, *authority])
        self._openssl([*common, *leaf, "-subj", "/CN=origin", *usage])
        self._openssl(["cp", "ca.pem", "bundle.pem"])

    def _openssl(self, argv: list[str]) -> None:
        subprocess.run(argv, cwd=self.root, check=True, capture_output=True)


class Online(Installation):
    """An installation that lives in such an internet."""

    is_open_to_us = IS_ROOT  # who is not is somebody else to a daemon in a namespace of users of its own

    def __init__(self, root: Path, internet: Internet) -> None:
        super().__init__(root)
        self.internet = internet

    def command(self, words: tuple[str, ...]) -> list[str]:
        return [*self.internet.enter, f"--wd={self.workspace}", *super().command(words)]
