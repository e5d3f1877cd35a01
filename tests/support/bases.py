"""A small Debian with node and sudo, as an image in a file: made once of packages, and kept in the user's cache.

As a program it makes the file and prints where it is, so that `./test` can lend it to other users.
"""

from __future__ import annotations

import fcntl
import hashlib
import ipaddress
import json
import os
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

from paddock.errors import PaddockError
from paddock.images.oci import own_architecture
from paddock.runtime import distributions
from paddock.runtime.distributions import Wanted
from tests.support.agents import cache

WANTED = Wanted(name="debian", suite="bookworm")
PACKAGES = ("ca-certificates", "nodejs", "sudo")
_LAYOUT = 1
_UNUSED_S = 30 * 86400
_ASK_S = 60.0


class NotMade(Exception):
    """Why there is none."""


def image() -> Path:
    """As `docker save` writes it, its name is `debian-node:1`; NotMade with the reason if it cannot be had."""
    try:
        sources = [one.line() for one in distributions.sources(WANTED)]
    except PaddockError as error:
        raise NotMade(error.message) from error
    wanted = json.dumps([_LAYOUT, PACKAGES, WANTED.suite, sources]).encode()
    place = cache() / f"base-{hashlib.sha256(wanted).hexdigest()[:12]}.tar"
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / "base.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two workers of one run, or two runs
        if not place.exists():
            _make(place)
    return place


def _make(place: Path) -> None:
    for other in place.parent.glob("base-*.tar"):
        if other.stat().st_mtime < time.time() - _UNUSED_S:
            other.unlink()
    with tempfile.TemporaryDirectory(dir=place.parent, prefix="new.") as scratch:
        layer, whole = Path(scratch) / "layer.tar", Path(scratch) / "image.tar"
        try:
            distributions.make(WANTED, str(layer), lambda: None, PACKAGES)
        except PaddockError as error:
            raise NotMade(error.message) from error
        with layer.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        config = {
            "architecture": own_architecture(),
            "os": "linux",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
        manifest = [{"Config": "config.json", "RepoTags": ["debian-node:1"], "Layers": ["layer.tar"]}]
        for name, value in (("config.json", config), ("manifest.json", manifest)):
            (Path(scratch) / name).write_text(json.dumps(value))
        with tarfile.open(whole, "w") as archive:
            for name in ("manifest.json", "config.json", "layer.tar"):
                archive.add(Path(scratch) / name, name, filter=_plain)
        whole.chmod(0o644)  # also for another user, to whom `./test` of root lends it
        whole.rename(place)


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


def ways() -> list[str]:
    """The options by which a build reaches where this host has packages from; NotMade if it does not itself."""
    urls = {one.uri for one in distributions.sources(WANTED)} | {registry()}
    words: list[str] = []
    for url in sorted(urls):
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        words += ["--allow-host", f"{parts.hostname}:{port}"]
        words += [word for one in _addresses(str(parts.hostname), port) for word in ("--allow-cidr", one)]
    return words


def registry() -> str:
    """Of npm, which answers."""
    parts = urlsplit(_npm("view", "semver", "dist.tarball"))
    return f"{parts.scheme}://{parts.netloc}/"


def npm(directory: Path) -> Path:
    """npm itself, as its package: Debian's is made of four hundred others."""
    return directory / _npm("pack", "npm@9.9.3", "--silent", cwd=directory).splitlines()[-1]


def _npm(*words: str, cwd: Path | None = None) -> str:
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "HOME": home, "npm_config_fetch_retries": "0"}
        try:
            asked = subprocess.run(
                ["npm", *words], env=env, cwd=cwd, capture_output=True, text=True, timeout=_ASK_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NotMade(f"npm does not answer here: {error}") from error
    if asked.returncode or not asked.stdout.strip():
        raise NotMade(f"this host's npm does not reach its registry: {asked.stderr.strip()[-200:]}")
    return asked.stdout.strip()


def _addresses(host: str, port: int) -> list[str]:
    """Those that a box may not reach by a name alone: a mirror in the house has one."""
    try:
        found = {str(row[4][0]) for row in socket.getaddrinfo(host, port, socket.AF_INET, socket.SOCK_STREAM)}
    except OSError as error:
        raise NotMade(f"this host does not know {host}: {error}") from error
    return [f"{one}/32" for one in sorted(found) if not ipaddress.ip_address(one).is_global]


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{image()}\n")
    except NotMade as error:
        sys.exit(str(error))
