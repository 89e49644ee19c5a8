"""Converts between the values of a Python class and the plain values that an Avro library writes and reads.

A converter is made once for a type, from the same type hints as its definition. On the way out it checks every field,
so that a value that readers cannot decode is refused with the name of its field. On the way in it makes the user's
classes; the library has checked the bytes by then. Pure.
"""

from __future__ import annotations

import datetime
import types
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

from magnetar.base.errors import Misuse
from magnetar.client.avro.definition import field_names, is_array, is_mapping, is_union

LONG_MIN, LONG_MAX = -(1 << 63), (1 << 63) - 1


class Misfit(Exception):
    """A value of another type than its field. `path` is filled from the innermost field outwards."""

    def __init__(self, expected: str, value: object) -> None:
        self.expected = expected
        self.got = type(value).__name__
        self.path: list[str] = []


@dataclass(frozen=True, slots=True)
class Converter:
    """`out` raises Misfit. `back` takes a value of the library. `is_it`: whether `back` takes it, in a union."""

    out: Callable[[Any], Any]
    back: Callable[[Any], Any]
    is_it: Callable[[Any], bool]


def converter(kind: Any) -> Converter:
    """Misuse: the type has no converter. The types are those of `definition`; others pass unchanged, since the caller
    gave the definition for them.
    """
    if kind in _SCALARS:
        return _SCALARS[kind]
    if is_union(kind):
        return _union(get_args(kind))
    if is_array(kind):
        return _array(kind)
    if is_mapping(kind):
        return _mapping(kind)
    if isinstance(kind, type):
        if issubclass(kind, Enum):
            return _enum(kind)
        names = field_names(kind)
        if names is not None:
            return _record(kind, names)
    return Converter(_same, _same, lambda value: True)


def _same(value: Any) -> Any:
    return value


def _exactly(kind: type[Any], expected: str = "") -> Converter:
    named = expected or kind.__name__

    def out(value: Any) -> Any:
        if not isinstance(value, kind):
            raise Misfit(named, value)
        return value

    return Converter(out, _same, lambda value: isinstance(value, kind))


def _integer(value: Any) -> int:
    if type(value) is bool or not isinstance(value, int):
        raise Misfit("int", value)
    if not LONG_MIN <= value <= LONG_MAX:
        raise Misfit("an int of 64 bits", value)
    return value


def _number(value: Any) -> float:
    if type(value) is bool or not isinstance(value, float | int):
        raise Misfit("float", value)
    return float(value)


def _time(value: Any) -> datetime.datetime:
    if not isinstance(value, datetime.datetime):
        raise Misfit("datetime", value)
    if value.tzinfo is None:
        raise Misfit("a datetime with a time zone", value)
    return value


def _day(value: Any) -> datetime.date:
    if not isinstance(value, datetime.date) or isinstance(value, datetime.datetime):
        raise Misfit("date", value)
    return value


_SCALARS: dict[Any, Converter] = {
    str: _exactly(str),
    bytes: _exactly(bytes),
    bool: _exactly(bool),
    int: Converter(_integer, _same, lambda value: type(value) is int),
    float: Converter(_number, _same, lambda value: type(value) is float),
    datetime.datetime: Converter(_time, _same, lambda value: isinstance(value, datetime.datetime)),
    datetime.date: Converter(_day, _same, lambda value: isinstance(value, datetime.date)),
    datetime.time: _exactly(datetime.time),
    uuid.UUID: _exactly(uuid.UUID),
}


def _union(inner: tuple[Any, ...]) -> Converter:
    nullable = types.NoneType in inner
    branches = [converter(one) for one in inner if one is not types.NoneType]
    expected = " or ".join("None" if one is types.NoneType else _name(one) for one in inner)
    _check_branches(inner)

    def out(value: Any) -> Any:
        if value is None and nullable:
            return None
        if len(branches) == 1:
            return branches[0].out(value)  # names the field in it
        for branch in branches:
            try:
                return branch.out(value)
            except Misfit:
                pass
        raise Misfit(expected, value)

    def back(value: Any) -> Any:
        if value is None:
            return None
        if len(branches) == 1:
            return branches[0].back(value)
        return next(branch for branch in branches if branch.is_it(value)).back(value)

    return Converter(out, back, lambda value: value is None or any(one.is_it(value) for one in branches))


