"""The secrets of one installation: records in a private directory, values in the keyring or in files beside them.

Theory. A record names the slot its value is in, and every new value gets a new slot. So the record is the one thing
that is replaced, and it is replaced whole: a crash between the two writes never pairs a new value with an old binding,
which would send it where it must not go. A slot that no record names is dropped by the next change.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import time

from paddock import fs
from paddock.errors import PaddockError, Unavailable, UserError
from paddock.limits import SECRET_BYTES, SECRET_CACHE_S, SECRET_RECORD_BYTES, SECRETS_MAX
from paddock.secrets import ownfile, sources
from paddock.secrets.binding import Binding, check_name, is_name
from paddock.secrets.keyring import Keyring
from paddock.secrets.record import Backend, Kind, Record, Source, decode, encode
from paddock.secrets.value import Secret, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Clock = Callable[[], float]

_RECORD, _VALUE = ".json", ".value"


class Store:
    """Every call looks at the disk: another process may have changed it. Only what commands print is remembered."""

    def __init__(self, directory: str, keyring: Keyring, clock: Clock = time.monotonic) -> None:
        self._directory = directory
        self._keyring = keyring
        self._clock = clock
        self._printed: dict[str, tuple[Record, float, Secret]] = {}

    def __repr__(self) -> str:
        return f"<Store {self._directory}>"

    # -- records ---------------------------------------------------------------------------------------------------
    def find(self, name: str) -> Record | None:
        path = self._path(check_name(name), _RECORD)
        try:
            return decode(ownfile.read_own(path, SECRET_RECORD_BYTES), path)
        except FileNotFoundError:
            return None

    def record(self, name: str) -> Record:
        """Raises UserError `unknown-secret`."""
        record = self.find(name)
        if record is None:
            raise UserError(f"there is no secret '{name}'", hint=f"`paddock secret set {name}`", code="unknown-secret")
        return record

    def names(self) -> list[str]:
        with contextlib.suppress(FileNotFoundError):
            found = os.listdir(self._directory)
            names = [name.removesuffix(_RECORD) for name in found if name.endswith(_RECORD)]
            return sorted(filter(is_name, names))
        return []

    # -- values ----------------------------------------------------------------------------------------------------
    def resolve(self, name: str, environ: Mapping[str, str]) -> Secret:
        """The value now; the error says which secret is missing and how to get it back."""
        record = self.record(name)
        match record.source.kind:
            case Kind.STORED:
                return self._stored(record)
            case Kind.COMMAND:
                return self._of_command(record, environ)
            case _:
                return sources.value(name, record.source, environ)

    def _stored(self, record: Record) -> Secret:
        slot = record.source.words[0]
        try:
            if record.source.backend is Backend.KEYRING:
                return self._keyring.read(record.name, slot)
            return read(ownfile.read_own(self._slot(record.name, slot), SECRET_BYTES), f"'{record.name}'")
        except (OSError, PaddockError) as error:
            reason = error.message if isinstance(error, PaddockError) else "its file is gone"
            hint = f"`paddock secret set {record.name}` sets it again"
            raise Unavailable(
                f"no value for the secret '{record.name}': {reason}", hint=hint, code="no-secret"
            ) from None

    def _of_command(self, record: Record, environ: Mapping[str, str]) -> Secret:
        known, since, value = self._printed.get(record.name, (None, 0.0, None))
        if value is None or known != record or self._clock() - since >= SECRET_CACHE_S:
            value = sources.value(record.name, record.source, environ)
            self._printed[record.name] = record, self._clock(), value
        return value

    # -- changes ---------------------------------------------------------------------------------------------------
    def put(self, binding: Binding, given: Secret | Source) -> Record:
        """Set a secret, or replace it; what is given is a value to keep, or where to find it."""
        with self._changing():
            before = self.find(binding.name)
            if before is None and len(self.names()) >= SECRETS_MAX:
                raise UserError(
                    f"there are {SECRETS_MAX} secrets", hint="`paddock secret rm NAME`", code="secrets-full"
                )
            source = self._keep(binding.name, given) if isinstance(given, Secret) else given
            now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
            record = Record(
                name=binding.name,
                binding=binding,
                source=source,
                created=before.created if before else now,
                changed=now,
            )
            self._write(record)
            self._drop(before)
            self._sweep()
        return record

    def remove(self, name: str) -> bool:
        """Whether its value is gone too; only a keyring that does not answer keeps one. UserError if there is none."""
        self._printed.pop(name, None)
        with self._changing():
            try:
                record = self.record(name)
            except Unavailable:  # damaged: nothing says whether the keyring has anything of it
                os.unlink(self._path(name, _RECORD))
                return False
            os.unlink(self._path(name, _RECORD))
            dropped = self._drop(record)
            self._sweep()
        return dropped

    def _write(self, record: Record) -> None:
        try:
            fs.write_atomic(self._path(record.name, _RECORD), encode(record))
        except PaddockError:
            self._drop(record)
            raise

    def _keep(self, name: str, value: Secret) -> Source:
        import secrets

        slot = secrets.token_hex(16)
        if self._keyring.answers():
            self._keyring.keep(name, slot, value)
            return Source(kind=Kind.STORED, words=(slot,), backend=Backend.KEYRING)
        fs.write_atomic(self._slot(name, slot), value.reveal().encode())
        return Source(kind=Kind.STORED, words=(slot,), backend=Backend.FILE)

    def _drop(self, record: Record | None) -> bool:
        if record is None or record.source.backend is not Backend.KEYRING:
            return True  # files without a record are swept
        return self._keyring.drop(record.name, record.source.words[0])

    def _sweep(self) -> None:
        """Values that no record names: of a secret that is gone, or of a `put` that did not come to its end."""
        try:
            records = [record for name in self.names() if (record := self.find(name))]
        except Unavailable:
            return  # whose value it is cannot be told while a record is damaged
        named = {self._slot(record.name, record.source.words[0]) for record in records}
        for file in os.listdir(self._directory):
            path = f"{self._directory}/{file}"
            if file.endswith(_VALUE) and path not in named:
                os.unlink(path)

    def _changing(self) -> fs.FileLock:
        fs.make_private_dir(self._directory)
        return fs.FileLock(f"{self._directory}/lock")

    def _path(self, name: str, ending: str) -> str:
        return f"{self._directory}/{name}{ending}"

    def _slot(self, name: str, slot: str) -> str:
        return self._path(f"{name}.{slot}", _VALUE)


def opened(directory: str, environ: Mapping[str, str]) -> Store:
    return Store(directory, Keyring(directory, environ))
