"""What a process box may ask of the kernel, as data; `seccomp.py` compiles it.

Theory. The list is the one the common container engines ship, without the parts they tie to capabilities (a box has
none) and without what a box is better off not having. Three answers exist:

- ALLOWED, and PARTIAL rules with errno 0: the call runs.
- DENIED, and PARTIAL rules with an errno: known calls a box must not make. EPERM, so a program says "not permitted".
- everything else, and every call newer than this list: ENOSYS, so a program falls back to what an older kernel had.

MASKED rules live in a second filter that allows by default, because libseccomp cannot say "allow unless these bits".
Both filters see every call and the stricter answer wins. No answer ever kills. A name the machine does not have is
skipped, so one list serves x86_64 and aarch64.

Left out on purpose, so ENOSYS:
- clone3, openat2: flags and mode lie behind a pointer a filter cannot read. libc falls back to clone and openat.
- memfd_secret: pages even the host's root cannot read, and while any exists the host cannot hibernate.
- cachestat: tells which pages of a file shared with the host are cached; nothing needs it.
- process_madvise, statmount, listmount, setxattrat and the like: every user has a fallback.
"""

from __future__ import annotations

import errno

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Condition = tuple[int, int, int]  # (index, mask, value): matches when args[index] & mask == value
    Rule = tuple[int, str, tuple[Condition, ...]]  # (errno or 0 to allow, name, conditions that must all match)

INT = 0xFFFFFFFF  # the kernel drops the high half of an int argument, so a comparison must drop it too

_ALLOWED = (
    # processes; exec without a file is no gain, any file in the box may be executed
    "execve execveat exit exit_group fork vfork wait4 waitid kill tkill tgkill pidfd_open pidfd_send_signal",
    "getpid getppid gettid getpgid getpgrp getsid setpgid setsid set_tid_address prctl arch_prctl restart_syscall",
    # ids and capabilities: without capabilities these can only give up or swap what the box has
    "getuid geteuid getgid getegid getresuid getresgid getgroups capget capset",
    "setuid setgid setreuid setregid setresuid setresgid setfsuid setfsgid setgroups",
    # debuggers. Safe since 4.8: the filter runs after a tracer changed the call. The reach is the box's own processes,
    # and init is not dumpable, so it is not among them
    "ptrace process_vm_readv process_vm_writev kcmp",
    # sandboxes inside the box can only tighten what is there
    "seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self",
    # scheduling and limits: raising needs a capability
    "sched_yield sched_getaffinity sched_setaffinity sched_getattr sched_setattr sched_getparam sched_setparam",
    "sched_getscheduler sched_setscheduler sched_get_priority_max sched_get_priority_min sched_rr_get_interval",
    "getpriority setpriority ioprio_get ioprio_set getrlimit setrlimit prlimit64 getrusage times getcpu",
    # memory
    "brk mmap munmap mremap mprotect madvise msync mincore mlock mlock2 mlockall munlock munlockall membarrier",
    "memfd_create pkey_alloc pkey_free pkey_mprotect remap_file_pages process_mrelease map_shadow_stack mseal",
    # threads
    "futex futex_waitv get_robust_list set_robust_list rseq",
    # signals
    "rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_tgsigqueueinfo rt_sigreturn rt_sigsuspend",
    "rt_sigtimedwait sigaltstack signalfd signalfd4 alarm pause",
    # reading clocks, and waiting on them
    "clock_getres clock_gettime clock_nanosleep gettimeofday nanosleep time getitimer setitimer",
    "timer_create timer_delete timer_getoverrun timer_gettime timer_settime",
    "timerfd_create timerfd_gettime timerfd_settime",
    # opening and naming files; modes are MASKED
    "open openat creat close close_range mknod mknodat mkdir mkdirat rmdir link linkat symlink symlinkat",
    "unlink unlinkat rename renameat renameat2 readlink readlinkat chdir fchdir getcwd umask",
    # attributes of files
    "access faccessat faccessat2 stat lstat fstat newfstatat statx statfs fstatfs",
    "chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes futimesat utimensat",
    "getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr setxattr lsetxattr fsetxattr",
    "removexattr lremovexattr fremovexattr",
    # bytes of files
    "read readv pread64 preadv preadv2 write writev pwrite64 pwritev pwritev2 lseek getdents getdents64",
    "sendfile copy_file_range splice tee fallocate truncate ftruncate flock fcntl readahead fadvise64",
    "sync syncfs fsync fdatasync sync_file_range io_setup io_destroy io_submit io_cancel io_getevents io_pgetevents",
    # descriptors and waiting on them; ioctl is MASKED
    "dup dup2 dup3 pipe pipe2 eventfd eventfd2 ioctl select pselect6 poll ppoll",
    "epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2",
    "inotify_init inotify_init1 inotify_add_watch inotify_rm_watch",
    # sockets, once made: see PARTIAL and MASKED for the making
    "bind listen accept accept4 connect shutdown getsockname getpeername getsockopt setsockopt",
    "sendto sendmsg sendmmsg recvfrom recvmsg recvmmsg",
    # System V and POSIX queues, of the box's own namespace
    "msgget msgctl msgsnd msgrcv semget semctl semop semtimedop shmget shmctl shmat shmdt",
    "mq_open mq_unlink mq_notify mq_getsetattr mq_timedsend mq_timedreceive",
    "uname sysinfo getrandom",
)
ALLOWED = tuple(" ".join(_ALLOWED).split())

