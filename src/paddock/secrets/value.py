"""A secret's value, in a type that nothing can print, compare, copy or serialise by accident.

`reveal()` is the only way out, so a reviewer greps for it. What a header, a query or a form can carry without being
read as something else is what a value may consist of: printable ASCII without blanks around it.
"""

from __future__ import annotations

from typing import NoReturn

from paddock.errors import UserError
from paddock.limits import SECRET_BYTES, SECRET_LEAST_CHARS


class Secret:
    """No error that this raises has any of the value in it."""

    __slots__ = ("__text",)
    __hash__ = None  # type: ignore[assignment]  # a table of secrets would compare them

    def __init__(self, text: str, of: str = "the secret") -> None:
        if problem := _problem(text):
            hint = "give the value alone: one line of plain characters"
            raise UserError(f"the value of {of} {problem}", hint=hint, code="bad-secret")
        self.__text = text

    def reveal(self) -> str:
        return self.__text

    def is_same(self, text: str) -> bool:
        """Takes as long whether the first character differs or the last."""
        import hmac  # with OpenSSL 3 ms, which who only names secrets does not need

        return hmac.compare_digest(self.__text.encode(), text.encode("utf-8", "surrogatepass"))

    def __eq__(self, other: object) -> bool:
        return self.is_same(other.__text) if isinstance(other, Secret) else NotImplemented

    def __repr__(self) -> str:
        return "<Secret ***>"

    def __str__(self) -> str:
        raise TypeError("a secret has no text")

    def __format__(self, _spec: str) -> str:
        raise TypeError("a secret has no text")

    def __reduce_ex__(self, _protocol: object) -> NoReturn:
        raise TypeError("a secret is neither copied nor serialised")  # copy, pickle and dataclasses.asdict


def read(data: bytes, of: str) -> Secret:
    """What a program printed or a file holds: one line, the end of which is not part of the value."""
    text = data.decode("latin-1")  # other bytes than ASCII are refused, whatever their encoding
    return Secret(text[:-2] if text.endswith("\r\n") else text.removesuffix("\n"), of)


def _problem(text: str) -> str:
    if not text:
        return "is empty"
    if not text.isascii() or not text.isprintable():
        return "has a line break" if "\n" in text or "\r" in text else "has characters that a header cannot carry"
    if text != text.strip(" "):
        return "begins or ends with a blank"
    if len(text) < SECRET_LEAST_CHARS:
        return f"has fewer than {SECRET_LEAST_CHARS} characters"
    return f"is over {SECRET_BYTES >> 10} KiB" if len(text) > SECRET_BYTES else ""
