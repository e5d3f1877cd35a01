"""The name and address a user commits with, read from their own git's files where that is certain to be what git says.

Asking git costs a start two processes. Files that include others, or only one work tree's, are left to git: which of
them count depends on conditions that are git's to know.
"""

from __future__ import annotations

import os
import stat

from paddock import limits
from paddock.errors import UserError
from paddock.workspace import git, settings
from paddock.workspace.gitdir import Identity
from paddock.workspace.repository import Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paddock.workspace.repository import Repository
    from paddock.workspace.settings import Settings

_SYSTEM = {"/usr/bin/git": "/etc/gitconfig", "/bin/git": "/etc/gitconfig"}
_USUAL = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


def read(home: str, found: Repository) -> Identity | None:
    """As `git config` would say it for this user and repository; None where only git knows. Unavailable without git."""
    system = _SYSTEM.get(git.program())
    if system is None:
        return None
    try:
        parts = [_file(path) for path in (system, f"{home}/.config/git/config", f"{home}/.gitconfig")]
        if found.kind is not Kind.NONE:
            parts.append(found.settings)
    except (UserError, OSError):
        return None
    told = tuple(pair for part in parts for pair in part)
    if any(key.startswith(("include.", "includeif.")) for key, _ in told):
        return None
    if settings.is_true(told, "extensions.worktreeconfig"):
        return None
    who = Identity(name=settings.last(told, "user.name"), email=settings.last(told, "user.email"))
    return None if "true" in {who.name, who.email} else who  # it may have been a key without a value


def _file(path: str) -> Settings:
    """# TRUST: a file of the user's or of the system, through their links; only read, and nothing in it is obeyed."""
    try:
        fd = os.open(path, _USUAL)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise UserError(f"{path} is no regular file", code="git-config")
        data = file.read(limits.GIT_FILE_BYTES + 1)
    if len(data) > limits.GIT_FILE_BYTES:
        raise UserError(f"{path} is too large", code="git-config")
    return settings.parse(os.fsdecode(data), path)
