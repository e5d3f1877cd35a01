"""What looks like a credential by its name, and where such files lie near the top of a tree.

Only the first two levels are read, because this runs at every box start; the deeper places that are known are listed
tool by tool in toolchain_table.py.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from paddock import fs

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME: Final = re.compile(
    r"""
    [._]?(?:npmrc|netrc|pypirc|condarc|gemrc|pgpass|s3cfg|dockercfg|git-credentials|vault-token)
    | \.yarnrc(?:\.yml)? | \.env(?:\..+)? | pip\.conf
    | auth\.(?:json|toml|ya?ml)
    | \.?credentials?(?:[._-].+)?
    | \.?(?:access_|auth_|api_)?(?:tokens?|secrets?)(?:\.(?:json|toml|ya?ml|txt|env))?
    | id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?
    | .+\.(?:key|p12|pfx|jks|keystore|kdbx|ppk)
    | .*(?:priv|private_?|-|_)key\.pem | key\.pem
    """,
    re.VERBOSE | re.IGNORECASE,
)

# Directories of code: large, and nobody keeps a password there under such a name.
_CODE: Final = frozenset(
    (
        *("bin", "sbin", "lib", "lib64", "libexec", "include", "share", "man", "shims", "pkgs", "store", "Cellar"),
        *("opt", "site-packages", "node_modules", "__pycache__", ".git", "conda-meta"),
    )
)


def looks_like_one(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def near_the_top(tree: str) -> Iterator[str]:
    """Files with such a name directly in `tree` or in a directory of it; of a directory so named, all files."""
    deeper = []
    for entry in _entries(tree):
        if not entry.is_dir(follow_symlinks=False):
            if looks_like_one(entry.name):
                yield entry.path
        elif looks_like_one(entry.name):
            yield from _files(entry.path)
        elif entry.name not in _CODE:
            deeper.append(entry.path)
    if os.path.basename(tree) in _CODE:
        return
    for directory in deeper:
        for entry in _entries(directory):
            if looks_like_one(entry.name):
                yield from _files(entry.path) if entry.is_dir(follow_symlinks=False) else [entry.path]


def _files(directory: str) -> list[str]:
    return [entry.path for entry in _entries(directory) if not entry.is_dir(follow_symlinks=False)]


def _entries(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except OSError as error:
        if fs.is_scarcity(error):
            raise
        return []  # closed to us, and so to the box
