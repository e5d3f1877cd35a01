"""What looks like a credential in a text that is not ours: before it is copied anywhere near a box.

Known services issue tokens of known shapes. Of others only what stands beside them tells: a variable, a key or a header
with the name of a secret. What looks like one is left out; that may be too much, and is said.
"""

from __future__ import annotations

import functools
import re
from typing import Final

from paddock.secrets.services import SERVICES

_LEAST_CHARS: Final = 8  # of a value beside such a name: less is a word or a number
# Of services that are no model's or forge's.
_OTHERS: Final = (
    r"-----BEGIN [A-Z ]*PRIVATE KEY",
    r"\bA[KS]IA[0-9A-Z]{16}\b",
    r"\bxox[abeoprs]-[0-9A-Za-z-]{10,}",
    r"(?<![A-Za-z0-9_-])ey[A-Za-z0-9_-]{16,}\.ey[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
    r"\bya29\.[0-9A-Za-z_-]{20,}",
    r"\b(?:gho|ghu|ghs|ghr|github_pat|lin_api|sk_live|rk_live|sntrys|dop_v1|shpat)_[0-9A-Za-z_]{16,}",
    r"\bsk-[A-Za-z0-9_-]{20,}",
    r"(?i:\b(?:bearer|basic)\s+[A-Za-z0-9._~+/=-]{16,})",
    r"://[^/\s:@]+:[^/\s:@$]{3,}@",  # a password in a URL
)
# A text may be made to be slow to search, and whoever searches keeps the whole daemon waiting: no part of an
# expression that is tried at many places of it runs on for long.
_WORD: Final = (
    r"(?:api[_-]?key|access[_-]?key|secret|token|passw(?:or)?d|passphrase|credentials?|private[_-]?key|authorization)"
    r"(?:[_-]?(?:id|key|value))?"
)
_ASSIGNED: Final = re.compile(
    rf"(?i){_WORD}[\"']?\s{{0,32}}(?:[:=]|=>)\s{{0,32}}[\"']?"
    rf"(?![\"'\s]{{0,8}}(?:\$|<|\{{))([^\s\"',;]{{{_LEAST_CHARS},}})"
)
_KEY: Final = re.compile(rf"(?i)[a-z0-9_.-]{{0,64}}{_WORD}")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_DIGIT: Final = re.compile(r"[0-9]")


def has_token(text: str) -> bool:
    """Whether a token of a known shape stands in it, or a value that is assigned to a name of a secret."""
    text = text.replace("\0", "")  # of UTF-16, read as bytes
    if _known().search(text):
        return True
    # Prose has "token: something": a secret has a digit in it, or no reason to be so long.
    return any(_DIGIT.search(value) or len(value) >= 24 for value in _ASSIGNED.findall(text))


def is_secret_name(name: str) -> bool:
    """Whether a key or a variable is named as secrets are: apiKey, GITHUB_TOKEN, X-Auth-Token."""
    return _KEY.fullmatch(_CAMEL.sub("_", name)) is not None


def in_values(value: object, name: str = "") -> bool:
    """The same for what was read as JSON or TOML: every string of it, and what stands under such a name."""
    match value:
        case dict():
            return any(has_token(str(key)) or in_values(inner, str(key)) for key, inner in value.items())
        case list():
            return any(in_values(inner, name) for inner in value)
        case str():
            return has_token(value) or (is_secret_name(name) and len(value) >= _LEAST_CHARS)
        case _:
            return False


@functools.cache
def _known() -> re.Pattern[str]:
    shapes = [service.shape for service in SERVICES if service.shape.prefix]
    own = [rf"(?<![A-Za-z0-9]){re.escape(shape.prefix)}[A-Za-z0-9_-]{{16,}}" for shape in shapes]
    return re.compile("|".join((*own, *_OTHERS)))
