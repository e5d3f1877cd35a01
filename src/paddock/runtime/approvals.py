"""What the user approved of project files: once per content, and never where a box can write."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import dataclass, field

from paddock import codec, fs
from paddock.errors import PaddockError
from paddock.limits import APPROVALS_MAX
from paddock.store import now

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Approved:
    approved: dict[str, str] = field(default_factory=dict)  # digest -> when


class Approvals:
    """A file that is not there or cannot be read approves nothing."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._approved = _load(path)

    def __repr__(self) -> str:
        return f"<Approvals {len(self._approved)} in {self._path}>"

    def has(self, workspace: str, content: str) -> bool:
        """`content` is a digest of what the file says."""
        return _key(workspace, content) in self._approved

    def add(self, workspace: str, content: str) -> None:
        """On disk when this returns."""
        approved = {**self._approved, _key(workspace, content): now()}
        kept = dict(list(approved.items())[-APPROVALS_MAX:])
        data = json.dumps(codec.to_wire(_Approved(approved=kept)), indent=1).encode()
        fs.write_atomic(self._path, data + b"\n")
        self._approved = kept


def _key(workspace: str, content: str) -> str:
    """The same file in another project is another question."""
    return hashlib.sha256(json.dumps([workspace, content]).encode()).hexdigest()


def _load(path: str) -> dict[str, str]:
    try:
        with open(path, "rb") as file:
            return codec.from_wire(_Approved, json.loads(file.read())).approved
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, PaddockError) as error:
        log.warning("%s cannot be read, so nothing is approved: %s", path, error)
        return {}