_DENIED = (
    # files out of the box's tree: namespaces, mounts, file handles
    "unshare setns mount umount2 pivot_root chroot open_tree open_tree_attr move_mount mount_setattr",
    "fsopen fsconfig fsmount fspick open_by_handle_at name_to_handle_at fanotify_init fanotify_mark",
    # large kernel interfaces with a long history of holes; io_uring also opens files and sockets no filter sees
    "io_uring_setup io_uring_enter io_uring_register bpf perf_event_open userfaultfd vmsplice",
    # keyrings are shared by every process of the user
    "keyctl add_key request_key",
    # another process's descriptors, past the ones it chose to pass
    "pidfd_getfd",
    # 16-bit segments: only Wine and DOS emulators, which need the refused 32-bit calls anyway
    "modify_ldt",
    # placement on NUMA nodes: allocators and databases do without
    "mbind get_mempolicy set_mempolicy set_mempolicy_home_node migrate_pages move_pages",
    # the machine itself
    "init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff iopl ioperm",
    "acct quotactl quotactl_fd syslog lookup_dcookie vhangup sethostname setdomainname",
    "settimeofday clock_settime clock_adjtime adjtimex",
)
DENIED = tuple(" ".join(_DENIED).split())

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
_FAMILIES = (AF_UNIX, AF_INET, AF_INET6, AF_NETLINK)
_FAMILY_SPACE = 64  # above every address family and every netlink protocol there is
_NAMESPACES = 0x7E020000  # NEWNS NEWCGROUP NEWUTS NEWIPC NEWUSER NEWPID NEWNET
_PERSONA = 0x60008  # PER_LINUX32, UNAME26, and ADDR_NO_RANDOMIZE: debuggers set it, and it weakens only their child
_PERSONA_DENIED = 0x0FF80000  # READ_IMPLIES_EXEC, MMAP_PAGE_ZERO and the other flags
_PERSONA_ASK = 0xFFFFFFFF  # changes nothing; told from the denied flags by its sign bit
_SIGN = 0x80000000


def _partial() -> Iterator[Rule]:
    """Allow some calls for some of their arguments only."""
    yield 0, "clone", ((0, _NAMESPACES, 0),)
    for flag in _bits(_NAMESPACES):
        yield errno.EPERM, "clone", ((0, flag, flag),)
    yield 0, "personality", ((0, INT, _PERSONA_ASK),)
    yield 0, "personality", ((0, INT & ~_PERSONA, 0),)
    for flag in _bits(_PERSONA_DENIED):
        yield errno.EPERM, "personality", ((0, flag | _SIGN, flag),)
    for family in (AF_UNIX, AF_INET, AF_INET6):
        yield 0, "socket", ((0, INT, family),)
    # NETLINK_ROUTE is protocol 0: getaddrinfo and getifaddrs ask it; changing anything takes a capability
    yield 0, "socket", ((0, INT, AF_NETLINK), (2, INT, 0))
    for mask, value in _others((0,), _FAMILY_SPACE):
        yield errno.EAFNOSUPPORT, "socket", ((0, INT, AF_NETLINK), (2, mask, value))
    for mask, value in _others(_FAMILIES, _FAMILY_SPACE):
        yield errno.EAFNOSUPPORT, "socket", ((0, mask, value),)
    yield 0, "socketpair", ((0, INT, AF_UNIX),)
    for mask, value in _others((AF_UNIX,), _FAMILY_SPACE):
        yield errno.EAFNOSUPPORT, "socketpair", ((0, mask, value),)


