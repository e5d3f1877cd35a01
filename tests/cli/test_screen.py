from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.cli.screen import HELD_CHARS, RESTORE, SWALLOW_CHARS, DetachKeys, ScreenFilter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import FrameType

QUICK = settings(database=None, deadline=None, max_examples=300)


def filtered(data: bytes, *, utf8: bool = True) -> bytes:
    screen = ScreenFilter(utf8=utf8)
    return screen.feed(data) + screen.flush()


# -- a terminal to judge by -------------------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True, kw_only=True)
class Dialect:
    """Where real terminals differ. The defaults are xterm in UTF-8 mode, and also willing to obey raw C1 bytes."""

    utf8: bool = True
    overlong: bool = False  # decodes C0 9B as ESC
    c1: bool = True
    escape_aborts: bool = True  # in a string; GNU screen goes on until ESC \
    bel_closes: str = "]"
    c0_aborts_csi: bool = False


DIALECTS = [
    Dialect(overlong=overlong, c1=c1, escape_aborts=aborts, bel_closes=bel, c0_aborts_csi=c0)
    for overlong, c1, aborts, bel, c0 in itertools.product(
        (False, True), (True, False), (True, False), ("]", "]PX^_"), (False, True)
    )
]


def code_points(data: bytes, dialect: Dialect) -> Iterator[int]:
    """UTF-8 by hand: bytes outside a sequence stand for themselves, so a raw C1 byte is a C1 control."""
    at = 0
    while at < len(data):
        lead = data[at]
        length = 4 if lead >= 0xF0 else 3 if lead >= 0xE0 else 2 if lead >= 0xC0 else 1
        tail = data[at + 1 : at + length]
        whole = len(tail) == length - 1 and all(0x80 <= byte < 0xC0 for byte in tail)
        if dialect.utf8 and length > 1 and lead < 0xF8 and whole:
            code = lead & (0x7F >> length)
            for byte in tail:
                code = code << 6 | byte & 0x3F
            shortest = {2: 0x80, 3: 0x800, 4: 0x10000}[length]
            proper = code >= shortest and not 0xD800 <= code < 0xE000
            if code < 0x110000 and (dialect.overlong or proper):
                yield code
                at += length
                continue
        yield lead
        at += 1


