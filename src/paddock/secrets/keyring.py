"""The keyring of the desktop session, through libsecret's own `secret-tool`.

The program is looked for in the system's directories alone: it is handed values, and a PATH may lead into a workspace.
Whether a keyring answers is found by keeping something in it. A value goes in by standard input and is in no argument.
"""

from __future__ import annotations

import os

from paddock.errors import Unavailable
from paddock.limits import KEYRING_S, SECRET_BYTES
from paddock.secrets.value import Secret, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from paddock import proc

_PLACES = ("/usr/bin", "/usr/local/bin", "/run/current-system/sw/bin")
_PASSED = ("DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "HOME", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "LANG")


class Keyring:
    """`place` tells the secrets of one installation from those of another."""

    def __init__(self, place: str, environ: Mapping[str, str], programs: tuple[str, ...] = _PLACES) -> None:
        self._place = place
        self._env = {key: environ[key] for key in _PASSED if environ.get(key)}
        found = [path for directory in programs if os.access(path := f"{directory}/secret-tool", os.X_OK)]
        self._program = found[0] if found and self._has_session() else ""

    def __repr__(self) -> str:
        return f"<Keyring {self._program or 'none'}>"

    def _has_session(self) -> bool:
        """Without one libsecret would start a bus of its own, which nobody finds again."""
        bus = f"{self._env.get('XDG_RUNTIME_DIR', '')}/bus"
        return "DBUS_SESSION_BUS_ADDRESS" in self._env or os.path.exists(bus)

    def answers(self) -> bool:
        """Whether it gives back what it was given."""
        if not self._program:
            return False
        import secrets

        slot, probe = secrets.token_hex(16), Secret(secrets.token_hex(16))
        try:
            self.keep("probe", slot, probe)
            return self.read("probe", slot) == probe
        except Unavailable:
            return False
        finally:
            self.drop("probe", slot)

    def keep(self, name: str, slot: str, value: Secret) -> None:
        words = ["store", f"--label=Paddock secret {name}", *self._attributes(name, slot)]
        if not self._ran(words, value.reveal().encode()):
            raise _silent(f"the keyring did not take '{name}'")

    def read(self, name: str, slot: str) -> Secret:
        done = self._run(["lookup", *self._attributes(name, slot)]) if self._program else None
        if done is None or done.code or done.timed_out or not done.stdout:
            raise _silent(f"the keyring does not give '{name}'")
        return read(done.stdout, f"'{name}'")

    def drop(self, name: str, slot: str) -> bool:
        """Whether it is gone; a keyring that does not answer still has it."""
        return bool(self._program) and self._ran(["clear", *self._attributes(name, slot)])

    def _attributes(self, name: str, slot: str) -> list[str]:
        return ["application", "paddock", "place", self._place, "name", name, "slot", slot]

    def _ran(self, words: list[str], stdin: bytes = b"") -> bool:
        done = self._run(words, stdin)
        return not done.code and not done.timed_out

    def _run(self, words: list[str], stdin: bytes = b"") -> proc.Finished:
        from paddock import proc

        argv = [self._program, *words]
        return proc.run(
            argv, env=self._env, cwd="/", timeout_s=KEYRING_S, stdin=stdin, output_bytes_max=SECRET_BYTES + 2
        )


def _silent(message: str) -> Unavailable:
    return Unavailable(message, hint="unlock it and try again, or set the secret again", code="keyring")
