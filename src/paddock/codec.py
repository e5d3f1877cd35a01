"""Frozen dataclasses to JSON values and back, strictly: an unknown key, a missing one or a wrong type is refused.

Reads the annotations this project uses and no others: str, int, float, bool, X | None, tuple[X, ...], dict[str, str],
enums, Literals and nested dataclasses.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import types
import typing
from typing import TypeVar

from paddock.errors import UserError

if typing.TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")


def to_wire(value: object) -> object:
    if isinstance(value, enum.Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_wire(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [to_wire(item) for item in value]
    if isinstance(value, dict):
        return {key: to_wire(item) for key, item in value.items()}
    return value


def from_wire(cls: type[T], data: object, where: str = "") -> T:
    """Build `cls` from decoded JSON or raise UserError naming the key."""
    where = where or cls.__name__
    if not isinstance(data, dict):
        raise _bad(where, "an object", data)
    hints = _hints(cls)
    for key in data:
        if key not in hints:
            raise UserError(f"unknown key {key!r} in {where}", hint="check the spelling", code="unknown-key")
    values = {key: _value(hints[key], item, f"{where}.{key}") for key, item in data.items()}
    try:
        return cls(**values)
    except TypeError as error:
        raise UserError(f"{where}: {error}", code="missing-key") from error


@functools.cache
def _hints(cls: type) -> dict[str, object]:
    return dict(typing.get_type_hints(cls))


def _value(hint: object, data: object, where: str) -> object:
    origin = typing.get_origin(hint)
    if origin in {types.UnionType, typing.Union}:
        return _union(typing.get_args(hint), data, where)
    if origin is tuple:
        if not isinstance(data, (list, tuple)):
            raise _bad(where, "a list", data)
        return tuple(_value(typing.get_args(hint)[0], item, f"{where}[{n}]") for n, item in enumerate(data))
    if origin is dict:
        if not isinstance(data, dict):
            raise _bad(where, "an object", data)
        inner = typing.get_args(hint)[1]
        return {str(key): _value(inner, item, f"{where}.{key}") for key, item in data.items()}
    if origin is typing.Literal:
        if data not in typing.get_args(hint):
            raise _bad(where, "one of " + ", ".join(map(repr, typing.get_args(hint))), data)
        return data
    return _plain(hint, data, where)


def _plain(hint: object, data: object, where: str) -> object:
    if isinstance(hint, typing.NewType):
        hint = hint.__supertype__
    if not isinstance(hint, type):
        msg = f"{where}: the codec cannot read annotation {hint!r}"
        raise TypeError(msg)
    if issubclass(hint, enum.Enum):
        try:
            return hint(data)
        except ValueError:
            raise _bad(where, "one of " + ", ".join(repr(m.value) for m in hint), data) from None
    if dataclasses.is_dataclass(hint):
        return from_wire(hint, data, where)
    if hint is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if type(data) is not hint:  # exact: a bool is not an int here
        raise _bad(where, hint.__name__, data)
    return data


def _union(options: tuple[object, ...], data: object, where: str) -> object:
    if data is None and type(None) in options:
        return None
    rest = [option for option in options if option is not type(None)]
    if len(rest) != 1:
        msg = f"{where}: the codec reads only X | None"
        raise TypeError(msg)
    return _value(rest[0], data, where)


def _bad(where: str, wanted: str, data: object) -> UserError:
    return UserError(f"{where} must be {wanted}, not {str(data)[:80]!r}", code="wrong-type")
