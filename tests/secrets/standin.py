"""A stand-in for libsecret's `secret-tool`: the same words and streams, and a directory for a keyring.

It writes down what it was called with, so that a test can see that no value was among it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from paddock.secrets.keyring import Keyring

if TYPE_CHECKING:
    from pathlib import Path

_PROGRAM = """#!{python} -IS
import hashlib, os, sys
home = {home!r}
open(home + "/calls", "a").write(repr(sys.argv) + repr(sorted(os.environ.items())) + "\\n")
if os.path.exists(home + "/locked"):
    sys.exit(1)
verb, words = sys.argv[1], [word for word in sys.argv[2:] if not word.startswith("--")]
path = home + "/item-" + hashlib.sha256(repr(sorted(zip(words[::2], words[1::2]))).encode()).hexdigest()
if verb == "store":
    if "--label" not in sys.argv[2].partition("=")[0]:
        sys.exit(2)
    open(path, "wb").write(sys.stdin.buffer.read())
elif verb == "lookup":
    if not os.path.exists(path):
        sys.exit(1)
    sys.stdout.buffer.write(open(path, "rb").read())
elif verb == "clear":
    if os.path.exists(path):
        os.unlink(path)
"""


class Desktop:
    """A session with a keyring that can be locked."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environ = {"DBUS_SESSION_BUS_ADDRESS": "unix:path=/nowhere", "PATH": "/usr/bin:/bin", "HOME": str(home)}
        home.mkdir(parents=True)
        program = home / "secret-tool"
        program.write_text(_PROGRAM.format(python=sys.executable, home=str(home)))
        program.chmod(0o755)

    def keyring(self, place: str = "here") -> Keyring:
        return Keyring(place, self.environ, (str(self.home),))

    def lock(self) -> None:
        (self.home / "locked").touch()

    def items(self) -> list[str]:
        return [file.read_text() for file in self.home.glob("item-*")]

    def calls(self) -> str:
        return (self.home / "calls").read_text()
