"""The compiled filters, run instruction by instruction here, answer what the list says for every call and argument."""

from __future__ import annotations

import ctypes
import errno
import functools
import itertools
import struct

import pytest

from paddock.engines.process import seccomp
from paddock.engines.process.syscalls import ALLOWED, DENIED, MASKED, PARTIAL

ALLOW = 0x7FFF0000
HIGH_HALF = 0xDEADBEEF << 32
I386 = 0x40000003
X32_BIT = 0x40000000
library = ctypes.CDLL("libseccomp.so.2")
library.seccomp_arch_native.restype = ctypes.c_uint32
NATIVE = library.seccomp_arch_native()
filters = functools.cache(seccomp.build)


def number(name: str) -> int:
    return int(library.seccomp_syscall_resolve_name(name.encode()))


def run(code: bytes, call: int, args: tuple[int, ...] = (), machine: int = NATIVE) -> int:
    """Interpret one program over one call and answer the errno it returns, 0 for allow."""
    data = struct.pack("<iIQ6Q", call, machine, 0, *(*args, *[0] * (6 - len(args))))
    accumulator = at = 0
    while True:
        operation, true, false, operand = struct.unpack_from("<HBBI", code, at * 8)
        at += 1
        match operation:
            case 0x20:
                (accumulator,) = struct.unpack_from("<I", data, operand)
            case 0x54:
                accumulator &= operand
            case 0x05:
                at += operand
            case 0x15:
                at += true if accumulator == operand else false
            case 0x25:
                at += true if accumulator > operand else false
            case 0x35:
                at += true if accumulator >= operand else false
            case 0x45:
                at += true if accumulator & operand else false
            case 0x06 if operand == ALLOW:
                return 0
            case 0x06:
                assert operand >> 16 == 5, f"the answer {operand:#x} is neither allow nor an errno"
                return int(operand) & 0xFFFF
            case _:
                pytest.fail(f"unknown instruction {operation:#x}")


def answer(name: str, *args: int) -> int:
    """Ask both filters, also with noise in the high half of every argument, which the kernel ignores in these calls."""
    verdicts = {
        (run(first, number(name), noisy), run(second, number(name), noisy))
        for first, second in [filters()[:2]]
        for noisy in (args, tuple(arg | HIGH_HALF for arg in args))
    }
    assert len(verdicts) == 1, f"{name}{args} depends on bits the kernel does not look at"
    allow_list, masked = verdicts.pop()
    return masked or allow_list


def on_this_machine(*names: str) -> list[str]:
    return [name for name in names if number(name) >= 0]


def test_the_lists_do_not_contradict_each_other() -> None:
    names = [*ALLOWED, *DENIED, *{name for _, name, _ in PARTIAL}]
    assert len(names) == len(set(names))
    assert {name for _, name, _ in MASKED} <= {*ALLOWED, *(name for _, name, _ in PARTIAL)}


def test_every_listed_call_gets_its_answer_and_every_other_call_is_unknown() -> None:
    expected = {number(name): 0 for name in ALLOWED} | {number(name): errno.EPERM for name in DENIED}
    partial = {number(name) for _, name, _ in PARTIAL}
    got = {call: run(filters()[0], call) for call in range(1024) if call not in partial}
    assert got == {call: expected.get(call, errno.ENOSYS) for call in got}


def test_calls_whose_flags_lie_behind_a_pointer_look_unimplemented() -> None:
    assert [answer(name) for name in on_this_machine("clone3", "openat2")] == [errno.ENOSYS, errno.ENOSYS]


def test_the_second_filter_leaves_calls_alone_that_it_does_not_name() -> None:
    named = {number(name) for _, name, _ in MASKED}
    assert {run(filters()[1], call) for call in range(1024) if call not in named} == {0}


def test_foreign_machines_are_refused_and_not_killed() -> None:
    for code in filters():
        assert {run(code, call, machine=I386) for call in range(512)} == {errno.EPERM}


@pytest.mark.skipif(number("arch_prctl") < 0, reason="x32 exists on x86_64 only")
def test_x32_calls_are_refused_and_not_killed() -> None:
    for code in filters():
        assert {run(code, X32_BIT | call) for call in range(1024)} == {errno.EPERM}


def test_clone_is_refused_for_each_namespace_and_allowed_for_all_else() -> None:
    namespaces = 0x7E020000
    for bit in range(32):
        assert answer("clone", 1 << bit) == (errno.EPERM if namespaces >> bit & 1 else 0), hex(1 << bit)
        assert answer("clone", 1 << bit | namespaces) == errno.EPERM
    assert answer("clone", ~namespaces & 0xFFFFFFFF) == 0