def _check_branches(inner: tuple[Any, ...]) -> None:
    """A value that was read names its branch by its type alone, so no two branches may be read as the same type."""
    read_as = [_read_as(one) for one in inner]
    for kind in set(read_as):
        if read_as.count(kind) > 1:
            names = ", ".join(_name(one) for one in inner if _read_as(one) == kind)
            raise Misuse(f"Avro reads the types {names} of a union as one type: use one of them", union=names)


def _read_as(kind: Any) -> str:
    if is_array(kind):
        return "array"
    if is_mapping(kind) or field_names(kind) is not None:
        return "record or map"
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "str"
    return _name(kind)


def _array(kind: Any) -> Converter:
    inner = get_args(kind)
    origin = get_origin(kind) or kind
    if origin is tuple and not (len(inner) == 2 and inner[1] is Ellipsis):
        raise Misuse("Avro has no tuple of several types: use tuple[T, ...], a list or a class", given=str(kind))
    item = converter(inner[0]) if inner else _SCALARS[str]
    collects = origin if origin in (tuple, set, frozenset) else list
    accepted = (list, tuple, set, frozenset)

    def out(values: Any) -> list[Any]:
        if not isinstance(values, accepted):
            raise Misfit(collects.__name__, values)
        items: list[Any] = []
        for place, value in enumerate(values):
            items.append(_within(f"[{place}]", item.out, value))
        return items

    def back(values: Any) -> Any:
        return collects(map(item.back, values))

    return Converter(out, back, lambda value: isinstance(value, list))


def _mapping(kind: Any) -> Converter:
    inner = get_args(kind)
    item = converter(inner[1]) if inner else _SCALARS[str]

    def out(values: Any) -> dict[str, Any]:
        if not isinstance(values, Mapping):
            raise Misfit("dict", values)
        by_key: dict[str, Any] = {}
        for key, value in values.items():
            if not isinstance(key, str):
                raise Misfit("a key of type str", key)
            by_key[key] = _within(key, item.out, value)
        return by_key

    def back(values: Any) -> dict[str, Any]:
        return {key: item.back(value) for key, value in values.items()}

    return Converter(out, back, lambda value: isinstance(value, dict))


def _enum(kind: type[Enum]) -> Converter:
    def out(value: Any) -> str:
        if not isinstance(value, kind):
            raise Misfit(kind.__name__, value)
        return value.name

    return Converter(out, lambda symbol: kind[symbol], lambda value: isinstance(value, str))


def _record(kind: type[Any], names: list[str]) -> Converter:
    hints = get_type_hints(kind)
    fields = [(name, converter(hints[name])) for name in names]
    typed_dict = is_typeddict(kind)
    later = {name for name, one in getattr(kind, "__dataclass_fields__", {}).items() if not one.init}

    def out(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict if typed_dict else kind):
            raise Misfit(kind.__name__, value)
        by_field: dict[str, Any] = {}
        for name, field in fields:
            if not typed_dict:
                by_field[name] = _within(name, field.out, getattr(value, name))
            elif name in value:
                by_field[name] = _within(name, field.out, value[name])
        return by_field

    def back(values: Any) -> Any:
        arguments = {name: field.back(values[name]) for name, field in fields}
        if typed_dict:
            return arguments
        if not later:
            return kind(**arguments)
        target = kind(**{name: value for name, value in arguments.items() if name not in later})
        for name in later & arguments.keys():
            object.__setattr__(target, name, arguments[name])
        return target

    return Converter(out, back, lambda value: isinstance(value, dict))


def _within(name: str, out: Callable[[Any], Any], value: Any) -> Any:
    try:
        return out(value)
    except Misfit as misfit:
        misfit.path.insert(0, name)
        raise


def _name(kind: Any) -> str:
    return str(getattr(kind, "__name__", kind))
