"""A TLS 1.3 client that asks for new keys (RFC 8446 4.6.3) and never reads the answers; Python's own cannot."""

from __future__ import annotations

import _ssl
import contextlib
import ctypes
from ctypes import c_char_p, c_int, c_long, c_void_p
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import socket

_SET_NAME: Final = 55  # SSL_CTRL_SET_TLSEXT_HOSTNAME
_BIO_PENDING: Final = 10
_REQUESTED: Final = 1
_AT_ONCE: Final = 2000


class Client:
    """Its memory is not freed: it lives in a process of its own, or for one test."""

    def __init__(self, sock: socket.socket, name: str) -> None:
        lib = ctypes.CDLL(getattr(_ssl, "__file__", None))
        for call in ("TLS_client_method", "SSL_CTX_new", "SSL_new", "BIO_s_mem", "BIO_new"):
            getattr(lib, call).restype = c_void_p
        lib.BIO_ctrl.restype = c_long
        self._lib, self._sock = lib, sock
        context = c_void_p(lib.SSL_CTX_new(c_void_p(lib.TLS_client_method())))
        self._tls = c_void_p(lib.SSL_new(context))
        self._in, self._out = (c_void_p(lib.BIO_new(c_void_p(lib.BIO_s_mem()))) for _ in range(2))
        lib.SSL_set_bio(self._tls, self._in, self._out)
        lib.SSL_set_connect_state(self._tls)
        lib.SSL_ctrl(self._tls, c_int(_SET_NAME), c_long(0), c_char_p(name.encode()))
        while lib.SSL_do_handshake(self._tls) != 1:
            sock.sendall(self._said())
            data = sock.recv(65536)
            assert data, "the handshake failed"
            lib.BIO_write(self._in, c_char_p(data), c_int(len(data)))
        sock.sendall(self._said())

    def flood(self, most_bytes: int) -> bool:
        """Ask until so many bytes were sent; whether the other end still listens."""
        sent = 0
        with contextlib.suppress(TimeoutError, OSError):
            while sent < most_bytes:
                for _ in range(_AT_ONCE):
                    assert self._lib.SSL_key_update(self._tls, c_int(_REQUESTED)) == 1
                    self._lib.SSL_do_handshake(self._tls)
                data = self._said()
                self._sock.sendall(data)
                sent += len(data)
        return sent >= most_bytes

    def _said(self) -> bytes:
        size = self._lib.BIO_ctrl(self._out, c_int(_BIO_PENDING), c_long(0), c_void_p(0))
        room = ctypes.create_string_buffer(max(size, 1))
        self._lib.BIO_read(self._out, room, c_int(size))
        return room.raw[:size]
