"""The gateway's jail: it parses hostile bytes beside secrets, so it has sockets and nothing else.

Theory. The process keeps the host's network, which is its purpose, and loses all other things of the host: it is cloned
into user, mount, pid, ipc, uts and cgroup namespaces, its root is an empty tmpfs of a few MiB, it holds no capability
and cannot get one, and a filter answers EPERM to every call that is not on the list below. Sockets it listens on, log
files, policies and keys come as descriptors. What it may still do, and has to: connect by TCP and UDP to anywhere, and
write to the descriptors it was given. Policy decides what it connects to; this only bounds what a bug in it is worth.

Everything it will ever import has to be imported before.
"""

from __future__ import annotations

import errno
import os
import resource
from typing import TYPE_CHECKING, Final, NoReturn

from paddock.engines.process import confine, kernel, seccomp
from paddock.engines.process.syscalls import AF_INET, AF_INET6, INT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from paddock.engines.process.syscalls import Rule

Filters = tuple[bytes, bytes]

JAIL_ID: Final = 1_899_999_999  # the gateway of a root caller: nobody's id, just below those of boxes
_NAMESPACES: Final = (
    kernel.CLONE_NEWUSER
    | kernel.CLONE_NEWNS
    | kernel.CLONE_NEWPID
    | kernel.CLONE_NEWIPC
    | kernel.CLONE_NEWUTS
    | kernel.CLONE_NEWCGROUP
)
_ROOT: Final = "/tmp"  # any directory that exists everywhere
_ROOT_OPTIONS: Final = "mode=700,size=4m,nr_inodes=512"
_ROOT_FLAGS: Final = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC

_CALLS: Final = (
    # bytes of descriptors
    "read readv pread64 write writev pwrite64 lseek close fstat ftruncate fsync fdatasync splice pipe2 fcntl",
    # sockets: made below, bound and listened on never
    "connect accept accept4 shutdown getsockname getpeername getsockopt setsockopt",
    "sendto sendmsg recvfrom recvmsg",
    # waiting
    "epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 poll ppoll select pselect6",
    "clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time eventfd2",
    # files: there are none but those it makes itself in its own root, where a key and a certificate lie for a moment
    "open openat newfstatat stat lstat statx readlink readlinkat access faccessat faccessat2 unlink unlinkat",
    "getdents64 memfd_create",
    # memory; see _masked
    "brk mmap munmap mremap mprotect madvise membarrier",
    # the process itself
    "exit exit_group getpid gettid getppid getuid geteuid getgid getegid getrusage getcpu sched_yield futex",
    "rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack restart_syscall getrandom sysinfo uname rseq",
)
_SOCKET_TYPES: Final = (1, 2)  # stream, datagram
_SOCKET_TYPE: Final = 0xF
_IOCTLS: Final = (0x5421, 0x541B, 0x5450, 0x5451)  # FIONBIO, FIONREAD, FIONCLEX, FIOCLEX
_PROT_EXEC: Final = 4


def build() -> Filters:
    """Compile what `confine_calls` installs; needs libseccomp, so before the jail."""
    # in this order: the second would refuse the call that installs the first
    return seccomp.compile_list(_masked(), 0), seccomp.compile_list(_rules(), errno.EPERM)


def enter(keep: Collection[int]) -> None:
    """Go on as another process, in jail, with the descriptors in `keep` and /dev/null under what is missing of 0, 1, 2.

    The process that called ends here. One thread, and an OSError in the new process if anything is refused: then it
    must end too.
    """
    uid, gid = os.getuid(), os.getgid()
    if uid == 0:
        os.setgroups([])
    kernel.join_new_session_keyring()
    gate, held = os.pipe2(os.O_CLOEXEC)
    pid = kernel.clone(_NAMESPACES)
    if pid:
        _release(pid, held, uid)
    os.close(held)
    if not os.read(gate, 1):
        raise OSError(errno.EPERM, "the jail got no ids")
    os.close(gate)
    _map_ids(uid, gid)
    _leave_the_files(keep)
    for limit in (resource.RLIMIT_NPROC, resource.RLIMIT_CORE):
        resource.setrlimit(limit, (0, 0))
    kernel.drop_all_capabilities()
    kernel.set_no_new_privs()
    kernel.set_dumpable(dumpable=False)
    os.umask(0o077)


def confine_calls(filters: Filters) -> None:
    """The last step, before the first hostile byte is read."""
    seccomp.install(filters)


def _release(pid: int, held: int, uid: int) -> NoReturn:
    """Parent side: gives the child its ids, lets it go and ends."""
    try:
        if uid == 0:
            for name, text in (("setgroups", "deny"), ("uid_map", f"0 {JAIL_ID} 1"), ("gid_map", f"0 {JAIL_ID} 1")):
                confine.write_file(f"/proc/{pid}/{name}", text)
        kernel.close_all_but({held})  # whoever finds the child dead must not find its sockets open in us
        os.write(held, b"\0")
    finally:
        os._exit(0)  # without a word at the gate the child ends too


def _map_ids(uid: int, gid: int) -> None:
    if uid == 0:  # the parent wrote the maps
        kernel.become(0, 0)
        return
    confine.write_file("/proc/self/setgroups", "deny")
    confine.write_file("/proc/self/uid_map", f"0 {uid} 1")
    confine.write_file("/proc/self/gid_map", f"0 {gid} 1")


def _leave_the_files(keep: Collection[int]) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for fd in {0, 1, 2} - set(keep):
        os.dup2(null, fd)
    kernel.close_all_but({0, 1, 2, *keep})
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("jail", _ROOT, "tmpfs", _ROOT_FLAGS, _ROOT_OPTIONS)
    os.chdir(_ROOT)
    kernel.pivot_root_here()


def _rules() -> Iterator[Rule]:
    for name in " ".join(_CALLS).split():
        yield 0, name, ()
    for family in (AF_INET, AF_INET6):  # not unix: the host's abstract sockets are in reach
        for kind in _SOCKET_TYPES:
            yield 0, "socket", ((0, INT, family), (1, _SOCKET_TYPE, kind))
    for request in _IOCTLS:
        yield 0, "ioctl", ((1, INT, request),)


def _masked() -> Iterator[Rule]:
    """No memory that can be written becomes code."""
    for name in ("mmap", "mprotect"):
        yield errno.EPERM, name, ((2, _PROT_EXEC, _PROT_EXEC),)
