"""Between a box and the user's real terminal: what a box may print, how the screen is put back, how to detach.

Theory. A terminal obeys what is printed on it: it can be made to write the clipboard, to receive files, or to *type* an
answer (its title, a screen checksum, a status) into whatever reads the keyboard next. Terminals disagree on the grammar
of all this, so following one terminal's parser would leave holes in the others. ScreenFilter does not follow, it
rewrites: text passes, and a control sequence is held back until it is whole, looked up in the tables below, and written
as one unit that every terminal reads alike, or not at all. Hence

  * the terminal is in its ground state whenever a unit begins, whatever the box sent: dropping a sequence, or giving up
    on an endless one and showing the rest as text, can never leave the terminal inside a sequence the filter forgot;
  * deny is the zero value: a report request that some terminal invents tomorrow is not in the tables;
  * a unit is 7-bit, without controls inside, its strings valid UTF-8 closed by BEL or ESC \\. C1 controls never pass,
    neither as raw bytes nor as UTF-8, since only some terminals obey them (and only some end a string at 9C);
  * no two pieces that pass can join to something new: a stray byte passes only from A0 up, which completes no C1.

How endings are read follows xterm: CAN, SUB and ESC abort a sequence, C0 controls inside one act at once, BEL closes
only OSC. An unterminated string swallows at most SWALLOW_CHARS; one that began with a raw C1 byte, which in practice is
a binary file, ends with its line.
"""

from __future__ import annotations

import codecs
import enum
import re

HELD_CHARS = 8192  # the longest title or link that passes; terminals themselves stop at 2 to 4 KiB
CSI_CHARS = 256  # the longest colour sequences seen in the wild have 60
SWALLOW_CHARS = 1 << 20  # a dropped image is a few hundred KiB; a log after a lost terminator must show again

# -- what passes -------------------------------------------------------------------------------------------------------
# ESC sequences: save and restore, keypad, index, tab stop, reset, double size, UTF-8 on, character sets. Left out:
# ESC Z (identify), ESC % @ (UTF-8 off: C1 bytes would hide inside text), ESC G Q of rxvt (answers with a newline,
# CVE-2021-33477), ESC SP G (8-bit answers).
_ESCAPES = re.compile(r"[6789=>cDEHM]|#[34568]|%G|[()*+\-./][ -/]?[0-~]")

# CSI, as private prefix + intermediates + final. Left out because the terminal answers: n c x y, $p, ?u, >q, *y, $w,
# $u, &u, "v, '|, +x, #R, #S, #|, ?S, ?m, ?g. Left out because they leave the screen: i (printer), ] (Linux console).
_CSIS = frozenset(
    {
        *"@ABCDEFGHIJKLMPSTXZ`abdefghjklmqrstu^",
        *("?h", "?l", "?r", "?s", "?J", "?K", "?W", ">f", ">m", ">p", ">s", ">u", "<u", "=u", "!p", " q", " @", " A"),
        *('"q', "#p", "#q", "#{", "#}", "#P", "#Q", "'}", "'~", "$r", "$t", "$v", "$x", "$z", "${", "$|", "*x", "*|"),
    }
)
_CSI = re.compile(r"([<-?]?)([0-9:;]*)([ -/]?)([@-~])")
_ALTERNATE = re.compile(r"\?(?:[0-9]*;)*(?:47|1047|1049)(?:;[0-9]*)*[hl]")
_PARAMETER_LIMIT = 65535  # beyond it some terminals wrap around to another meaning
_WINDOW_OPERATIONS = frozenset({*range(1, 11), 22, 23})  # move, resize, title stack; the rest are reports or lines
_SET_NEVER = frozenset(
    {
        "h2",  # the keyboard is locked: no way to detach
        "?l2",  # VT52 and
        "?h38",  # Tektronix: other grammars altogether
        "?h1001",  # highlight tracking: xterm hangs until the program answers
        "?h2048",  # size reports, the first one at once
        "?h5522",  # pastes become clipboard messages
        "?h9001",  # Windows key records: the detach keys would not be seen
    }
)

