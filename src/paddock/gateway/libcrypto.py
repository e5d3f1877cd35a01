"""P-256 keys, signatures and their verification by the OpenSSL that Python's own `ssl` is linked with, through ctypes.

Nothing else of it is used: certificates and public keys are bytes we write ourselves. The calls exist alike in OpenSSL
1.1.1 and 3.
A symbol looked up through the handle of `_ssl` is found in the libraries it depends on, so it is the very same library
and not another of the same name; where `_ssl` is part of the interpreter, the symbols are the program's own.
A jailed process loads it before it goes to jail: `library()` remembers what it found.
"""

from __future__ import annotations

import ctypes
import functools
import ssl  # a dependency of this module in fact: it loads and initialises the library
from ctypes import POINTER, byref, c_char_p, c_int, c_long, c_size_t, c_void_p
from typing import Literal

from paddock.errors import Unavailable

Digest = Literal["", "sha256", "sha384", "sha512"]
_EC = 408  # EVP_PKEY_EC
_PRIME256V1 = 415  # NID_X9_62_prime256v1
_PARAMGEN_OR_KEYGEN = 1 << 1 | 1 << 2
_CURVE_NID = 0x1001  # EVP_PKEY_CTRL_EC_PARAMGEN_CURVE_NID
_SIGNATURE_BYTES = 80  # two 33-octet integers and their headers are 72

_PROTOTYPES: dict[str, tuple[object, list[object]]] = {
    "EVP_PKEY_CTX_new_id": (c_void_p, [c_int, c_void_p]),
    "EVP_PKEY_CTX_free": (None, [c_void_p]),
    "EVP_PKEY_CTX_ctrl": (c_int, [c_void_p, c_int, c_int, c_int, c_int, c_void_p]),
    "EVP_PKEY_keygen_init": (c_int, [c_void_p]),
    "EVP_PKEY_keygen": (c_int, [c_void_p, POINTER(c_void_p)]),
    "EVP_PKEY_free": (None, [c_void_p]),
    "i2d_PrivateKey": (c_int, [c_void_p, POINTER(c_void_p)]),
    "CRYPTO_free": (None, [c_void_p, c_char_p, c_int]),
    "d2i_PrivateKey": (c_void_p, [c_int, c_void_p, POINTER(c_void_p), c_long]),
    "EVP_MD_CTX_new": (c_void_p, []),
    "EVP_MD_CTX_free": (None, [c_void_p]),
    "EVP_sha256": (c_void_p, []),
    "EVP_sha384": (c_void_p, []),
    "EVP_sha512": (c_void_p, []),
    "d2i_PUBKEY": (c_void_p, [c_void_p, POINTER(c_void_p), c_long]),
    "EVP_DigestVerifyInit": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "EVP_DigestVerify": (c_int, [c_void_p, c_char_p, c_size_t, c_char_p, c_size_t]),
    "EVP_DigestSignInit": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "EVP_DigestSign": (c_int, [c_void_p, c_void_p, POINTER(c_size_t), c_char_p, c_size_t]),
    "ERR_clear_error": (None, []),
}


class Key:
    """A P-256 key pair; freed with the object."""

    __slots__ = ("_lib", "_pkey")

    def __init__(self, lib: ctypes.CDLL, pkey: int) -> None:
        self._lib, self._pkey = lib, pkey

    def __repr__(self) -> str:
        return "<Key P-256 ***>"

    def __del__(self) -> None:
        self._lib.EVP_PKEY_free(self._pkey)

    def private_der(self) -> bytes:
        """SEC 1 ECPrivateKey; it ends with the public point."""
        written = c_void_p()
        length = self._lib.i2d_PrivateKey(self._pkey, byref(written))
        if length <= 0 or not written.value:
            raise _failed(self._lib, "write a key")
        try:
            return ctypes.string_at(written.value, length)
        finally:
            self._lib.CRYPTO_free(written, b"", 0)

    def sign(self, data: bytes) -> bytes:
        """ECDSA with SHA-256, as DER."""
        lib = self._lib
        context = lib.EVP_MD_CTX_new()
        room = ctypes.create_string_buffer(_SIGNATURE_BYTES)
        length = c_size_t(_SIGNATURE_BYTES)
        try:
            if (
                not context
                or lib.EVP_DigestSignInit(context, None, lib.EVP_sha256(), None, self._pkey) != 1
                or lib.EVP_DigestSign(context, room, byref(length), data, len(data)) != 1
            ):
                raise _failed(lib, "sign")
        finally:
            lib.EVP_MD_CTX_free(context)
        return room.raw[: length.value]


