"""What makes a box trust its own authority: the host's bundle with one certificate more, and the same for Java.

The files lie in the box's directory and are mounted read-only; nothing runs inside the box for it. A Java store is the
JKS format, which every JVM reads; it protects integrity with a password that everybody knows.
"""

from __future__ import annotations

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


def bundle(host_bundle_path: str | None, authority: Authority) -> bytes:
    """The host's trusted certificates and the box's own."""
    return authority.certificate_pem + _host(host_bundle_path)[0]


def java_store(certificates: Sequence[bytes]) -> bytes:
    """A JKS file with these DER certificates as trusted entries, password `changeit`."""
    stamp_ms = int(time.time() * 1000)
    entries = b"".join(_entry(f"paddock-{number}", stamp_ms, each) for number, each in enumerate(certificates))
    body = _JKS.pack(_JKS_MAGIC, _JKS_VERSION, len(certificates)) + entries
    return body + hashlib.sha1(_JKS_SALT + body, usedforsecurity=False).digest()


def install(directory: str, authority: Authority, *, host_bundle: str | None, java: bool) -> None:
    """Write what the box mounts, and the authority for the gateway, into `directory`, which exists."""
    try:
        _write(f"{directory}/{AUTHORITY_FILE}", authority.to_pem(), 0o600)
        _write(f"{directory}/{BUNDLE_FILE}", bundle(host_bundle, authority), 0o644)
        if java:
            own = [der for label, der in from_pem(authority.certificate_pem) if label == "CERTIFICATE"]
            _write(f"{directory}/{JAVA_FILE}", java_store([*own, *_host(host_bundle)[1]]), 0o644)
    except OSError as error:
        raise Unavailable(f"cannot write the certificates of a box: {error.strerror}", code="write") from error


def load(directory: str) -> Authority:
    """The authority that `install` wrote."""
    try:
        with open(f"{directory}/{AUTHORITY_FILE}", "rb") as file:
            return Authority.from_pem(file.read(_BUNDLE_BYTES))
    except OSError as error:
        raise Unavailable(f"the authority of a box cannot be read: {error.strerror}", code="certificate") from error


def _host(path: str | None) -> tuple[bytes, tuple[bytes, ...]]:
    """The host's bundle as it is, and its certificates; read again only when it changed."""
    try:
        status = os.stat(path) if path else None
        if path is None or status is None:
            return b"", ()
        return _read_host(path, status.st_ino, status.st_mtime_ns, status.st_size)
    except OSError:
        return b"", ()


@functools.lru_cache(maxsize=1)
def _read_host(path: str, inode: int, mtime_ns: int, size: int) -> tuple[bytes, tuple[bytes, ...]]:  # noqa: ARG001
    with open(path, "rb") as file:
        data = file.read(_BUNDLE_BYTES)
    return data, tuple(dict.fromkeys(der for label, der in from_pem(data) if label == "CERTIFICATE"))


def _entry(alias: str, stamp_ms: int, certificate: bytes) -> bytes:
    return b"".join(
        (
            struct.pack(">I", _JKS_TRUSTED),
            _text(alias),
            struct.pack(">Q", stamp_ms),
            _text("X.509"),
            struct.pack(">I", len(certificate)),
            certificate,
        )
    )


def _text(text: str) -> bytes:
    data = text.encode("ascii")  # where Java's own encoding and UTF-8 agree
    return struct.pack(">H", len(data)) + data


def _write(path: str, data: bytes, mode: int) -> None:
    """Whole or not at all, but without waiting for the disk: after a crash of the host every start makes them anew."""
    fresh = f"{path}.{os.urandom(8).hex()}"
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with open(fd, "wb") as file:
            os.fchmod(fd, mode)
            file.write(data)
        os.rename(fresh, path)
    except BaseException:
        os.unlink(fresh)
        raise