@pytest.mark.parametrize("value", [0, 8, 0x20000, 0x20008, 0x40000, 0x40008, 0x60008, 0xFFFFFFFF])
def test_harmless_personalities_are_allowed(value: int) -> None:
    assert answer("personality", value) == 0


def test_every_other_personality_is_refused() -> None:
    for bit in set(range(32)) - {3, 17, 18}:
        for value in (1 << bit, 1 << bit | 0x60008, 0xFFFFFFFF ^ 1 << bit):
            assert answer("personality", value) in {errno.EPERM, errno.ENOSYS}, hex(value)
    for flag in (0x0400000, 0x0100000, 0x0200000, 0x0800000):
        assert answer("personality", flag) == errno.EPERM, hex(flag)


def test_only_the_four_families_make_sockets() -> None:
    for family in range(64):
        assert answer("socket", family, 1, 0) == (0 if family in {1, 2, 10, 16} else errno.EAFNOSUPPORT), family
        assert answer("socketpair", family, 1, 0) == (0 if family == 1 else errno.EAFNOSUPPORT), family
    for bit in range(6, 32):
        assert answer("socket", 1 << bit | 2, 1, 0) == errno.ENOSYS


def test_netlink_speaks_route_only() -> None:
    assert [answer("socket", 16, 3, protocol) for protocol in range(64)] == [0, *[errno.EAFNOSUPPORT] * 63]


@pytest.mark.parametrize("family", [2, 10])
def test_inet_sockets_are_tcp_udp_and_ping_only(family: int) -> None:
    flags = 0o2004000  # SOCK_CLOEXEC | SOCK_NONBLOCK
    for kind, protocol in itertools.product(range(16), range(512)):
        allowed = kind in {1, 2, 3} and protocol in {0, 1, 6, 17, 58}
        assert (answer("socket", family, kind | flags, protocol) == 0) is allowed, (kind, protocol)


def test_unix_sockets_are_not_held_to_inet_protocols() -> None:
    assert {answer("socket", 1, kind, 132) for kind in range(16)} == {0}


@pytest.mark.parametrize(
    ("name", "mode_at"),
    [("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2), ("creat", 1), ("mknod", 1), ("mknodat", 2)],
)
def test_no_mode_argument_carries_set_id_bits(name: str, mode_at: int) -> None:
    if number(name) < 0:
        pytest.skip(f"no {name} here")
    for mode in range(0o10000):
        args = (*[0] * mode_at, mode)
        assert answer(name, *args) == (errno.EPERM if mode & 0o6000 else 0), oct(mode)


@pytest.mark.parametrize(("name", "flags_at"), [("open", 1), ("openat", 2)])
def test_opening_is_refused_with_set_id_bits_only_where_it_creates(name: str, flags_at: int) -> None:
    if number(name) < 0:
        pytest.skip(f"no {name} here")
    for flags, mode in itertools.product(
        (0, 1, 2, 0o2000000, 0o100, 0o101, 0o20000000, 0o20200002), range(0, 0o10000, 64)
    ):
        denied = flags & 0o20000100 and mode & 0o6000
        args = (*[0] * flags_at, flags, mode)
        assert answer(name, *args) == (errno.EPERM if denied else 0), (oct(flags), oct(mode))


@pytest.mark.parametrize(("name", "mode_at"), [("mknod", 1), ("mknodat", 2)])
def test_mknod_makes_files_fifos_and_sockets_but_no_devices(name: str, mode_at: int) -> None:
    if number(name) < 0:
        pytest.skip(f"no {name} here")
    answers = {kind: answer(name, *[0] * mode_at, kind | 0o644) for kind in range(0, 0o200000, 0o10000)}
    assert {kind for kind, got in answers.items() if got} == {0o020000, 0o060000}


def test_terminal_injection_requests_are_refused() -> None:
    for request in (0x5412, 0x541C, 0x5423):
        assert answer("ioctl", 0, request) == errno.EPERM
    for request in (0x5401, 0x5413, 0x5414, 0x540E, 0x5411, 0x541B, 0x5421):
        assert answer("ioctl", 0, request) == 0


def test_rename_leaves_no_whiteout_behind() -> None:
    assert [answer("renameat2", 0, 0, 0, 0, flags) for flags in range(8)] == [0] * 4 + [errno.EPERM] * 4
