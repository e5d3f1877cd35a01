"""Whether somebody has a file open, asked of the kernel: it grants a write lease only where nobody else has.

The lease is given back at once. Its break signal is one that is ignored unless asked for: SIGIO would end us.
"""

from __future__ import annotations

import errno
import fcntl
import signal

_F_SETSIG = 10  # fcntl(2); the module does not name it


def is_in_use(fd: int) -> bool:
    """Whether the file of a descriptor opened for reading is open or mapped elsewhere too; False if it cannot be known.

    It cannot on file systems without leases, and of files of others.
    """
    try:
        fcntl.fcntl(fd, _F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False
