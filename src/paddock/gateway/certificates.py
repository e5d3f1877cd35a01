"""The authority of one box and the leaves it signs, with which refusals are delivered inside TLS.

Theory. A box trusts one authority of its own, made anew for each start; its key is known to the daemon and the gateway
and never to the box, and nobody but that box trusts it. Certificates are P-256 and DER that we write here (RFC 5280);
`libcrypto` makes the key and the signature. All leaves of a box share one key, since they all end in one process.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import os
import re
import ssl
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from paddock import limits
from paddock.errors import Unavailable
from paddock.gateway import der, libcrypto

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.policy import Host

log = logging.getLogger(__name__)

_AUTHORITY_DAYS = 3650
_LEAF_DAYS = 30  # far below the 397 days that clients accept
_BACKDATED_DAYS = 1  # a clock that was set back a little still finds them valid
_SERIAL_BITS = 159  # random, positive, at most 20 octets (RFC 5280 4.1.2.2)
_COMMON_NAME_CHARS = 64  # RFC 5280 A.1, ub-common-name
_COMMON_NAME, _ORGANISATION = "2.5.4.3", "2.5.4.10"
_SUBJECT_KEY, _KEY_USAGE, _SUBJECT_NAMES = "2.5.29.14", "2.5.29.15", "2.5.29.17"
_CONSTRAINTS, _AUTHORITY_KEY, _EXTENDED_USAGE = "2.5.29.19", "2.5.29.35", "2.5.29.37"
_SERVER = "1.3.6.1.5.5.7.3.1"
_ECDSA_SHA256 = der.sequence(der.oid("1.2.840.10045.4.3.2"))
_SIGN_CERTIFICATES_AND_LISTS = der.bits(b"\x06", 1)  # keyCertSign, cRLSign
_SIGN = der.bits(b"\x80", 7)  # digitalSignature
_TRUE = der.value(der.BOOLEAN, b"\xff")
_POINT_BYTES = 65  # an uncompressed point of P-256
_P256 = der.sequence(der.oid("1.2.840.10045.2.1"), der.oid("1.2.840.10045.3.1.7"))
_PEM = rb"-----BEGIN ([A-Z0-9 ]{1,40})-----\r?\n([A-Za-z0-9+/=\s]*?)-----END \1-----"


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """A box's own certificate authority; `key_pem` is a secret."""

    key_pem: bytes = field(repr=False)
    certificate_pem: bytes

    def to_pem(self) -> bytes:
        """Key and certificate, as they go to the gateway in one file."""
        return self.key_pem + self.certificate_pem

    @classmethod
    def from_pem(cls, data: bytes) -> Authority:
        """What `to_pem` wrote; Unavailable when it is anything else."""
        found = from_pem(data)
        if [label for label, _ in found] != ["EC PRIVATE KEY", "CERTIFICATE"]:
            raise Unavailable("the authority of a box cannot be read", code="certificate")
        return cls(key_pem=to_pem(*found[0]), certificate_pem=to_pem(*found[1]))


def make_authority(name: str) -> Authority:
    """A new authority for the box called `name`; Unavailable without OpenSSL."""
    key = libcrypto.generate()
    private = key.private_der()
    public = _point(private)
    subject = _name(f"Paddock box {name}"[:_COMMON_NAME_CHARS])
    extensions = (
        _extension(_CONSTRAINTS, der.sequence(_TRUE, der.integer(0)), critical=True),
        _extension(_KEY_USAGE, _SIGN_CERTIFICATES_AND_LISTS, critical=True),
        _extension(_SUBJECT_KEY, der.value(der.OCTET_STRING, _key_identifier(public))),
    )
    signed = _certificate(key, subject, subject, public, _AUTHORITY_DAYS, extensions)
    return Authority(key_pem=to_pem("EC PRIVATE KEY", private), certificate_pem=to_pem("CERTIFICATE", signed))


def prepare(directory: str) -> bool:
    """Load now whatever the first leaf needs, for a process that will not see its libraries again; whether it works."""
    try:
        signer = _Signer(make_authority("prepare"))
        _server_context(signer.leaf_named("prepare", der.value(0x82, b"prepare")), directory)
    except Unavailable as error:
        log.warning("no certificates can be made: %s", error.message)
        return False
    return True


