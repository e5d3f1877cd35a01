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


_PLAIN = frozenset({str, int, float, bool, type(None)})


def to_wire(value: object) -> object:
    if type(value) in _PLAIN:
        return value
    if isinstance(value, enum.Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: to_wire(getattr(value, name)) for name in _names(type(value))}
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
            raise UserError(f"unknown key {str(key)[:80]!r} in {where}", hint="check the spelling", code="unknown-key")
    for field in dataclasses.fields(cls):
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and field.name not in data:
            raise UserError(f"missing key {field.name!r} in {where}", code="missing-key")
    return cls(**{key: _value(hints[key], item, f"{where}.{key}") for key, item in data.items()})


@functools.cache
def _names(cls: type[DataclassInstance]) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(cls))


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
        inner, *rest = typing.get_args(hint)
        if rest != [...]:
            raise _unreadable(where, hint)
        return tuple(_value(inner, item, f"{where}[{n}]") for n, item in enumerate(data))
    if origin is dict:
        if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
            raise _bad(where, "an object", data)
        inner = typing.get_args(hint)[1]
        return {key: _value(inner, item, f"{where}.{key[:80]}") for key, item in data.items()}
    if origin is typing.Literal:
        return _one_of({value: value for value in typing.get_args(hint)}, data, where)
    return _plain(hint, data, where)


def _plain(hint: object, data: object, where: str) -> object:
    if isinstance(hint, typing.NewType):
        hint = hint.__supertype__
    if not isinstance(hint, type):
        raise _unreadable(where, hint)
    if issubclass(hint, enum.Enum):
        return _one_of({member.value: member for member in hint}, data, where)
    if dataclasses.is_dataclass(hint):
        return from_wire(hint, data, where)
    if hint is float and type(data) is int and abs(data) < 1 << 1023:  # a larger one has no float
        return float(data)
    if type(data) is not hint:  # exact: a bool is not an int here
        raise _bad(where, hint.__name__, data)
    return data


def _union(options: tuple[object, ...], data: object, where: str) -> object:
    if data is None and type(None) in options:
        return None
    rest = [option for option in options if option is not type(None)]
    if len(rest) != 1:
        raise _unreadable(where, options)
    return _value(rest[0], data, where)


def _one_of(choices: dict[object, object], data: object, where: str) -> object:
    for wire, value in choices.items():
        if type(wire) is type(data) and wire == data:  # exact: True is not 1 here
            return value
    raise _bad(where, "one of " + ", ".join(map(repr, choices)), data)


def _unreadable(where: str, hint: object) -> TypeError:
    return TypeError(f"{where}: the codec cannot read annotation {hint!r}")


def _bad(where: str, wanted: str, data: object) -> UserError:
    return UserError(f"{where} must be {wanted}, not {_shown(data)}", code="wrong-type")


def _shown(data: object) -> str:
    """A value as an error names it, however large or deep it is."""
    match data:
        case dict():
            return "an object"
        case list() | tuple():
            return "a list"
        case str():
            return repr(data[:80])
        case int() if abs(data) >= 1 << 64:
            return "a huge number"
        case _:
            return repr(data)[:80]
