"""Signatures of hosts: that who holds a host's private key took part in a session.

Only keys that the user's known_hosts has are ever looked at. Their form becomes DER, which OpenSSL reads.
"""

from __future__ import annotations

from typing import Final

from paddock.errors import PaddockError
from paddock.gateway import der, libcrypto
from paddock.sshagent.wire import Malformed, Reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paddock.gateway.libcrypto import Digest

_ED25519, _EC, _RSA = "1.3.101.112", "1.2.840.10045.2.1", "1.2.840.113549.1.1.1"
_NULL: Final = der.value(0x05)
_CURVES: Final[dict[bytes, tuple[bytes, str, Digest, int]]] = {  # RFC 5656: name, OID, digest, octets of a point
    b"ecdsa-sha2-nistp256": (b"nistp256", "1.2.840.10045.3.1.7", "sha256", 65),
    b"ecdsa-sha2-nistp384": (b"nistp384", "1.3.132.0.34", "sha384", 97),
    b"ecdsa-sha2-nistp521": (b"nistp521", "1.3.132.0.35", "sha512", 133),
}
_RSA_DIGESTS: Final[dict[bytes, Digest]] = {b"rsa-sha2-256": "sha256", b"rsa-sha2-512": "sha512"}  # SHA-1 is not one
_RSA_LEAST_BITS, _RSA_MOST_BITS = 2048, 16384


def verifies(key: bytes, signature: bytes, data: bytes) -> bool:
    """Whether the host with this public key signed the data; no for kinds of keys that are not known here."""
    try:
        kind = Reader(key).string()
        if kind == b"ssh-ed25519":
            return _ed25519(key, signature, data)
        if kind in _CURVES:
            return _ecdsa(kind, key, signature, data)
        return kind == b"ssh-rsa" and _rsa(key, signature, data)
    except PaddockError:
        return False


def _parts(signature: bytes) -> tuple[bytes, bytes]:
    reader = Reader(signature)
    kind, value = reader.string(), reader.string()
    reader.end()
    return kind, value


def _ed25519(key: bytes, signature: bytes, data: bytes) -> bool:
    reader = Reader(key)
    kind, point = reader.string(), reader.string()
    reader.end()
    signed_as, value = _parts(signature)
    if len(point) != 32 or signed_as != kind or len(value) != 64:
        raise Malformed
    return libcrypto.verify(der.sequence(der.sequence(der.oid(_ED25519)), der.bits(point)), value, data, "")


def _ecdsa(kind: bytes, key: bytes, signature: bytes, data: bytes) -> bool:
    name, curve, digest, size = _CURVES[kind]
    reader = Reader(key)
    _, named, point = reader.string(), reader.string(), reader.string()
    reader.end()
    signed_as, value = _parts(signature)
    if named != name or len(point) != size or point[0] != 4 or signed_as != kind:
        raise Malformed
    pair = Reader(value)
    numbers = der.sequence(der.integer(pair.mpint()), der.integer(pair.mpint()))
    pair.end()
    public = der.sequence(der.sequence(der.oid(_EC), der.oid(curve)), der.bits(point))
    return libcrypto.verify(public, numbers, data, digest)


def _rsa(key: bytes, signature: bytes, data: bytes) -> bool:
    reader = Reader(key)
    reader.string()
    exponent, modulus = reader.mpint(), reader.mpint()
    reader.end()
    signed_as, value = _parts(signature)
    size = (modulus.bit_length() + 7) // 8
    if signed_as not in _RSA_DIGESTS or not _RSA_LEAST_BITS <= modulus.bit_length() <= _RSA_MOST_BITS:
        raise Malformed
    if len(value) > size:
        raise Malformed
    inner = der.sequence(der.integer(modulus), der.integer(exponent))
    public = der.sequence(der.sequence(der.oid(_RSA), _NULL), der.bits(inner))
    return libcrypto.verify(public, value.rjust(size, b"\0"), data, _RSA_DIGESTS[signed_as])
