"""What a box's document asks for: its secrets and the hosts that are metered.

`place` says what of it applies to one destination. A place for which nothing applies is not inspected: its TLS stays
opaque. Deny is the zero value only in the sense of the policy, which was asked before.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from paddock import codec
from paddock.errors import UserError
from paddock.gateway import credentials
from paddock.gateway.credentials import Credential, Scheme
from paddock.gateway.purse import Spending
from paddock.limits import PLACES_PER_BOX, SECRETS_PER_BOX, SECRETS_RETIRED_MAX
from paddock.policy import Host, Pattern
from paddock.policy.pattern import HOST_ALIAS, LOCALHOST

if TYPE_CHECKING:
    from collections.abc import Sequence


_KEYS: Final = frozenset({"secrets", "meter", "spending"})
_LOCALHOST: Final = Host(LOCALHOST)
_SHOWN: Final = "***"


def _any_of(values: set[bytes]) -> re.Pattern[str] | None:
    """Finds the longest that is there."""
    words = sorted((value.decode("ascii") for value in values), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, words)), re.IGNORECASE) if words else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One destination: the secrets that are bound to it, and whether it is metered."""

    host: Host
    port: int
    scheme: Scheme
    bound: tuple[Credential, ...] = field(repr=False)
    metered: bool

    @property
    def needed(self) -> bool:
        """Whether requests have to be seen one by one."""
        return bool(self.bound) or self.metered


class Inspection:
    """Never changes: another document makes another one, and `retired` has the values that were in those before."""

    def __init__(
        self,
        secrets: Sequence[Credential] = (),
        meter: Sequence[Pattern] = (),
        retired: Sequence[bytes] = (),
        spending: Spending | None = None,
    ) -> None:
        self.secrets = tuple(secrets)
        self.retired = tuple(retired)
        self.spending = spending
        self._meter = tuple(meter)
        self._places: dict[tuple[str, int, Scheme], Place] = {}
        self._values = _any_of({*(leak for each in self.secrets for leak in each.leaks), *self.retired})

    def __bool__(self) -> bool:
        """Whether it asks for anything at all."""
        return bool(self.secrets or self.retired or self._meter)

    def __repr__(self) -> str:
        return f"<Inspection {len(self.secrets)} secrets, {len(self._meter)} metered>"

    @classmethod
    def parse(cls, document: bytes) -> Inspection:
        """An empty document asks for nothing. Raises UserError, without a value in it."""
        if not document:
            return NOTHING
        try:
            content = json.loads(document)
        except (ValueError, RecursionError):
            raise UserError("the secrets of a box are no JSON", code="protocol") from None  # its error quotes them
        if not isinstance(content, dict) or not content.keys() <= _KEYS:
            raise UserError("the secrets of a box are not what they should be", code="protocol")
        secrets = credentials.parse(content.get("secrets", []))
        if len(secrets) > SECRETS_PER_BOX:
            raise UserError(f"more than {SECRETS_PER_BOX} secrets", code="too-many")
        meter = _patterns(content.get("meter", []))
        spending = codec.from_wire(Spending, content["spending"]) if "spending" in content else None
        return cls(secrets, meter, spending=spending)

    def after(self, before: Inspection) -> Inspection:
        """The same, with what was valid before and no longer is: a box that learned it must not use it any more."""
        current = {leak for each in self.secrets for leak in each.leaks}
        old = [leak for each in before.secrets for leak in each.leaks] + list(before.retired)
        retired = [value for value in dict.fromkeys(old) if value not in current]
        if not retired:
            return self
        return Inspection(self.secrets, self._meter, retired[:SECRETS_RETIRED_MAX], self.spending)

    def place(self, host: Host, port: int, scheme: Scheme = "https") -> Place:
        key = host.text, port, scheme
        known = self._places.get(key)
        if known is None:
            while len(self._places) >= PLACES_PER_BOX:
                del self._places[next(iter(self._places))]
            named = _LOCALHOST if host.text == HOST_ALIAS else host  # one host, whichever way a box calls it
            known = self._places[key] = Place(
                host=host,
                port=port,
                scheme=scheme,
                bound=tuple(each for each in self.secrets if each.is_for(named, port, scheme)),
                metered=any(pattern.names(named, port) for pattern in self._meter),
            )
        return known

    def redacted(self, text: str) -> str:
        """Text for a record: without any value that this box's secrets have or had, in any case (names have one)."""
        return self._values.sub(_SHOWN, text) if self._values is not None else text


NOTHING: Final = Inspection()


def _patterns(entries: object) -> tuple[Pattern, ...]:
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        raise UserError("meter must be a list of patterns", code="wrong-type")
    return tuple(map(Pattern, entries))