_TEXT = r"(?!\s*\?\s*\Z).*"  # anything but a bare query
_COLOUR = r"[^?]*"
_OSCS = {
    **{number: re.compile(_TEXT) for number in ("0", "1", "2", "7", "133")},  # titles, directory, prompt marks
    **{number: re.compile(_COLOUR) for number in ("4", "5", *map(str, range(10, 20)))},
    **{number: re.compile(_COLOUR) for number in ("104", "105", *map(str, range(110, 120)))},
    # A link opens with a click: no scheme that starts a program with arguments (CVE-2023-46321, CVE-2023-46322).
    "8": re.compile(r"[^;]*;(?:(?:https?|file)://.*|mailto:.*)?", re.IGNORECASE),
    # Notification or progress; other numbers run macros and programs in ConEmu.
    "9": re.compile(r"4;[0-9;]*|(?![\s+-]*[0-9])" + _TEXT),
    "777": re.compile(r"notify;.*"),
    # Notification of kitty, without the keys that ask for an answer.
    "99": re.compile(r"(?:(?:i=[\w+.-]*|d=[01]|p=(?:title|body)|a=focus|o=\w+|u=[012])(?::|(?=;)))*;.*"),
}
_OSC = re.compile(r"(0|[1-9][0-9]{0,3})(?:;(.*))?")
_PAYLOAD = re.compile(r"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]*")

# -- how it is read ----------------------------------------------------------------------------------------------------
# Bytes are decoded with surrogateescape: U+0080..9F is a C1 control spelled in UTF-8, U+DC80..DC9F one spelled raw.
# CAN alone is dropped too: a ZMODEM header begins with it and some terminals then offer a file transfer.
_SPECIAL = re.compile(r"[\x05\x18\x1b\x80-\x9f\udc80-\udc9f]")
_CSI_BODY = re.compile(r"[ -?]*")
_STRING_ENDS = re.compile(r"[\x18\x1a\x1b\x9c\udc9c]")
_OSC_ENDS = re.compile(r"[\x07\x18\x1a\x1b\x9c\udc9c]")
_RAW_ENDS = re.compile(r"[\n\x07\x18\x1a\x1b\x9c\udc9c]")
_STRINGS = frozenset("]PX^_k")  # k is the title of screen and tmux
_PASSING_STRINGS = frozenset("]k")
_LINUX_PALETTE = {"P": 8, "R": 1}  # ESC ] P nrrggbb and ESC ] R of the Linux console have no terminator


class _State(enum.Enum):
    GROUND = "ground"
    ESCAPE = "escape"
    CSI = "csi"
    STRING = "string"


