"""Host-side file access that a hostile tree cannot abuse, and the files that are our own."""

from paddock.fs.beneath import is_beneath, open_beneath, opened_beneath, opened_directory, read_beneath
from paddock.fs.copying import Entries, copy_facts, copy_tree
from paddock.fs.lock import FileLock
from paddock.fs.private import make_private_dir, write_atomic
from paddock.fs.removal import discard_tree, move_tree, remove_tree
from paddock.fs.sockets import bind_unix, connect_unix, receive_fds
from paddock.fs.swap import exchange, rename_new
from paddock.fs.sync import sync_all, sync_directory, sync_file_systems
from paddock.fs.usage import tree_bytes
from paddock.fs.walk import LISTABLE, file_system, is_missing, is_scarcity, mount_id

__all__ = [
    "LISTABLE",
    "Entries",
    "FileLock",
    "bind_unix",
    "connect_unix",
    "copy_facts",
    "copy_tree",
    "discard_tree",
    "exchange",
    "file_system",
    "is_beneath",
    "is_missing",
    "is_scarcity",
    "make_private_dir",
    "mount_id",
    "move_tree",
    "open_beneath",
    "opened_beneath",
    "opened_directory",
    "read_beneath",
    "receive_fds",
    "remove_tree",
    "rename_new",
    "sync_all",
    "sync_directory",
    "sync_file_systems",
    "tree_bytes",
    "write_atomic",
]
