"""The system call filter: compiled once by libseccomp, installed as plain bytes by every box.

The launcher imports this and forks for each box, so it loads nothing but ctypes. See `syscalls.py` for the rules.
"""

from __future__ import annotations

import ctypes
import errno
import os

from paddock.engines.process.syscalls import ALLOWED, DENIED, MASKED, MASKED_BUT_SET_ID, PARTIAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from paddock.engines.process.syscalls import Rule

_ALLOW = 0x7FFF0000
_ERRNO = 0x00050000
_ACT_BADARCH, _CTL_OPTIMIZE = 2, 8
_BINARY_TREE = 2
_MASKED_EQ = 7
_MACHINES = (0xC000003E, 0xC00000B7)  # x86_64 and aarch64: elsewhere arguments may sit in another order

_PR_GET_NO_NEW_PRIVS = 39
_PR_SET_SECCOMP = 22
_MODE_FILTER = 2
_INSTRUCTION_BYTES = 8


class _Compare(ctypes.Structure):
    _fields_ = (
        ("arg", ctypes.c_uint),
        ("op", ctypes.c_int),
        ("mask", ctypes.c_uint64),
        ("value", ctypes.c_uint64),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


_prctl = ctypes.CDLL(None, use_errno=True).prctl
_prctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong]


def build() -> tuple[bytes, bytes, bytes]:
    """Compile the allow-list, the filter of masked denials, and the latter without set-id bits for boxes that may set
    them; raises OSError when libseccomp cannot.
    """
    library = _load()
    return allow_list(), _compile(library, _ALLOW, MASKED), _compile(library, _ALLOW, MASKED_BUT_SET_ID)


def allow_list(*more: str) -> bytes:
    """What boxes may call, and `more`."""
    plain = [*((0, name, ()) for name in (*ALLOWED, *more)), *((errno.EPERM, name, ()) for name in DENIED)]
    return compile_list((*plain, *PARTIAL), errno.ENOSYS)


def compile_list(rules: Iterable[Rule], default: int) -> bytes:
    """Compile another list: what no rule names is answered with the errno `default`, or allowed when that is 0."""
    return _compile(_load(), _ERRNO | default if default else _ALLOW, rules)


def install(filters: Iterable[bytes]) -> None:
    """Confine this thread and all its future children for good; no_new_privs must be set, or nothing is installed."""
    if _prctl(_PR_GET_NO_NEW_PRIVS, 0, None, 0, 0) != 1:  # the kernel itself would let root go on
        raise OSError(errno.EACCES, "no_new_privs is not set")
    for code in filters:
        install_as_owner(code)


def install_as_owner(code: bytes) -> None:
    """One filter. Without no_new_privs only who owns their user namespace may, and programs can still gain its ids."""
    program = _Program(len(code) // _INSTRUCTION_BYTES, code)
    if _prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program), 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, f"the kernel refused the system call filter: {os.strerror(number)}")


def _load() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL("libseccomp.so.2")
    except OSError as error:
        raise OSError(errno.ENOENT, f"the package libseccomp2 is missing or broken: {error}") from error
    library.seccomp_init.argtypes = [ctypes.c_uint32]
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_release.argtypes = [ctypes.c_void_p]
    library.seccomp_release.restype = None
    library.seccomp_attr_set.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32]
    library.seccomp_arch_native.restype = ctypes.c_uint32
    library.seccomp_syscall_resolve_name.argtypes = [ctypes.c_char_p]
    library.seccomp_rule_add_array.argtypes = [
        ctypes.c_void_p,
        ctypes.c_uint32,
        ctypes.c_int,
        ctypes.c_uint,
        ctypes.c_void_p,
    ]
    library.seccomp_export_bpf.argtypes = [ctypes.c_void_p, ctypes.c_int]
    if library.seccomp_arch_native() not in _MACHINES:
        raise OSError(errno.ENOTSUP, f"no system call list for {os.uname().machine}")
    return library


def _compile(library: ctypes.CDLL, default: int, rules: Iterable[Rule]) -> bytes:
    context = library.seccomp_init(default)
    if not context:
        raise OSError(errno.ENOMEM, "libseccomp made no filter")
    try:
        # libseccomp would kill on a 32-bit or x32 call; a program that tries one should hear no instead
        _check(library.seccomp_attr_set(context, _ACT_BADARCH, _ERRNO | errno.EPERM), "foreign calls")
        library.seccomp_attr_set(context, _CTL_OPTIMIZE, _BINARY_TREE)  # before 2.5 a linear filter: slower, as safe
        for rule in rules:
            _add(library, context, rule)
        return _export(library, context)
    finally:
        library.seccomp_release(context)


def _add(library: ctypes.CDLL, context: int, rule: Rule) -> None:
    number, name, conditions = rule
    call = library.seccomp_syscall_resolve_name(name.encode("ascii"))
    if call < 0:  # not on this machine, or newer than this libseccomp: the default answers
        return
    compares = (_Compare * len(conditions))()
    for i, (arg, mask, value) in enumerate(conditions):
        compares[i] = _Compare(arg, _MASKED_EQ, mask, value)
    action = _ERRNO | number if number else _ALLOW
    _check(library.seccomp_rule_add_array(context, action, call, len(conditions), compares), name)


def _export(library: ctypes.CDLL, context: int) -> bytes:
    fd = os.memfd_create("filter", os.MFD_CLOEXEC)
    try:
        _check(library.seccomp_export_bpf(context, fd), "export")
        return os.pread(fd, os.fstat(fd).st_size, 0)
    finally:
        os.close(fd)


def _check(result: int, what: str) -> None:
    if result < 0:
        raise OSError(-result, f"libseccomp refused {what}: {os.strerror(-result)}")