class Terminal:
    """ECMA-48 as xterm reads it; `events` is all it was told to do, `state` is empty when it waits for nothing."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.events: list[tuple[str, str]] = []
        self.state = ""
        self.body = ""
        self.kind = ""

    def read(self, data: bytes) -> Terminal:
        for code in code_points(data, self.dialect):
            self.char(chr(code))
        return self

    def char(self, char: str) -> None:
        if self.state in {"string", "string-escape"} and self.in_string(char):
            return
        if char < " " or "\x80" <= char <= "\x9f":
            self.control(char)
        elif self.state == "" or char > "\x7f":
            self.state = ""
            self.events.append(("print", char))
        elif char == "\x7f":
            pass
        elif self.state == "escape":
            self.escape(char)
        elif char <= "?":
            self.body += char
        else:
            self.events.append(("csi", self.body + char))
            self.state = ""

    def control(self, char: str) -> None:
        if char in "\x18\x1a":
            self.state = ""
        elif char == "\x1b":
            self.state, self.body = "escape", ""
        elif char < " ":
            self.events.append(("c0", char))
            if self.state == "csi" and self.dialect.c0_aborts_csi:
                self.state = ""
        elif self.dialect.c1:
            self.body = ""
            self.escape(chr(ord(char) - 0x40))

    def escape(self, char: str) -> None:
        self.state = ""
        if char < "0" and char >= " ":
            self.state = "escape"
            self.body += char
        elif self.body == "" and char == "[":
            self.state = "csi"
        elif self.body == "" and char in "]PX^_k":
            self.state, self.kind = "string", char
            self.events.append(("open", char))
        else:
            self.events.append(("escape", self.body + char))

    def in_string(self, char: str) -> bool:
        if self.state == "string-escape":
            if char == "\\":
                self.close()
                return True
            if self.dialect.escape_aborts:
                self.state, self.body = "escape", ""
                return False
            self.state = "string-escape" if char == "\x1b" else "string"
            return True
        if char == "\x1b":
            self.state = "string-escape"
        elif (char == "\x07" and self.kind in self.dialect.bel_closes) or (char == "\x9c" and self.dialect.c1):
            self.close()
        elif char in "\x18\x1a":
            self.state = ""
        else:
            self.body += char
        return True

    def close(self) -> None:
        self.events.append((f"string {self.kind}", self.body))
        self.state = self.body = ""


REPORTS = re.compile(
    r"[<-?]?[\d;:]*[nc]|[\d;:]*x|\?[\d;:]*[uSmg]|>[\d;:]*q|\??[\d;:]*\$p"
    r"|[\d;:]*(?:\*y|\$w|\$u|&u|\"v|'\||\+x|#R|#S|#\||i)|0*(?:11|13|14|15|16|18|19|20|21)(?:[;:][\d;:]*)?t"
)
MODES = re.compile(r"\?(?:[\d:]*;)*0*(?:2l|2;.*l|38h|38;.*h|2048h|2048;.*h)|(?:[\d:]*;)*0*2(?:;.*)?h")
OSC_ACTS = re.compile(
    r"\s*0*(?:52|50|51|1337|83|633|5522|3|46|60|61|66|21|22)\b.*"
    r"|\s*0*(?:4|5|1\d)\s*;.*\?.*|9;\s*0*[1-35-9].*|\D.*|8;[^;]*;(?:ssh|x-man-page):.*",
    re.DOTALL,
)


def harm(data: bytes, dialect: Dialect) -> list[tuple[str, str]]:
    """What `data` makes the terminal do outside its screen."""
    found: list[tuple[str, str]] = []
    for event in Terminal(dialect).read(data).events:
        match event:
            case ("c0", "\x05") | ("escape", "Z" | "%@"):
                found.append(event)
            case ("open", kind) if kind in "PX^_":
                found.append(event)
            case ("csi", body) if REPORTS.fullmatch(body) or MODES.fullmatch(body):
                found.append(event)
            case ("string ]", body) if OSC_ACTS.fullmatch(body):
                found.append(event)
    return found


# -- the pieces -------------------------------------------------------------------------------------------------------
C1_SPELLINGS = {
    opener: (b"\x1b" + opener, b"\xc2" + bytes([opener[0] + 0x40]), bytes([opener[0] + 0x40]))
    for opener in (b"[", b"]", b"P", b"X", b"^", b"_")
}
TERMINATORS = (b"\x07", b"\x1b\\", b"\xc2\x9c", b"\x9c")

DROPPED_CSI = [
    *(b"6n", b"5n", b"n", b"06n", b";6n", b"?6n", b"?996n", b"6;n", b"000000000006n", b"4294967302n", b"6:1n", b">6n"),
    *(b"c", b"0c", b">c", b">0c", b"=c", b"?1c", b"x", b"1x", b"$p", b"?2004$p", b"4$p", b">q", b">0q", b"?u", b"?1u"),
    *(b"1;1;1;1;1;1*y", b"1$w", b"1$u", b"&u", b'"v', b"'|", b"+x", b"1#R", b"#S", b"#|", b"?1;1;0S", b"?4m", b"?1g"),
    *(b"11t", b"13t", b"014t", b"14;2t", b"15t", b"16t", b"18t", b"19t", b"20t", b"21t", b"65557t", b"t", b";22t"),
    *(b"i", b"5i", b"?5i", b"12;3]", b"2h", b"4;2h", b"?2l", b"?02l", b"?1;2;3l", b"?65538l", b"?38h", b"?:2l"),
    *(b"201~", b"?2048h", b"?9001h", b"?5522h", b"?1001h", b"?1:2h", b"9999999999m", b"1?m", b"!!p", b"0" * 300 + b"m"),
]
PASSED_CSI = [
    *(b"m", b"0m", b"1;31m", b"031m", b"38;2;1;2;3m", b"38:2::1:2:3m", b"4:3m", b"H", b"10;20H", b"2J", b"K", b"999C"),
    *(b"1;24r", b"r", b"s", b"u", b"?25l", b"?25h", b"?1049h", b"?1049l", b"?1000;1006h", b"?2004h", b"?1004h"),
    *(b"?2026h", b"?2026l", b"?1h", b"4h", b"4l", b"!p", b"2 q", b">1u", b"<u", b"=1;1u", b">4;2m", b"22;0;0t", b"23t"),
    *(b"8;24;80t", b"3b", b"S", b"T", b"Z", b"?J", b"1;1;2;2$z", b'1"q', b"65535;65535H", b"?r", b"`", b"d"),
]
DROPPED_OSC = [
    *(b"52;c;QUJD", b"052;c;QUJD", b" 52;c;QUJD", b"52;;?", b"4294967348;c;QUJD", b"52", b"5\n2;c;QUJD"),
    b"5\x7f2;c;QQ",
    *(b"4;1;?", b"4;1;red;2;?", b"10;?", b"11;?", b"012;?", b"19;?", b"5;0;?", b"0;?", b"7;?", b"", b"R", b"lTitle"),
    *(b"50;?", b"50;fixed", b"51;Ecmd", b"1337;File=:QUJD", b"1337;RequestUpload=format=tgz", b"83;exec sh"),
    b"46;/tmp/x",
    *(b"633;E;rm", b"5522;type=read", b"3;_X=y", b'9;7;"cmd"', b"9; 6;x", b"9;5", b"777;run;x", b"21;foreground=?"),
    *(b"22;?", b"60", b"99;i=1:a=report;x", b"99;i=1:p=?;", b"8;;ssh://-oProxyCommand=x", b"8;;x-man-page://x"),
    b"66;s=2;x",
    *(b"0;caf\xe9", b"0;a\x0ab", b"0;a\xc2\x9bb", b"0;" + b"x" * HELD_CHARS),
]
PASSED_OSC = [
    *(b"0;make test", b"2;really?", b"1;x", "0;日本 ✓".encode(), b"0;", b"8;;https://example.org/?q=1"),
    b"8;id=1;file:///x",
    *(b"8;;", b"7;file://host/home/agent", b"4;1;rgb:ff/00/00", b"10;#ffffff", b"104", b"104;1", b"110", b"112;"),
    *(b"133;A", b"133;D;0", b"9;build done", b"9;4;1;50", b"777;notify;Title;Body", b"99;i=1:d=0:p=title;Done"),
]
DROPPED_STRINGS = [
    *(b"q#0;2;0;0;0~-", b"+q544e", b"$qm", b"tmux;\x1b\x1b]52;c;QUJD", b"Gf=100;QUJD", b"", b"1000p", b"0;x")
]
PASSED_ESCAPES = [
    *(b"7", b"8", b"=", b">", b"c", b"D", b"E", b"H", b"M", b"(B", b"(0", b")0", b"*A", b"-A", b'("?', b"%G", b"#8")
]
DROPPED_ESCAPES = [b"Z", b"%@", b"GQ", b" G", b"N", b"$(B", b"%/I", b"\\", b"!x", b"#9", b"|"]
PLAIN = [
    *(b"hello", b"\r\n", b"\t\x08\x07\x00\x0e\x0f\x7f", "é日本🐎\u2028\u202e".encode(), b"caf\xe9", b"\xff\xfe\xa0"),
    b"\x1a",
]

DROPPED = [
    *(spelling + body for body in DROPPED_CSI for spelling in C1_SPELLINGS[b"["]),
    *(
        spelling + body + end
        for body in DROPPED_OSC
        for spelling in C1_SPELLINGS[b"]"][: 2 if b"\n" in body else 3]
        for end in TERMINATORS
        if body != b"R"
    ),
    *(
        spelling + body + end
        for body in DROPPED_STRINGS
        for opener in (b"P", b"X", b"^", b"_")
        for spelling in C1_SPELLINGS[opener]
        for end in TERMINATORS[1:]
    ),
    *(b"\x05", b"\x18", b"\xc2\x9a", b"\x9a", b"\xc2\x85", b"\x84", b"\x1b]R", b"\x1b]P7ff0000"),
]
PASSED = [
    *(b"\x1b[" + body for body in PASSED_CSI),
    *(b"\x1b]" + body + end for body in PASSED_OSC for end in TERMINATORS[:2]),
    *(b"\x1b" + body for body in PASSED_ESCAPES),
    *(b"\x1bktitle\x1b\\", *PLAIN),
]

FRAGMENTS = [
    *(piece for spellings in C1_SPELLINGS.values() for piece in spellings),
    *TERMINATORS,
    *(b"\x1b", b"\xc2", b"\xe2", b"\xe2\x9d", b"\xf0\x9f", b"\xc0", b"\xe0\x80", b"\x9d", b"\x9b", b"\xc2\xc2\x9b"),
    b"\x18",
    *(b"\x1a", b"\n", b"\x7f", b"\x05", b"?", b";", b":", b"0", b"6", b"52;c;", b"2", b"l", b"n", b"c", b"t", b"$p"),
    b"k",
    *(b"4;1;", b"10;", b"0;x", b"\x1bk", b"\x1b%@", b"\x1b(", b"Z", "⛛".encode(), "❝".encode(), "\u0100".encode()),
]
HOSTILE = st.lists(
    st.sampled_from([*DROPPED_CSI, *DROPPED_OSC[:-1], *DROPPED, *PASSED, *FRAGMENTS, *FRAGMENTS])
    | st.binary(max_size=4),
    max_size=12,
).map(b"".join)


# -- what passes, what does not ---------------------------------------------------------------------------------------
def test_what_belongs_on_the_screen_passes_byte_for_byte() -> None:
    assert [data for data in PASSED if filtered(b"a" + data + b"b") != b"a" + data + b"b"] == []


@QUICK
@given(st.lists(st.sampled_from(PASSED), max_size=12).map(b"".join))
def test_any_mix_of_what_passes_still_passes(data: bytes) -> None:
    assert filtered(data) == data


def test_what_acts_outside_the_screen_is_dropped_and_the_text_around_it_stays() -> None:
    assert [data for data in DROPPED if filtered(b"a" + data + b"b") != b"ab"] == []


def test_a_sequence_spelled_with_a_c1_control_never_passes() -> None:
    spelled = [spelling + body for body in PASSED_CSI for spelling in C1_SPELLINGS[b"["][1:]]
    spelled += [spelling + body + b"\x07" for body in PASSED_OSC for spelling in C1_SPELLINGS[b"]"][1:]]

    assert [data for data in spelled if filtered(b"a" + data + b"b") != b"ab"] == []


@pytest.mark.parametrize("body", DROPPED_ESCAPES)
def test_other_escape_sequences_are_dropped(body: bytes) -> None:
    assert b"\x1b" not in filtered(b"a\x1b" + body + b"b")


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"\x1b[3\n1m", b"\n\x1b[31m"),
        (b"\x1b[6\r\nn", b"\r\n"),
        (b"\x1b\n[6n", b"\n"),
        (b"\x1b[6\x05n", b""),
        (b"\x1b[\x7f6\x7fn", b""),
        (b"\x1b[6\x18n", b"n"),
        (b"\x1b[6\x1an", b"n"),
        (b"\x1b[\x1b[6n", b""),
        (b"\x1b[6\x1b[31m", b"\x1b[31m"),
        (b"\x1b\x1b\x1b[6n", b""),
        (b"\x1b[6\xc2\x9b6n", b""),
        ("\x1b[6é".encode(), "é".encode()),
        (b"\x1b]0;t\x1b[6n", b""),
        (b"\x1b]0;t\x1b\x1b\\", b""),
        (b"\x1b]0;t\x18x", b"x"),
        (b"\x1b]52;c;QUJD\x1b[31m", b"\x1b[31m"),
        (b"\x1bP\x07\x1b]52;c;QQ==\x07\x1b\\x", b"x"),
        (b"\xc2\x1b[6n\x9b6n", b"\xc2"),
        (b"\xc2\x05\x9d52;c;QQ==\x07", b"\xc2"),
        (b"\xe0\x80\x9b6n", b"\xe0"),
        (b"\xc0\x9b6n", b"\xc0"),
        (b"\x1b]4;1;red\xc2\x9c;2;?\x07", b";2;?\x07"),
        (b"\x1b[31", b""),
        (b"\x1b[[A", b"A"),
        (b"**\x18B00000000000000\r", b"**B00000000000000\r"),
    ],
)
def test_an_interrupted_sequence_hides_nothing(data: bytes, shown: bytes) -> None:
    assert filtered(data) == shown


@pytest.mark.parametrize("spelling", [C1_SPELLINGS[opener][0] for opener in (b"]", b"P", b"X", b"^", b"_", b"[")])
def test_a_lost_terminator_swallows_a_bounded_part(spelling: bytes) -> None:
    screen = ScreenFilter()
    shown = screen.feed(spelling) + b"".join(screen.feed(b"0" * 65536) for _ in range(SWALLOW_CHARS // 65536))

    assert shown == b""
    assert screen.feed(b"after") == b"after"


def test_an_endless_string_is_not_kept_in_memory() -> None:
    screen = ScreenFilter()
    screen.feed(b"\x1b]0;" + b"x" * (SWALLOW_CHARS - 10))

    assert repr(screen) == "<ScreenFilter string, 0 held>"


def test_a_binary_file_hides_at_most_the_rest_of_its_line() -> None:
    assert filtered(b"\x7fELF\x90\x00\x01\nafter\n") == b"\x7fELF\nafter\n"


def test_bytes_beyond_unicode_are_no_character() -> None:
    assert list(code_points(b"\xf4\xa0\xa0\xa0", Dialect(overlong=True))) == [0xF4, 0xA0, 0xA0, 0xA0]


def test_outside_utf8_mode_a_continuation_byte_is_a_control() -> None:
    dialect = Dialect(utf8=False)
    data = "⛛".encode() + b"6n"

    assert harm(filtered(data, utf8=True), dialect), "the oracle: the same bytes are a letter in UTF-8 mode"
    assert harm(filtered(data, utf8=False), dialect) == []
    assert filtered(b"caf\xe9\x1b[31m", utf8=False) == b"caf\xe9\x1b[31m"


# -- properties -------------------------------------------------------------------------------------------------------
def test_the_reference_terminal_is_harmed_before_the_filter_and_not_after() -> None:
    harmful = [data for data in DROPPED if harm(data, Dialect())]

    assert len(harmful) > 0.8 * len(DROPPED)
    assert [data for data in harmful for dialect in DIALECTS if harm(filtered(data), dialect)] == []


@settings(QUICK, max_examples=1500)
@given(HOSTILE)
def test_no_terminal_is_harmed_whatever_the_box_sends(data: bytes) -> None:
    shown = filtered(data)

    for dialect in DIALECTS:
        terminal = Terminal(dialect).read(shown)
        assert harm(shown, dialect) == []
        assert terminal.state == "", "the filter left the terminal inside a sequence"


@QUICK
@given(HOSTILE)
def test_no_8_bit_terminal_is_harmed_either(data: bytes) -> None:
    shown = filtered(data, utf8=False)

    assert harm(shown, Dialect(utf8=False)) == []
    assert Terminal(Dialect(utf8=False)).read(shown).state == ""


@settings(QUICK, max_examples=1000)
@given(HOSTILE, st.data(), st.booleans())
def test_chunks_make_no_difference(data: bytes, draw: st.DataObject, utf8: bool) -> None:
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=6)))
    whole = filtered(data, utf8=utf8)

    for edges in ([0, *cuts, len(data)], range(len(data) + 1)):
        screen = ScreenFilter(utf8=utf8)
        pieces = [screen.feed(data[start:end]) for start, end in itertools.pairwise(edges)]
        assert b"".join(pieces) + screen.flush() == whole


@QUICK
@given(HOSTILE)
def test_filtered_output_passes_unchanged_a_second_time(data: bytes) -> None:
    once = filtered(data)

    assert filtered(once) == once


@QUICK
@given(st.text(st.characters(exclude_categories=("Cc", "Cs"))))
def test_text_passes_byte_for_byte(text: str) -> None:
    assert filtered(text.encode()) == text.encode()


@pytest.mark.parametrize("line", [b"plain text of a build log\r\n", "grüße, 日本語, 🐎\r\n".encode()])
def test_plain_output_is_copied_in_one_pass(line: bytes) -> None:
    data = line * (10 * 1024 * 1024 // len(line))
    steps = 0

    def count(_frame: FrameType, _event: str, _arg: object) -> Any:
        nonlocal steps
        steps += 1
        return count

    screen = ScreenFilter()
    before = sys.gettrace()
    sys.settrace(count)
    try:
        shown = screen.feed(data)
    finally:
        sys.settrace(before)

    assert shown == data
    assert 0 < steps < 100


def test_after_a_flush_the_filter_starts_anew() -> None:
    screen = ScreenFilter()
    assert screen.feed(b"a\xe2\x9b") == b"a"
    assert screen.flush() == b"\xe2"
    assert screen.feed(b"\x1b]0;unfinished") == b""
    assert repr(screen) == "<ScreenFilter string, 12 held>"
    assert screen.flush() == b""
    assert screen.feed(b"text") == b"text"


# -- afterwards -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "piece",
    [
        *(b"\x1b[?%dl" % mode for mode in (1, 1000, 1002, 1003, 1004, 1006, 1015, 1049, 2004, 2026)),
        *(b"\x1b[?25h", b"\x1b[<99u", b"\x1b>", b"\x1b(B", b"\x1b[0;10m"),
    ],
)
def test_restore_turns_off_what_a_box_may_leave_on(piece: bytes) -> None:
    assert piece in RESTORE


@pytest.mark.parametrize("dialect", DIALECTS)
def test_restore_is_whole_and_asks_the_terminal_nothing(dialect: Dialect) -> None:
    assert harm(RESTORE, dialect) == []
    assert Terminal(dialect).read(RESTORE).state == ""


def test_colours_are_reset_only_after_a_box_changed_them() -> None:
    screen = ScreenFilter()
    screen.feed(b"\x1b]11;?\x07\x1b[31mred\x1b]0;title\x07")
    plain = screen.restore()
    assert b"\x1b]111\x1b\\" not in plain

    screen.feed(b"\x1b]11;#000000\x07")
    assert screen.restore().startswith(plain)
    assert b"\x1b]111\x1b\\" in screen.restore()


@pytest.mark.parametrize(
    ("data", "entered"),
    [
        (b"\x1b[?1049h", True),
        (b"\x1b[?47h", True),
        (b"\x1b[?25;1047h", True),
        (b"\x1b[?1049hx\x1b[?1049l", False),
        (b"\x1b[?11049h\x1b[1049h", False),
        (b"plain", False),
    ],
)
def test_the_alternate_screen_is_left_only_by_who_entered_it(data: bytes, entered: bool) -> None:
    screen = ScreenFilter()
    screen.feed(data)
    assert (b"\x1b[?1049l" in screen.restore()) is entered
    assert set(screen.restore().split(b"\x1b")) <= set(RESTORE.split(b"\x1b"))


# -- keys -------------------------------------------------------------------------------------------------------------
P, Q = b"\x10", b"\x11"
KITTY_P, KITTY_Q = b"\x1b[112;5u", b"\x1b[113;5u"


@pytest.mark.parametrize(
    ("chunks", "forwarded", "detached"),
    [
        ([b"ls\r"], b"ls\r", False),
        ([b"ls" + P + Q + b"rm"], b"ls", True),
        ([P, Q, b"rm"], b"", True),
        ([P], b"", False),
        ([P, b"x"], P + b"x", False),
        ([P, P, Q], P, True),
        ([P + P], P, False),
        ([Q + P, b"\r"], Q + P + b"\r", False),
        ([b"\x1b"], b"\x1b", False),
        ([P, b"\x1b"], P + b"\x1b", False),
        ([P, b"\x1b[A"], P + b"\x1b[A", False),
        ([KITTY_P, KITTY_Q], b"", True),
        ([KITTY_P + b"\x1b[112;5:3u" + KITTY_Q], b"", True),
        ([b"\x1b[112;5:1u", b"\x1b[57442;1:3u", b"\x1b[57442;5u", b"\x1b[113;133:1u"], b"", True),
        ([b"\x1b[1079::112;5u", b"\x1b[1081::113;5u"], b"", True),
        ([b"\x1b[27;5;112~\x1b[27;5;113~"], b"", True),
        ([b"\x1b[112;5", b"u\x1b[113", b";5u"], b"", True),
        ([KITTY_P, b"\x1b[120;5u"], KITTY_P + b"\x1b[120;5u", False),
        ([b"\x1b[112;6u" + KITTY_Q], b"\x1b[112;6u" + KITTY_Q, False),
        ([b"\x1b[112;5:3u" + KITTY_Q], b"\x1b[112;5:3u" + KITTY_Q, False),
        ([b"\x1b[<35;10;11M", b"\x1b[3~"], b"\x1b[<35;10;11M\x1b[3~", False),
    ],
)
def test_ctrl_p_ctrl_q_detaches_and_all_else_is_forwarded(
    chunks: list[bytes], forwarded: bytes, detached: bool
) -> None:
    keys = DetachKeys()
    results = [keys.feed(chunk) for chunk in chunks]

    assert b"".join(data for data, _ in results) == forwarded
    assert results[-1][1] is detached


@QUICK
@given(st.lists(st.sampled_from([P, Q, b"a", b"\r", b"\x1b", b"\x1b[A", b"\x1b[3~", b"\xc3\xa9"]), max_size=10))
def test_typed_bytes_are_never_lost_in_any_chunking(pieces: list[bytes]) -> None:
    typed = b"".join(pieces)
    expected, found, _ = typed.partition(P + Q)

    for chunks in (pieces, [typed], [typed[at : at + 1] for at in range(len(typed))]):
        keys = DetachKeys()
        results = [keys.feed(chunk) for chunk in chunks] + ([] if found else [keys.feed(b".")])
        assert b"".join(data for data, _ in results) == expected + (b"" if found else b".")
        assert any(detached for _, detached in results) is bool(found)


def test_keys_and_filter_say_what_they_wait_for() -> None:
    keys = DetachKeys()
    assert repr(keys) == "<DetachKeys 0 held>"
    keys.feed(P)
    assert repr(keys) == "<DetachKeys 1 held>"
    keys.feed(Q)
    assert repr(keys) == "<DetachKeys detached>"
    assert repr(ScreenFilter()) == "<ScreenFilter ground, 0 held>"


# -- a real terminal --------------------------------------------------------------------------------------------------
PANE = """
import os, sys, tty
tty.setraw(0)
os.write(1, open(sys.argv[1], "rb").read() + b"\\x1b[5n")
answer = b""
while not answer.endswith(b"\\x1b[0n"):
    answer += os.read(0, 100)
