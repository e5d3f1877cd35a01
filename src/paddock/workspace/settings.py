"""Git's configuration files, read and written as text, and the few settings a box is given of the host's.

Nothing here is obeyed: no include is followed. What a box gets is an allow-list, because a setting that is harmless on
the host may name a program, a file or a token, and new versions of git bring new ones.
"""

from __future__ import annotations

import re

from paddock.errors import UserError

Settings = tuple[tuple[str, str], ...]  # full key, its section and last word in lower case, and value

_HEADER = re.compile(r'\[[ \t]*([A-Za-z0-9-]+)(?:\.([A-Za-z0-9.-]+)|[ \t]+"((?:[^"\\\n]|\\.)*)")?[ \t]*\]')
_KEY = re.compile(r"([A-Za-z][A-Za-z0-9-]*)[ \t]*(=?)[ \t]*")
_SPACE = re.compile(r"(?:[ \t\r\n]+|[;#][^\n]*)+")
_ESCAPES = {"n": "\n", "t": "\t", "b": "\b", "\\": "\\", '"': '"'}

_WORD = r"[A-Za-z0-9._:/+-]{0,64}"
_REF = r"[^\x00-\x20\x7f]{1,1024}"
# What matters for the files of the work tree or for the words an agent uses, and cannot name a program or a file.
_ALLOWED = tuple(
    (re.compile(key), re.compile(value))
    for key, value in (
        (r"core\.(filemode|ignorecase|precomposeunicode|symlinks|autocrlf|eol|safecrlf|quotepath)", _WORD),
        (r"core\.(sparsecheckout|sparsecheckoutcone|checkstat|trustctime|abbrev|bare|sharedrepository)", _WORD),
        (r"core\.(whitespace|protecthfs|protectntfs|compression|bigfilethreshold)", r"[A-Za-z0-9,=-]{0,128}"),
        (r"index\.(sparse|version|threads)|feature\.manyfiles", _WORD),
        (r"(pull|push|merge|diff|status|branch|rebase|rerere|fetch)\.[a-z]+", r"true|false|[0-9]{1,6}"),
        (r"pull\.rebase|push\.default|merge\.conflictstyle|diff\.(algorithm|renames)", r"[a-z0-9-]{0,32}"),
        (r"branch\..+\.(remote|merge|rebase)", _REF),
        (r"remote\..+\.fetch", _REF),
        (r"remote\..+\.(promisor|partialclonefilter|tagopt)", r"[A-Za-z0-9:=/+-]{0,64}"),
        (r"submodule\..+\.(active|update)", r"true|false|checkout|rebase|merge|none"),
        (r"i18n\.(commitencoding|logoutputencoding)", _WORD),
        (r"user\.(name|email)", r"[^\x00-\x1f\x7f]{1,512}"),
    )
)
_URL = re.compile(r"remote\..+\.(url|pushurl)")
_SCHEME = re.compile(r"(https?|ssh|git|file)://(?:[^/]*@)?([^/@]*)(/[^?#]*)?(?:[?#].*)?\Z", re.IGNORECASE | re.DOTALL)


def parse(text: str, name: str) -> Settings:
    """The settings of a configuration file in order, or UserError; a key without a value is `true`."""
    return tuple(_Reader(text, name).read())


def last(settings: Settings, key: str, default: str = "") -> str:
    """The value that counts: of several the last one."""
    return next((value for name, value in reversed(settings) if name == key), default)


def is_true(settings: Settings, key: str) -> bool:
    return last(settings, key).lower() in {"true", "yes", "on", "1"}


def permitted(settings: Settings) -> Settings:
    """What of the host's settings a box may have, without the user names, passwords and tokens of addresses."""
    kept = []
    for key, value in settings:
        if _URL.fullmatch(key):
            kept.append((key, without_userinfo(value)))
        elif any(name.fullmatch(key) and form.fullmatch(value) for name, form in _ALLOWED):
            kept.append((key, value))
    return tuple(kept)


def without_userinfo(url: str) -> str:
    """An address of a remote without what may be secret in it; what is no plain address becomes empty."""
    if match := _SCHEME.match(url):
        user = "git@" if match[1].lower() == "ssh" else ""  # the user of every forge, and no secret
        return f"{match[1]}://{user}{match[2]}{match[3] or ''}"
    if "::" in url or "@" in url.partition("/")[0].rpartition("@")[0] or not url.isprintable():
        return ""  # a helper's name, which git would run
    return url


def written(settings: Settings) -> str:
    """A configuration file with these settings, in order."""
    lines = []
    for key, value in settings:
        section, _, rest = key.partition(".")
        subsection, _, word = rest.rpartition(".")
        head = f'[{section} "{_escaped(subsection)}"]' if subsection else f"[{section}]"
        lines.append(f'{head}\n\t{word} = "{_escaped(value)}"\n')
    return "".join(lines)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")


class _Reader:
    def __init__(self, text: str, name: str) -> None:
        self._text = text.removeprefix("\ufeff").replace("\r\n", "\n")
        self._name = name
        self._at = 0

    def read(self) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        prefix = ""
        while self._skip(_SPACE):
            if match := self._take(_HEADER):
                section, dotted, quoted = match.groups()
                parts = [section.lower()]
                if dotted is not None:
                    parts.append(dotted.lower())
                if quoted is not None:
                    parts.append(re.sub(r"\\(.)", r"\1", quoted))
                prefix = ".".join(parts) + "."
            elif prefix and (match := self._take(_KEY)):
                found.append((prefix + match[1].lower(), self._value() if match[2] else "true"))
            else:
                raise self._bad()
        return found

    def _skip(self, pattern: re.Pattern[str]) -> bool:
        """Whether there is more after what `pattern` matches here."""
        if match := pattern.match(self._text, self._at):
            self._at = match.end()
        return self._at < len(self._text)

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self._text, self._at)
        if match:
            self._at = match.end()
        return match

    def _value(self) -> str:
        kept: list[str] = []
        blanks = ""  # outside quotes, and dropped at the end of the line
        quoted = False
        while self._at < len(self._text):
            char = self._text[self._at]
            self._at += 1
            if char == "\n":
                if quoted:
                    raise self._bad()
                break
            if not quoted and char in ";#":
                self._at = (self._text + "\n").index("\n", self._at)
                break
            if not quoted and char in " \t":
                blanks += char
                continue
            if char == '"':
                quoted = not quoted
                continue
            kept.append(blanks)
            blanks = ""
            kept.append(self._escape() if char == "\\" else char)
        if quoted:
            raise self._bad()
        return "".join(kept)

    def _escape(self) -> str:
        char = self._text[self._at : self._at + 1]
        self._at += 1
        if char == "\n":
            return ""
        if char not in _ESCAPES:
            raise self._bad()
        return _ESCAPES[char]

    def _bad(self) -> UserError:
        line = self._text.count("\n", 0, self._at) + 1
        message = f"cannot read line {line} of {self._name}"
        return UserError(message, hint="look at it with `git config --list`", code="git-config")
