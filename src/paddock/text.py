"""Text for people: untrusted strings made harmless in one line, and sizes, durations and tables.

Whatever a box can influence (file names, branch names, argv, error strings, output we quote) goes through `neutralise`
before it reaches a terminal, a log line or a table. Every command loads this file, so patterns are strings here, which
`re` compiles once and only when first used.
"""

from __future__ import annotations

import re

from paddock.errors import UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LINE_CHARS = 256  # a path of usual length fits; a flood does not fill the screen
_QUOTED_CHARS = 80  # a mistyped value quoted in an error

# Cc, Cf, Cs, Zl and Zp of Unicode, and what is invisible without being in those classes (Default_Ignorable_Code_Point:
# fillers, variation selectors, the tag block). A test walks all of Unicode to keep this list complete.
_UNSAFE = (
    r"[\x00-\x1f\x7f-\x9f\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5"
    r"\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    r"\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def neutralise(text: str | bytes, limit: int = LINE_CHARS) -> str:
    """`text` as at most `limit` visible characters of one line; what was cut is counted in a marker.

    Controls, bidirectional and invisible characters, lone surrogates and bytes that are no UTF-8 become escapes. Safe
    text comes back as it is, backslashes included, so the result reads well but does not say which escapes were there.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogateescape")
    if len(text) <= limit and text.isascii() and text.isprintable():
        return text
    head = re.sub(_UNSAFE, _escape, text[: limit + 1])
    return head if len(head) <= limit and len(text) <= limit else _shorten(text, limit)


def shell_word(text: str) -> str:
    """`text` as one word of a shell, safe to print and to type; $'...', which dash does not know, if it must be."""
    import shlex

    if not re.search(_UNSAFE, text):
        return shlex.quote(text)
    data = text.encode("utf-8", "surrogateescape")
    plain = "".join(chr(byte) if 0x20 <= byte < 0x7F and byte not in b"'\\" else f"\\{byte:03o}" for byte in data)
    return f"$'{plain}'"


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # a byte the file system or the decoder could not read as UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x100:
        return _SHORT.get(char) or f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _shorten(text: str, limit: int) -> str:
    room = limit - len(_marker(len(text)))
    kept: list[str] = []
    for char in text[: max(room, 0)]:
        shown = re.sub(_UNSAFE, _escape, char)
        room -= len(shown)
        if room < 0:
            break
        kept.append(shown)
    return ("".join(kept) + _marker(len(text) - len(kept)))[: max(limit, 0)]


def _marker(cut_chars: int) -> str:
    return f"...[+{cut_chars}]"


# -- sizes -------------------------------------------------------------------------------------------------------------
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_SIZE = r"([0-9]{1,18})(?:\.([0-9]{1,9}))?(?:[bB]|([kmgtKMGT])(?:[iI][bB])?)?"
_SIZE_LIMIT_BYTES = 1 << 60


def size(n_bytes: int) -> str:
    """`n_bytes` for people, with one decimal; parse_size reads it back."""
    value = float(n_bytes)
    unit = 0
    while abs(value) >= 1023.95 and unit < len(_UNITS) - 1:  # 1023.95 would show as 1024.0
        value /= 1024
        unit += 1
    if unit == 0:
        return f"{n_bytes}B"
    return f"{value:.1f}".removesuffix(".0") + _UNITS[unit]


def parse_size(text: str) -> int:
    """Bytes of '1024', '512m', '2g' or '1.5GiB'; units are powers of 1024 and 'GB' is refused as ambiguous."""
    match = re.fullmatch(_SIZE, text)
    if match is None or (match[2] and not match[3]):
        raise _bad_size(text)
    unit = 1 << 10 * " kmgt".index(match[3].lower() if match[3] else " ")
    billionths = int((match[2] or "").ljust(9, "0"))
    n_bytes = int(match[1]) * unit + billionths * unit // 10**9
    if n_bytes >= _SIZE_LIMIT_BYTES:
        raise _bad_size(text)
    return n_bytes


def _bad_size(text: str) -> UserError:
    message = f"'{neutralise(text, _QUOTED_CHARS)}' is not a size"
    return UserError(message, hint="use bytes or a unit: 1024, 512m, 2g, 1.5GiB", code="bad-size")


# -- durations ---------------------------------------------------------------------------------------------------------
_PARTS_S = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_SECONDS = r"[0-9]{1,9}(?:\.[0-9]{1,9})?"
_DURATION = rf"(?=.)(?:([0-9]{{1,9}})d)?(?:([0-9]{{1,9}})h)?(?:([0-9]{{1,9}})m)?(?:({_SECONDS})s)?"


def duration(seconds: float) -> str:
    """`seconds` for people, the two largest units at most; parse_duration reads it back."""
    seconds = max(seconds, 0.0)
    if seconds < 9.95:
        return f"{seconds:.1f}".removesuffix(".0") + "s"
    rest = round(seconds) if seconds < 60 else int(seconds)
    shown: list[str] = []
    for name, length_s in _PARTS_S.items():
        count, rest = divmod(rest, length_s)
        if shown or count:
            shown.append(f"{count}{name}" if count else "")
    return "".join(shown[:2])


def parse_duration(text: str) -> float:
    """Seconds of '90', '30s', '5m', '2h', '1h30m' or '0.5s'."""
    if re.fullmatch(_SECONDS, text):
        return float(text)
    match = re.fullmatch(_DURATION, text)
    if match is None:
        message = f"'{neutralise(text, _QUOTED_CHARS)}' is not a duration"
        raise UserError(message, hint="use seconds or units: 90, 30s, 5m, 2h, 1h30m", code="bad-duration")
    return sum(float(count) * length_s for count, length_s in zip(match.groups("0"), _PARTS_S.values(), strict=True))


# -- tables ------------------------------------------------------------------------------------------------------------
def table(rows: Iterable[Sequence[str]], header: Sequence[str]) -> str:
    """Aligned columns two spaces apart, one line per row, no trailing newline; an empty cell shows as '-'."""
    lines = [[neutralise(cell) or "-" for cell in row] for row in (header, *rows)]
    widths = [max(map(_columns, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(_pad, line, widths)).rstrip(" ") for line in lines)


def _pad(cell: str, width: int) -> str:
    return cell + " " * (width - _columns(cell))


def _columns(cell: str) -> int:
    if cell.isascii():
        return len(cell)
    import unicodedata  # 1 MiB of tables that most commands never need

    def columns(char: str) -> int:
        if unicodedata.category(char) in {"Mn", "Me"}:
            return 0
        return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1

    return sum(map(columns, cell))