open(sys.argv[2], "wb").write(answer)
"""


class Tmux:
    """A private server; `show` prints bytes in a fresh pane, returns what was typed back, and keeps the pane open."""

    def __init__(self, where: Path) -> None:
        self.where = where
        self.env = {"PATH": os.environ["PATH"], "TMUX_TMPDIR": os.fspath(where), "LC_ALL": "C.UTF-8", "TERM": "xterm"}
        (where / "pane.py").write_text(PANE)

    def __call__(self, *words: str) -> str:
        argv = ["tmux", "-L", "paddock-test", "-f", "/dev/null", *words]
        return subprocess.run(argv, env=self.env, check=True, capture_output=True, text=True, timeout=30).stdout

    def show(self, data: bytes) -> bytes:
        (self.where / "data").write_bytes(data)
        argv = [sys.executable, *(os.fspath(self.where / name) for name in ("pane.py", "data", "answer"))]
        self("respawn-pane", "-k", f"{shlex.join(argv)}; tmux wait-for -S shown; exec sleep 60")
        self("wait-for", "shown")
        return (self.where / "answer").read_bytes().removesuffix(b"\x1b[0n")


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    server = Tmux(tmp_path)
    server("new-session", "-d", "-x", "80", "-y", "24", "exec sleep 60")
    try:
        server("set-option", "-s", "set-clipboard", "on")
        yield server
    finally:
        with contextlib.suppress(subprocess.CalledProcessError):
            server("kill-server")


def test_a_real_terminal_keeps_its_clipboard(tmux: Tmux) -> None:
    data = b"\x1b]52;c;cGFkZG9jaw==\x07"

    tmux.show(data)
    assert tmux("show-buffer") == "paddock", "the oracle: unfiltered, the clipboard is written"
    tmux("delete-buffer")
    tmux.show(filtered(data))
    assert tmux("list-buffers") == ""


def test_a_real_terminal_types_no_answers(tmux: Tmux) -> None:
    data = b"\x1b[6n\x1b[c\x1b[>c\x1b[>q\x1b[?2004$p\x1b]10;?\x07"

    assert tmux.show(data).count(b"\x1b") >= 3, "the oracle: unfiltered, the terminal answers"
    assert tmux.show(filtered(data)) == b""


def test_a_real_terminal_is_usable_after_restore(tmux: Tmux) -> None:
    modes = "#{alternate_on} #{mouse_any_flag} #{cursor_flag} #{keypad_flag} #{keypad_cursor_flag} #{insert_flag} "
    modes += "#{wrap_flag} #{scroll_region_upper} #{scroll_region_lower} #{cursor_x},#{cursor_y}"
    mess = b"one\r\ntwo\x1b[?1049h\x1b[?1003h\x1b[?25l\x1b=\x1b[?1h\x1b[4h\x1b[?7l\x1b[5;10r"

    tmux.show(mess)
    assert tmux("display-message", "-p", modes).startswith("1 1 0 1 1 1 0 4 9"), "the oracle: all of it is on"
    assert filtered(mess) == mess
    tmux.show(mess + RESTORE)
    assert tmux("display-message", "-p", modes) == "0 0 1 0 0 0 1 0 23 3,1\n"


def test_restore_leaves_the_cursor_where_it_is_without_an_alternate_screen(tmux: Tmux) -> None:
    tmux.show(b"one\r\ntwo" + RESTORE)

    assert tmux("display-message", "-p", "#{cursor_x},#{cursor_y}") == "3,1\n"


def test_restore_leaves_the_cursor_where_it_is_after_someone_elses_alternate_screen(tmux: Tmux) -> None:
    before = b"\x1b[?1049h\x1b[?1049l"
    screen = ScreenFilter()
    assert screen.feed(b"one\r\ntwo") == b"one\r\ntwo"
    tmux.show(before + b"one\r\ntwo" + RESTORE)
    assert tmux("display-message", "-p", "#{cursor_x},#{cursor_y}") == "0,0\n", "the oracle: tmux jumps"

    tmux.show(before + b"one\r\ntwo" + screen.restore())
    assert tmux("display-message", "-p", "#{cursor_x},#{cursor_y}") == "3,1\n"
