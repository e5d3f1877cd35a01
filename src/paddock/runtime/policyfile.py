"""One file with rules, as it was when it last could be read."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from paddock.errors import UserError
from paddock.limits import POLICY_FILE_BYTES
from paddock.policy import files
from paddock.reports import SourceInfo

if TYPE_CHECKING:
    from paddock.policy import SourceKind
    from paddock.policy.layering import Statement

log = logging.getLogger(__name__)
REWRITTEN_S = 0.1  # how long a file that has gone may take to come back
LEAVING_S = 1.0  # and how long one that comes and goes says what it said


class PolicyFile:
    def __init__(self, path: str, kind: SourceKind) -> None:
        self.path = path
        self._kind = kind
        self.good: Statement | None = None
        self.problem: UserError | None = None
        self._gone_at: float | None = None
        self._gone_since = 0.0
        self.is_known = False  # read or found missing at least once, so that `good` is what it said last
        self.reload()

    def __repr__(self) -> str:
        return f"<PolicyFile {self.path} {self.info().state}>"

    def reload(self, *, stirred: bool = False) -> None:
        """`stirred`: something happened near the file since it was last looked at."""
        try:
            text = self.text()
            if not text and self._is_just_gone(stirred=stirred):
                return
            self._gone_at = None
            self.good = files.parse_policy_toml(text, self.path, self._kind) if text is not None else None
            self.problem = None
            self.is_known = True
        except UserError as error:
            self.problem = error
            log.warning("%s stays as it was: %s", self.path, error)

    @property
    def is_leaving(self) -> bool:
        """It is gone or empty, and may be written in a moment: to be looked at again soon."""
        return self._gone_at is not None

    def _is_just_gone(self, *, stirred: bool) -> bool:
        """Editors take a file away, or empty it, before they write it anew: for that moment it says what it said."""
        if self.good is None:
            return False
        now = time.monotonic()
        if self._gone_at is None:
            self._gone_at = self._gone_since = now
        elif stirred:  # it may have been there since, and gone once more: a busy daemon looks too seldom to see that
            self._gone_since = now
        return now - self._gone_since < REWRITTEN_S and now - self._gone_at < LEAVING_S

    def text(self) -> str | None:
        """None when there is no file."""
        try:
            with open(self.path, "rb") as file:
                data = file.read(POLICY_FILE_BYTES + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise UserError(f"cannot read {self.path}: {error.strerror}", code="bad-policy") from error
        if len(data) > POLICY_FILE_BYTES:
            raise UserError(f"{self.path} is over {POLICY_FILE_BYTES >> 20} MiB", code="bad-policy")
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(f"{self.path} is not UTF-8", code="bad-policy") from error

    def info(self) -> SourceInfo:
        if self.problem is not None:
            return SourceInfo(kind=self._kind.value, place=self.path, state="broken", problem=self.problem.message)
        return SourceInfo(kind=self._kind.value, place=self.path, state="missing" if self.good is None else "ok")
