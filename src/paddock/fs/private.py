"""Our own directories and files: reachable by nobody else, and written whole or not at all.

A directory is private only if no other user could have put another in its place, so every directory on the way is
looked at: it belongs to root or to us, and others cannot write to it unless it is sticky, as /tmp is (SPEC-09).
Symbolic links on the way (a home on another disk) are followed by hand under the same rule; in the last place they are
refused.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from paddock.errors import Unavailable, UserError

_PRIVATE = 0o700
_OTHERS_WRITE = 0o022
_PLACE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_LINKS_MAX = 40  # as the kernel
_NOBODY = 65534  # how the owner of a file looks who is not mapped into our user namespace


def make_private_dir(path: str) -> None:
    """Make `path` a directory of mode 0700 that is ours, or check that it is; parents are made 0700 too."""
    parts = _parts(path)
    if not path.startswith("/") or not parts or ".." in parts:
        raise UserError(f"{path!r} cannot be a private directory", hint="give an absolute path without '..'")
    try:
        _walk(parts)
    except OSError as error:
        raise Unavailable(
            f"cannot make the directory {path!r}: {error.strerror}",
            hint="check the free space and the permissions of its parent directories",
            code="state-directory",
        ) from error


def write_atomic(path: str, data: bytes, mode: int = 0o600, *, sync: bool = True) -> None:
    """Replace `path` by `data`: after a crash or on a full disk the old or the new content is there, never a part.

    Without `sync` that does not hold for a crash of the machine, and the disk is not waited for.
    """
    directory, name = os.path.split(path)
    try:
        at = os.open(directory or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _replace(at, name, data, mode, sync=sync)
        finally:
            os.close(at)
    except OSError as error:
        hint = "free some space and try again" if error.errno in {errno.ENOSPC, errno.EDQUOT} else ""
        raise Unavailable(f"cannot write {path!r}: {error.strerror}", hint=hint, code="write") from error


def _replace(at: int, name: str, data: bytes, mode: int, *, sync: bool) -> None:
    fresh = f".new-{os.urandom(8).hex()}"
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=at)
    try:
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(fd, rest) :]
            os.fchmod(fd, mode)
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(fresh, name, src_dir_fd=at, dst_dir_fd=at)
    except BaseException:
        os.unlink(fresh, dir_fd=at)
        raise
    if sync:
        os.fsync(at)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in {"", "."}]


def _walk(parts: list[str]) -> None:
    waiting = parts[::-1]
    links = 0
    shown = "/"
    opened = [os.open("/", _PLACE)]
    try:
        at = opened[0]
        _check_parent(os.fstat(at), shown)
        while waiting:
            name = waiting.pop()
            below = _open_or_make(at, name)
            opened.append(below)
            status = os.fstat(below)
            if stat.S_ISLNK(status.st_mode) and waiting and links < _LINKS_MAX:
                links += 1
                target = _read_link(below, status, os.path.join(shown, name))
                waiting += _parts(target)[::-1]
                if target.startswith("/"):
                    at, shown = opened[0], "/"
                continue
            at, shown = below, os.path.join(shown, name)
            if waiting:
                _check_parent(status, shown)
            else:
                _check_own(at, status, shown)
    finally:
        for fd in opened:
            os.close(fd)


def _open_or_make(at: int, name: str) -> int:
    try:
        return os.open(name, _PLACE, dir_fd=at)
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):  # someone was faster, and is judged by what is there now
            os.mkdir(name, _PRIVATE, dir_fd=at)
        return os.open(name, _PLACE, dir_fd=at)


def _read_link(fd: int, status: os.stat_result, shown: str) -> str:
    if not _trusted(status.st_uid):
        raise _unsafe(f"{shown!r} is a symbolic link of uid {status.st_uid}", "choose another directory")
    return os.readlink("", dir_fd=fd)


def _check_parent(status: os.stat_result, shown: str) -> None:
    if not stat.S_ISDIR(status.st_mode):
        raise _unsafe(f"{shown!r} is not a directory", "choose another directory")
    if not _trusted(status.st_uid):
        raise _unsafe(
            f"{shown!r} belongs to uid {status.st_uid}", "choose a directory whose parents are yours or root's"
        )
    loose = status.st_mode & _OTHERS_WRITE
    if not loose or status.st_mode & stat.S_ISVTX:
        return
    if loose == stat.S_IWGRP and _is_our_own_group(status.st_gid):
        return
    raise _unsafe(f"others can write to {shown!r}", f"run `chmod go-w {shown!r}` or choose another directory")


def _check_own(fd: int, status: os.stat_result, shown: str) -> None:
    if not stat.S_ISDIR(status.st_mode):
        kind = "a symbolic link" if stat.S_ISLNK(status.st_mode) else "not a directory"
        raise _unsafe(f"{shown!r} is {kind}", "remove it or choose another directory")
    if status.st_uid != os.geteuid():
        raise _unsafe(f"{shown!r} belongs to uid {status.st_uid}", "choose a directory of your own")
    if status.st_mode & _OTHERS_WRITE:
        hint = f"look at what is in it, then run `chmod 700 {shown!r}`"
        raise _unsafe(f"others could write to {shown!r}", hint)
    if stat.S_IMODE(status.st_mode) != _PRIVATE:
        os.chmod(f"/proc/self/fd/{fd}", _PRIVATE)  # fchmod refuses O_PATH descriptors


def _trusted(uid: int) -> bool:
    return uid in {0, os.geteuid()} or (uid == _NOBODY and _in_user_namespace())


def _in_user_namespace() -> bool:
    """In a rootless container the host's own /home belongs to a root that has no number here."""
    with open("/proc/self/uid_map", encoding="ascii") as file:
        return file.read().split() != ["0", "0", "4294967295"]


def _is_our_own_group(gid: int) -> bool:
    """Where each user has a group of their own, umask is 002 and ~/.local is writable by that group."""
    import grp
    import pwd

    try:
        me = pwd.getpwuid(os.geteuid())
        group = grp.getgrgid(gid)
    except KeyError:
        return False
    return gid == me.pw_gid and group.gr_name == me.pw_name and set(group.gr_mem) <= {me.pw_name}


def _unsafe(message: str, hint: str) -> UserError:
    return UserError(message, hint=hint, code="unsafe-directory")