class Leaves:
    """Server contexts for the names a box asks for, made on demand and kept within bounds.

    `directory` is one that only this process reads: `ssl` takes a key from a file and from nowhere else.
    """

    def __init__(
        self,
        authority: Authority,
        directory: str,
        *,
        limit: int = limits.LEAVES_PER_BOX,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._authority = authority
        self._directory = directory
        self._limit = limit
        self._clock = clock
        self._signer: _Signer | None = None
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Leaves {len(self._kept)} of {self._limit}>"

    def context(self, host: Host) -> ssl.SSLContext:
        """A TLS server that is `host`; Unavailable when no certificate can be made."""
        kept = self._kept.get(host.text)
        now = self._clock()
        if kept is None or kept.uses >= limits.LEAF_USES_MAX or now - kept.made > limits.LEAF_AGE_S:
            kept = _Kept(self._make(host), now)
            self._kept[host.text] = kept
        self._kept.move_to_end(host.text)
        while len(self._kept) > self._limit:
            self._kept.popitem(last=False)
        kept.uses += 1
        return kept.context

    def _make(self, host: Host) -> ssl.SSLContext:
        if self._signer is None:
            self._signer = _Signer(self._authority)
        return _server_context(self._signer.leaf(host), self._directory)


@dataclass(slots=True)
class _Kept:
    context: ssl.SSLContext
    made: float
    uses: int = 0  # a context remembers its TLS 1.2 sessions, thousands of them, and cannot be told not to


class _Signer:
    """The authority with its key loaded, and the one key of all its leaves."""

    def __init__(self, authority: Authority) -> None:
        keys, certificates = from_pem(authority.key_pem), from_pem(authority.certificate_pem)
        if len(keys) != 1 or len(certificates) != 1:
            raise Unavailable("the authority of a box cannot be read", code="certificate")
        self._key = libcrypto.load(keys[0][1])
        self._issuer = _subject(certificates[0][1])
        self._identifier = _key_identifier(_point(keys[0][1]))
        leaf_private = libcrypto.generate().private_der()
        self._leaf_public = _point(leaf_private)
        self._leaf_pem = to_pem("EC PRIVATE KEY", leaf_private)

    def leaf(self, host: Host) -> bytes:
        """Key and certificate for `host`, as PEM."""
        address = host.address
        if address is None:
            return self.leaf_named(host.text, der.value(0x82, host.text.encode("ascii")))
        return self.leaf_named(host.text, der.value(0x87, address.packed))

    def leaf_named(self, text: str, name: bytes) -> bytes:
        """The same for a GeneralName; `text` is what people read."""
        subject = _name(text) if len(text) <= _COMMON_NAME_CHARS else _name("")
        extensions = (
            _extension(_CONSTRAINTS, der.sequence(), critical=True),
            _extension(_KEY_USAGE, _SIGN, critical=True),
            _extension(_EXTENDED_USAGE, der.sequence(der.oid(_SERVER))),
            _extension(_SUBJECT_NAMES, der.sequence(name)),
            _extension(_SUBJECT_KEY, der.value(der.OCTET_STRING, _key_identifier(self._leaf_public))),
            _extension(_AUTHORITY_KEY, der.sequence(der.value(0x80, self._identifier))),
        )
        signed = _certificate(self._key, self._issuer, subject, self._leaf_public, _LEAF_DAYS, extensions)
        return self._leaf_pem + to_pem("CERTIFICATE", signed)


def to_pem(label: str, content: bytes) -> bytes:
    text = base64.b64encode(content)
    lines = [text[start : start + 64] for start in range(0, len(text), 64)]
    return b"\n".join([f"-----BEGIN {label}-----".encode(), *lines, f"-----END {label}-----\n".encode()])


def from_pem(data: bytes) -> list[tuple[str, bytes]]:
    """The labelled values in `data`; whatever stands between them is not looked at, broken ones are left out."""
    found = []
    for label, text in re.findall(_PEM, data):
        try:
            found.append((label.decode("ascii"), base64.b64decode(b"".join(text.split()), validate=True)))
        except ValueError:
            continue
    return found


def _certificate(
    key: libcrypto.Key, issuer: bytes, subject: bytes, public: bytes, days: int, extensions: tuple[bytes, ...]
) -> bytes:
    now = datetime.now(UTC)
    serial = int.from_bytes(os.urandom(20), "big") >> (160 - _SERIAL_BITS) | 1
    contents = der.sequence(
        der.value(0xA0, der.integer(2)),  # version 3
        der.integer(serial),
        _ECDSA_SHA256,
        issuer,
        der.sequence(der.time(now - timedelta(days=_BACKDATED_DAYS)), der.time(now + timedelta(days=days))),
        subject,
        der.sequence(_P256, der.bits(public)),
        der.value(0xA3, der.sequence(*extensions)),
    )
    return der.sequence(contents, _ECDSA_SHA256, der.bits(key.sign(contents)))


def _name(common_name: str) -> bytes:
    parts = ((_ORGANISATION, "Paddock"), *(((_COMMON_NAME, common_name),) if common_name else ()))
    return der.sequence(
        *(
            der.value(der.SET, der.sequence(der.oid(kind), der.value(der.UTF8_STRING, text.encode())))
            for kind, text in parts
        )
    )


def _extension(kind: str, content: bytes, *, critical: bool = False) -> bytes:
    return der.sequence(der.oid(kind), _TRUE if critical else b"", der.value(der.OCTET_STRING, content))


def _point(private: bytes) -> bytes:
    """The public point with which an ECPrivateKey ends (RFC 5915)."""
    point = private[-_POINT_BYTES:]
    if len(point) != _POINT_BYTES or point[0] != 4:
        raise Unavailable("OpenSSL wrote a key that cannot be read", code="libcrypto")
    return point


def _key_identifier(public: bytes) -> bytes:
    """RFC 5280 4.2.1.2 (1); SHA-1 names the key here and protects nothing."""
    return hashlib.sha1(public, usedforsecurity=False).digest()


def _subject(certificate: bytes) -> bytes:
    """The subject of a version 3 certificate, as it stands there."""
    contents = der.children(der.children(certificate)[0])
    if len(contents) < 7:
        raise Unavailable("the authority of a box cannot be read", code="certificate")
    return contents[5]


def _server_context(chain: bytes, directory: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
    context.num_tickets = 0
    context.set_alpn_protocols(["http/1.1"])
    path = f"{directory}/leaf-{os.urandom(8).hex()}.pem"
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            with open(fd, "wb") as file:
                file.write(chain)
            context.load_cert_chain(path)
        finally:
            os.unlink(path)
    except (OSError, ssl.SSLError) as error:
        raise Unavailable(f"a certificate cannot be used: {error}", code="certificate") from error
    return context