def generate() -> Key:
    lib = library()
    context = lib.EVP_PKEY_CTX_new_id(_EC, None)
    pkey = c_void_p()
    try:
        if (
            not context
            or lib.EVP_PKEY_keygen_init(context) != 1
            or lib.EVP_PKEY_CTX_ctrl(context, _EC, _PARAMGEN_OR_KEYGEN, _CURVE_NID, _PRIME256V1, None) != 1
            or lib.EVP_PKEY_keygen(context, byref(pkey)) != 1
            or not pkey.value
        ):
            raise _failed(lib, "make a key")
    finally:
        lib.EVP_PKEY_CTX_free(context)
    return Key(lib, pkey.value)


def load(private_der: bytes) -> Key:
    """The key that `private_der` wrote."""
    lib = library()
    room = ctypes.create_string_buffer(private_der, len(private_der))
    pkey = lib.d2i_PrivateKey(_EC, None, byref(c_void_p(ctypes.addressof(room))), len(private_der))
    if not pkey:
        raise _failed(lib, "read a key")
    return Key(lib, pkey)


def verify(public_der: bytes, signature: bytes, data: bytes, digest: Digest) -> bool:
    """Whether the key (SubjectPublicKeyInfo) signed the data; no digest for kinds of keys that have their own."""
    lib = library()
    room = ctypes.create_string_buffer(public_der, len(public_der))
    pkey = lib.d2i_PUBKEY(None, byref(c_void_p(ctypes.addressof(room))), len(public_der))
    context = lib.EVP_MD_CTX_new()
    try:
        kind = getattr(lib, f"EVP_{digest}")() if digest else None
        return bool(
            pkey
            and context
            and lib.EVP_DigestVerifyInit(context, None, kind, None, pkey) == 1
            and lib.EVP_DigestVerify(context, signature, len(signature), data, len(data)) == 1
        )
    finally:
        lib.EVP_MD_CTX_free(context)
        lib.EVP_PKEY_free(pkey)
        lib.ERR_clear_error()


@functools.cache
def library() -> ctypes.CDLL:
    """The library with its prototypes set; Unavailable when this Python's cannot be reached."""
    for name in _candidates():
        try:
            lib = ctypes.CDLL(name)
            for symbol, (result, arguments) in _PROTOTYPES.items():
                function = getattr(lib, symbol)
                function.restype, function.argtypes = result, arguments
        except (OSError, AttributeError):
            continue
        return lib
    raise Unavailable(
        "the OpenSSL library of this Python cannot be reached",
        hint="use the distribution's own python3; without it refusals over TLS are alerts without a text",
        code="no-libcrypto",
    )


def _candidates() -> list[str | None]:
    import _ssl

    own = getattr(_ssl, "__file__", None)  # absent where the module is part of the interpreter
    return [*([own] if own else []), None, *_names()]


def _names() -> list[str]:
    major = ssl.OPENSSL_VERSION_INFO[0]
    return [f"libcrypto.so.{major}" if major >= 3 else "libcrypto.so.1.1"]


def _failed(lib: ctypes.CDLL, what: str) -> Unavailable:
    lib.ERR_clear_error()  # Python's ssl would report our failure as its own
    return Unavailable(f"OpenSSL did not {what}", code="libcrypto")
