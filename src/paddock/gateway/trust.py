"""What makes a box trust its own authority: the host's bundle with one certificate more, and the same for Java.

The files lie in the box's directory and are mounted read-only; nothing runs inside the box for it. A Java store is the
JKS format, which every JVM reads; it protects integrity with a password that everybody knows.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import os
import struct
import time
from typing import TYPE_CHECKING

from paddock.errors import Unavailable
from paddock.gateway.certificates import Authority, from_pem

if TYPE_CHECKING:
    from collections.abc import Sequence

HOST_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Arch, Alpine
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora
    "/etc/ssl/ca-bundle.pem",  # openSUSE
    "/etc/ssl/cert.pem",
)
JAVA_STORE = "/etc/ssl/certs/java/cacerts"
BUNDLE_FILE, JAVA_FILE, AUTHORITY_FILE = "bundle.pem", "cacerts", "authority.pem"
_BUNDLE_BYTES = 8 << 20
_JKS = struct.Struct(">III")  # magic, version, entries
_JKS_MAGIC, _JKS_VERSION, _JKS_TRUSTED = 0xFEEDFEED, 2, 2
_JKS_SALT = "changeit".encode("utf-16-be") + b"Mighty Aphrodite"


def host_bundle_path() -> str | None:
    return next((path for path in HOST_BUNDLES if os.path.isfile(path)), None)


def install(directory: str, authority: Authority, *, host_bundle: str | None, java: bool) -> None:
    """Write what the box mounts, and the authority for the gateway, into `directory`, which exists."""
    host = _host(host_bundle)
    try:
        _write(f"{directory}/{AUTHORITY_FILE}", [authority.to_pem()], 0o600)
        _write(f"{directory}/{BUNDLE_FILE}", [authority.certificate_pem, host.pem], 0o644)
        if java:
            _write(f"{directory}/{JAVA_FILE}", host.store.parts(_certificates(authority.certificate_pem)), 0o644)
    except OSError as error:
        raise Unavailable(f"cannot write the certificates of a box: {error.strerror}", code="write") from error


def load(directory: str) -> Authority:
    """The authority that `install` wrote."""
    try:
        with open(f"{directory}/{AUTHORITY_FILE}", "rb") as file:
            return Authority.from_pem(file.read(_BUNDLE_BYTES))
    except OSError as error:
        raise Unavailable(f"the authority of a box cannot be read: {error.strerror}", code="certificate") from error


class _Store:
    """A Java store with room for more: what all boxes share is written and digested once, not at every start."""

    def __init__(self, certificates: Sequence[bytes]) -> None:
        self._count = len(certificates)
        self._stamp_ms = int(time.time() * 1000)
        self._entries = b"".join(map(self._entry, range(self._count), certificates))
        self._digest = functools.cache(self._begin)

    def parts(self, more: Sequence[bytes]) -> list[bytes]:
        """The file with `more` certificates at its end, in pieces."""
        count = self._count + len(more)
        own = b"".join(map(self._entry, range(self._count, count), more))
        digest = self._digest(count).copy()
        digest.update(own)
        return [_head(count), self._entries, own, digest.digest()]

    def _begin(self, count: int) -> hashlib._Hash:
        return hashlib.sha1(_JKS_SALT + _head(count) + self._entries, usedforsecurity=False)

    def _entry(self, number: int, certificate: bytes) -> bytes:
        return b"".join(
            (
                struct.pack(">I", _JKS_TRUSTED),
                _text(f"paddock-{number}"),
                struct.pack(">Q", self._stamp_ms),
                _text("X.509"),
                struct.pack(">I", len(certificate)),
                certificate,
            )
        )


class _Host:
    """The host's bundle as it is, and as Java wants it."""

    def __init__(self, pem: bytes) -> None:
        self.pem = pem

    @functools.cached_property
    def store(self) -> _Store:
        return _Store(_certificates(self.pem))


def _host(path: str | None) -> _Host:
    """Read again only when it changed."""
    try:
        if path is not None:
            status = os.stat(path)
            return _read_host(path, status.st_ino, status.st_mtime_ns, status.st_size)
    except OSError:
        pass  # a host without certificates trusts nobody, and its boxes only themselves
    return _Host(b"")


@functools.lru_cache(maxsize=1)
def _read_host(path: str, inode: int, mtime_ns: int, size: int) -> _Host:  # noqa: ARG001 - they tell a change
    with open(path, "rb") as file:
        return _Host(file.read(_BUNDLE_BYTES))


def _certificates(pem: bytes) -> list[bytes]:
    return list(dict.fromkeys(content for label, content in from_pem(pem) if label == "CERTIFICATE"))


def _head(count: int) -> bytes:
    return _JKS.pack(_JKS_MAGIC, _JKS_VERSION, count)


def _text(text: str) -> bytes:
    data = text.encode("ascii")  # where Java's own encoding and UTF-8 agree
    return struct.pack(">H", len(data)) + data


def _write(path: str, parts: Sequence[bytes], mode: int) -> None:
    """Whole or not at all, but without waiting for the disk: after a crash of the host every start makes them anew."""
    fresh = f"{path}.{os.urandom(8).hex()}"
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            os.fchmod(fd, mode)
            if os.writev(fd, parts) != sum(map(len, parts)):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(fd)
        os.rename(fresh, path)
    except BaseException:
        os.unlink(fresh)
        raise