class ScreenFilter:
    """Streams a box's output to a real terminal without what would act outside the screen; see the theory above.

    `utf8=False` is for a terminal that is not in UTF-8 mode, where every byte 80..9F is a control.
    """

    def __init__(self, *, utf8: bool = True) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8" if utf8 else "ascii")("surrogateescape")
        self._recoloured = False
        self._alternate = False
        self._ground_state()

    def __repr__(self) -> str:
        return f"<ScreenFilter {self._state.value}, {len(self._held)} held>"

    def feed(self, data: bytes) -> bytes:
        return self._run(self._decoder.decode(data))

    def flush(self) -> bytes:
        """What was still undecided at the end of the stream: stray bytes; an unfinished sequence is dropped."""
        rest = self._run(self._decoder.decode(b"", final=True))
        self._decoder.reset()
        self._ground_state()
        return rest

    def restore(self) -> bytes:
        """RESTORE, and the colours of the terminal's own settings if the box changed them.

        The alternate screen is left only by who entered it: tmux jumps to where the last user of it had the cursor.
        """
        common = RESTORE if self._alternate else RESTORE.replace(_LEAVE_ALTERNATE, b"")
        return common + (_RESTORE_COLOURS if self._recoloured else b"")

    def _run(self, text: str) -> bytes:
        step = {
            _State.GROUND: self._ground,
            _State.ESCAPE: self._escape,
            _State.CSI: self._csi,
            _State.STRING: self._string,
        }
        out: list[str] = []
        at = 0
        while at < len(text):
            at = step[self._state](text, at, out)
        return "".join(out).encode("utf-8", "surrogateescape")

    def _ground_state(self) -> None:
        self._state = _State.GROUND
        self._held = ""

    def _begin(self, state: _State, opener: str, *, passing: bool, raw: bool = False) -> None:
        self._state = state
        self._opener = opener
        self._passing = passing
        self._ends = _RAW_ENDS if raw else _OSC_ENDS if opener == "]" else _STRING_ENDS
        self._held = ""
        self._size = 0
        self._bound = SWALLOW_CHARS

    def _open(self, char: str) -> None:
        """Leave the ground by ESC or a C1 control; ENQ, CAN and a C1 control that opens nothing are only dropped."""
        if char == "\x1b":
            self._begin(_State.ESCAPE, "", passing=True)
            return
        self._ground_state()
        opener = chr((ord(char) - 0x40) & 0x7F)  # C1 9B is ESC [ and so on
        if char < "\x80" or opener not in _STRINGS | {"["}:
            return
        state = _State.CSI if opener == "[" else _State.STRING
        self._begin(state, opener, passing=False, raw=char >= "\udc80")

    def _ground(self, text: str, at: int, out: list[str]) -> int:
        hit = _SPECIAL.search(text, at)
        if hit is None:
            out.append(text[at:])
            return len(text)
        out.append(text[at : hit.start()])
        self._open(hit[0])
        return hit.end()

    def _escape(self, text: str, at: int, out: list[str]) -> int:
        char = text[at]
        if self._opener:  # a string that ESC ended, waiting for its backslash
            if char == "\\":
                self._close(out, "\x1b\\")
                return at + 1
            self._begin(_State.ESCAPE, "", passing=True)
        if not " " <= char <= "~":
            return at + self._interrupt(char, out)
        if not self._held and char == "[":
            self._begin(_State.CSI, char, passing=True)
        elif not self._held and char in _STRINGS:
            self._begin(_State.STRING, char, passing=char in _PASSING_STRINGS)
        elif char < "0":
            self._take(text, at, at + 1)
        else:
            if self._passing and _ESCAPES.fullmatch(self._held + char):
                out.append("\x1b" + self._held + char)
            self._ground_state()
        return at + 1

    def _csi(self, text: str, at: int, out: list[str]) -> int:
        body = _CSI_BODY.match(text, at)
        end = body.end() if body else at
        if end > at:
            return self._take(text, at, end)
        char = text[at]
        if not " " <= char <= "~":
            return at + self._interrupt(char, out)
        if self._passing and _csi_passes(self._held + char):
            out.append(f"\x1b[{self._held}{char}")
            if _ALTERNATE.fullmatch(self._held + char):
                self._alternate = char == "h"
        self._ground_state()
        return at + 1

    def _string(self, text: str, at: int, out: list[str]) -> int:
        if self._opener == "]" and self._size == 0:
            self._bound = _LINUX_PALETTE.get(text[at], SWALLOW_CHARS)
        hit = self._ends.search(text, at)
        end = hit.start() if hit else len(text)
        if end > at:
            return self._take(text, at, end)
        match text[at]:
            case "\x1b":
                self._state = _State.ESCAPE
            case "\x07":
                self._close(out, "\x07")
            case "\n":
                self._ground_state()
                return at  # the line that a binary file broke ends here, visibly
            case _:
                self._ground_state()
        return at + 1

    def _take(self, text: str, at: int, end: int) -> int:
        """Collect text[at:end], or only count it once it is too long to pass; at the bound the ground is back."""
        end = min(end, at + self._bound - self._size)
        self._size += end - at
        self._passing = self._passing and self._size <= HELD_CHARS
        self._held = self._held + text[at:end] if self._passing else ""
        if self._size >= self._bound:
            self._ground_state()
        return end

    def _interrupt(self, char: str, out: list[str]) -> int:
        """A character that is no part of the ESC or CSI sequence it stands in; returns 1 if it is dealt with."""
        if char == "\x1b":
            self._open(char)
        elif char in "\x18\x1a":
            self._ground_state()
        elif char < " ":
            out.append("" if char == "\x05" else char)
        elif char != "\x7f":
            self._ground_state()
            return 0
        return 1

    def _close(self, out: list[str], terminator: str) -> None:
        if self._passing and self._string_passes():
            out.append(f"\x1b{self._opener}{self._held}{terminator}")
        self._ground_state()

    def _string_passes(self) -> bool:
        if not _PAYLOAD.fullmatch(self._held):
            return False
        if self._opener == "k":
            return True
        match = _OSC.fullmatch(self._held)
        pattern = _OSCS.get(match[1]) if match else None
        if match is None or pattern is None or not pattern.fullmatch(match[2] or ""):
            return False
        self._recoloured = self._recoloured or pattern.pattern == _COLOUR
        return True