_TTY_REQUESTS = (
    0x5412,  # TIOCSTI types into the terminal
    0x541C,  # TIOCLINUX pastes into a console
    0x5423,  # TIOCSETD loads a line discipline, a driver nobody in a box needs
)
_MODE_ARGS = (
    ("chmod", 1),
    ("fchmod", 1),
    ("fchmodat", 2),
    ("fchmodat2", 2),
    ("creat", 1),
    ("mknod", 1),
    ("mknodat", 2),
)
_OPEN_ARGS = (("open", 1, 2), ("openat", 2, 3))  # name, flags, mode
_SET_ID = (0o4000, 0o2000)
_CREATES = (0o100, 0o20000000)  # O_CREAT, __O_TMPFILE: only then is the mode used; the same on both machines
_DEVICES = (0o020000, 0o060000)
_FILE_TYPE = 0o170000
_RENAME_WHITEOUT = 4
_INET_ANY = (INT & ~(AF_INET ^ AF_INET6), AF_INET & AF_INET6)
_STREAM_DGRAM_RAW = (1, 2, 3)
_SOCK_TYPE = 0xF
_PROTOCOLS = (0, 1, 6, 17, 58)  # default ICMP TCP UDP ICMPv6
_PROTOCOL_SPACE = 512  # IPPROTO_MAX is 263


def _masked() -> Iterator[Rule]:
    """Refuse calls by bits of their arguments, whatever the other bits say."""
    for request in _TTY_REQUESTS:
        yield errno.EPERM, "ioctl", ((1, INT, request),)
    # the kernel lets anyone make device 0:0, the mark overlayfs hides files with, by mknod or by rename
    for name, mode in (("mknod", 1), ("mknodat", 2)):
        for device in _DEVICES:
            yield errno.EPERM, name, ((mode, _FILE_TYPE, device),)
    yield errno.EPERM, "renameat2", ((4, _RENAME_WHITEOUT, _RENAME_WHITEOUT),)
    # init has its commands' uid, and that is all the kernel asks for: with a limit of no descriptors it accepts nobody
    yield errno.EPERM, "prlimit64", ((0, INT, 1),)
    # TCP, UDP and ping only: SCTP, DCCP, MPTCP and SMC would load their module for any user, and AF_INET with
    # SOCK_PACKET is AF_PACKET under another name
    for mask, value in _others(_STREAM_DGRAM_RAW, _SOCK_TYPE + 1, _SOCK_TYPE):
        yield errno.ESOCKTNOSUPPORT, "socket", ((0, *_INET_ANY), (1, mask, value))
    for mask, value in _others(_PROTOCOLS, _PROTOCOL_SPACE):
        yield errno.EPROTONOSUPPORT, "socket", ((0, *_INET_ANY), (2, mask, value))


def _set_id() -> Iterator[Rule]:
    # `nosuid` protects the box; the workspace is the host's disk, where a set-id file would be obeyed. mkdir needs no
    # rule: the kernel takes the two bits off its mode
    for bit in _SET_ID:
        for name, mode in _MODE_ARGS:
            yield errno.EPERM, name, ((mode, bit, bit),)
        for name, flags, mode in _OPEN_ARGS:
            for create in _CREATES:
                yield errno.EPERM, name, ((flags, create, create), (mode, bit, bit))


def _bits(mask: int) -> Iterator[int]:
    return (1 << n for n in range(32) if mask >> n & 1)


def _others(wanted: tuple[int, ...], space: int, width: int = INT) -> Iterator[tuple[int, int]]:
    """Cover 0..space-1 except `wanted` with aligned blocks, each of them one masked comparison."""
    blocks = [(0, space)]
    while blocks:
        start, size = blocks.pop()
        if not any(start <= value < start + size for value in wanted):
            yield width & ~(size - 1), start
        elif size > 1:
            half = size // 2
            blocks += ((start + half, half), (start, half))


PARTIAL = tuple(_partial())
MASKED_BUT_SET_ID = tuple(_masked())
MASKED = (*MASKED_BUT_SET_ID, *_set_id())
