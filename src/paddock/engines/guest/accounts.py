"""Users of a box by name or number, as its own /etc/passwd and /etc/group say: text that anybody may have written.

init reads them in the box, with the box's rights; the host reads those of an image before there is a box.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

FILE_BYTES = 1 << 20
ALONE = "PADDOCK_ALONE"
IDS = 65536  # as many as a box has at most
_GROUPS_MAX = 256
_NAME_CHARS = 256
_CAPABILITY_VERSION_3 = 0x20080522
_OVER_PROCESSES = 1 << 5 | 1 << 6 | 1 << 7  # to end them, and to choose their groups and users
_libc = ctypes.CDLL(None, use_errno=True)


class Unknown(Exception):
    """There is no such user, in words for who asked."""


class Account:
    __slots__ = ("gid", "groups", "home", "name", "uid")

    def __init__(self, name: str, uid: int, gid: int, groups: tuple[int, ...] = (), home: str = "/") -> None:
        self.name = name
        self.uid = uid
        self.gid = gid
        self.groups = groups
        self.home = home

    def __repr__(self) -> str:
        return f"<Account {self.name} {self.uid}:{self.gid}>"

    def become(self) -> None:
        """For a child that is about to be a program of this user's; there is no way back."""
        os.setgroups([self.gid, *self.groups])
        os.setresgid(self.gid, self.gid, self.gid)
        os.setresuid(self.uid, self.uid, self.uid)


def find(words: str, passwd: bytes, group: bytes) -> Account:
    """USER, UID, USER:GROUP or UID:GID, as an image or a caller says it."""
    user, _, wanted = words.partition(":")
    if not user or len(words) > _NAME_CHARS or not words.isprintable():
        raise Unknown(f"{words[:40]!r} is no user")
    account = _user(user, passwd)
    if wanted:
        return Account(account.name, account.uid, _group(wanted, group), (), account.home)
    return Account(account.name, account.uid, account.gid, _groups(account.name, group), account.home)


def _user(user: str, passwd: bytes) -> Account:
    number = _number(user)
    for row in _rows(passwd, 6):
        uid, gid = _number(row[2]), _number(row[3])
        if uid is not None and gid is not None and (row[0] == user or uid == number):
            return Account(row[0], uid, gid, (), row[5] if row[5].startswith("/") else "/")
    if number is None:
        raise Unknown(f"no user {user!r} is in its /etc/passwd")
    return Account(user, number, 0)


def _group(wanted: str, group: bytes) -> int:
    number = _number(wanted)
    if number is not None:
        return number
    for row in _rows(group, 3):
        gid = _number(row[2])
        if row[0] == wanted and gid is not None:
            return gid
    raise Unknown(f"no group {wanted!r} is in its /etc/group")


def _groups(name: str, group: bytes) -> tuple[int, ...]:
    found = (_number(row[2]) for row in _rows(group, 4) if name in row[3].split(","))
    return tuple(dict.fromkeys(gid for gid in found if gid is not None))[:_GROUPS_MAX]


def _rows(data: bytes, fields: int) -> Iterator[list[str]]:
    for line in data[:FILE_BYTES].decode("utf-8", "replace").split("\n"):
        row = line.split(":")
        if len(row) >= fields and row[0]:
            yield row


def _number(text: str) -> int | None:
    """Of an id that a box can have; nothing else that Python would take for a number."""
    if not (text.isascii() and text.isdigit() and len(text) <= 5):
        return None
    return int(text) if int(text) < IDS else None


# -- in the box --------------------------------------------------------------------------------------------------------


def here(words: str) -> Account:
    """A user of the box that we are in."""
    return find(words, _read("/etc/passwd"), _read("/etc/group"))


def are_alone() -> bool:
    """Whether our box has one id. A kernel of its own shows more than there are, so it is told."""
    if ALONE in os.environ:
        return True
    with open("/proc/self/uid_map", "rb") as file:
        return file.read().split()[2:] == [b"1"]


def _read(path: str) -> bytes:
    """What is no file is read as an empty one: a FIFO must not take hold of init."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return b""
    with open(fd, "rb") as file:
        return file.read(FILE_BYTES) if stat.S_ISREG(os.fstat(fd).st_mode) else b""


def act_as(uid: int, gid: int) -> None:
    """What we open and make from now on is as this user's; what we may do to processes stays."""
    _libc.setfsgid(gid)
    _libc.setfsuid(uid)
    if _libc.setfsuid(-1) != uid:  # the answer is who we are for files; gVisor's kernel has no such thing
        _be_in_effect(uid, gid)


def _be_in_effect(uid: int, gid: int) -> None:
    """The same by ids that files, but not only they, go by; the rights over processes are taken back one by one."""
    os.seteuid(0)
    os.setegid(gid)
    os.seteuid(uid)
    if uid:
        header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
        data = ctypes.create_string_buffer(24)
        _check(_libc.capget(header, data))
        sets = list(struct.unpack("=6I", data.raw))
        sets[0] = sets[1] & _OVER_PROCESSES
        _check(_libc.capset(header, struct.pack("=6I", *sets)))


def _check(result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@contextlib.contextmanager
def acting_as(account: Account, own: tuple[int, int]) -> Iterator[None]:
    act_as(account.uid, account.gid)
    try:
        yield
    finally:
        act_as(*own)