def _csi_passes(sequence: str) -> bool:
    match = _CSI.fullmatch(sequence) if len(sequence) <= CSI_CHARS else None
    if match is None or "".join(match.group(1, 3, 4)) not in _CSIS:
        return False
    prefix, parameters, _, final = match.groups()
    key = prefix + final
    if ":" in parameters and key != "m":  # only colours and underlines have sub-parameters
        return False
    numbers = [int(number or "0") for number in re.split("[:;]", parameters)]
    if max(numbers) > _PARAMETER_LIMIT:
        return False
    if sequence.endswith("t") and match[3] == "" and numbers[0] not in _WINDOW_OPERATIONS:
        return False
    return not any(f"{key}{number}" in _SET_NEVER for number in numbers)


# -- afterwards --------------------------------------------------------------------------------------------------------
_LEAVE_ALTERNATE = b"\x1b7\x1b[?1049l"  # saved first, so the cursor stays put if there is none to leave
RESTORE = (
    b"\x1b\\\x1b[?2026l"  # close a string that a killed writer left open; end a synchronised update
    + _LEAVE_ALTERNATE
    + b"\x1b7\x1b[r\x1b8"  # whole screen scrolls again; setting margins would move the cursor
    b"\x1b[?1l\x1b>"  # cursor keys and keypad
    b"\x1b[?5l\x1b[?7h\x1b[4l\x1b[20l"  # no reverse screen, wrap, no insert, no newline mode
    b"\x1b[?9l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1005l\x1b[?1006l\x1b[?1015l\x1b[?1016l"  # mouse
    b"\x1b[?1004l\x1b[?2004l\x1b[?2031l"  # focus events, bracketed paste, colour scheme events
    b"\x1b[<99u\x1b[>4m"  # kitty keyboard: pop all the box may have pushed; xterm's modified keys
    b"\x1b]8;;\x1b\\"  # close a link
    b"\x0f\x1b(B\x1b[0;10m\x1b[0 q\x1b[?25h"  # ASCII, plain attributes, usual cursor, shown
)
_RESTORE_COLOURS = b"\x1b]104\x1b\\\x1b]105\x1b\\" + b"".join(b"\x1b]%d\x1b\\" % n for n in range(110, 120))

# -- keys --------------------------------------------------------------------------------------------------------------
# A box may switch the keyboard to the kitty protocol or xterm's modifyOtherKeys; ctrl-p is then an escape sequence with
# modifier 5 (69, 133, 197 with caps lock, num lock), and releases and bare modifier keys come in between.
_CONTROL = rb"(?:5|69|133|197)"
_KEY = rb"(?:%s|\x1b\[(?:[0-9]+:[0-9]*:)?%d;" + _CONTROL + rb"(?::[12])?(?:;[0-9:]*)?u|\x1b\[27;5;%d~)"
_BETWEEN = rb"(?:\x1b\[[0-9:]+;[0-9]+:3(?:;[0-9:]*)?[A-Zu~]|\x1b\[574(?:4[1-9]|5[0-4])(?:;[0-9:;]*)?u)"
_CTRL_P = _KEY % (rb"\x10", 112, 112)
_CTRL_Q = _KEY % (rb"\x11", 113, 113)
_UNFINISHED = rb"\x1b\[[0-9][0-9:;]{0,40}"
_DETACH = re.compile(_CTRL_P + _BETWEEN + rb"*" + _CTRL_Q)
_MAYBE = re.compile(rb"(?:" + _CTRL_P + _BETWEEN + rb"*(?:" + _UNFINISHED + rb")?|" + _UNFINISHED + rb")\Z")


class DetachKeys:
    """Finds ctrl-p ctrl-q in what the user types; a ctrl-p is held until the next key shows what it was.

    A lone ESC is never held, so the Escape key acts at once; an encoded key is expected to arrive in one read, as
    terminals write it.
    """

    def __init__(self) -> None:
        self._held = b""
        self._detached = False

    def __repr__(self) -> str:
        return f"<DetachKeys {'detached' if self._detached else f'{len(self._held)} held'}>"

    def feed(self, data: bytes) -> tuple[bytes, bool]:
        """Bytes to forward, and whether the user detached; what was typed after that is not forwarded."""
        if self._detached:
            return b"", True
        typed = self._held + data
        if found := _DETACH.search(typed):
            self._held, self._detached = b"", True
            return typed[: found.start()], True
        maybe = _MAYBE.search(typed)
        end = maybe.start() if maybe else len(typed)
        self._held = typed[end:]
        return typed[:end], False
