"""The Avro record that describes a Python class; a JSON schema sends it to the broker.

Supports dataclasses, msgspec structs, pydantic models and typed dicts made of text, numbers, bytes, times, enums,
lists, mappings, optional values and each other. A field of another type is refused with its name; the caller then
passes its own definition. Pure.
"""

from __future__ import annotations

import json
import types
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict

from magnetar.base.errors import Misuse

_PLAIN: dict[Any, str] = {
    str: "string",
    int: "long",
    float: "double",
    bool: "boolean",
    bytes: "bytes",
}
_AS_TEXT = {"datetime.datetime", "datetime.date", "datetime.time", "uuid.UUID", "decimal.Decimal"}


def definition_of(kind: type[Any]) -> str:
    """The definition as JSON text."""
    return json.dumps(_type(kind, kind.__name__, {}))


def _type(kind: Any, where: str, seen: dict[Any, str]) -> Any:
    if kind in seen:
        return seen[kind]
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Union or origin is types.UnionType:
        return _union(inner, where, seen)
    if kind is list or origin in (list, set, frozenset, tuple, Sequence):
        item = _type(inner[0], where, seen) if inner else "string"
        return {"type": "array", "items": item}
    if kind is dict or origin in (dict, Mapping):
        return {"type": "map", "values": _type(inner[1], where, seen) if inner else "string"}
    if isinstance(kind, type):
        if issubclass(kind, Enum):
            seen[kind] = kind.__name__
            return {"type": "enum", "name": kind.__name__, "symbols": [str(member.value) for member in kind]}
        if f"{kind.__module__}.{kind.__name__}" in _AS_TEXT:
            return "string"
        names = _fields(kind)
        if names is not None:
            return _record(kind, names, seen)
    raise Misuse(f"no Avro type for {where}: {kind!r}; pass Json(..., definition=...) with the definition")


def _union(inner: tuple[Any, ...], where: str, seen: dict[Any, str]) -> Any:
    others = [_type(part, where, seen) for part in inner if part is not type(None)]
    return ["null", *others] if type(None) in inner else others


def _record(kind: type[Any], names: list[str], seen: dict[Any, str]) -> dict[str, Any]:
    seen[kind] = kind.__name__
    hints = get_type_hints(kind)
    fields: list[dict[str, Any]] = []
    for name in names:
        avro_type = _type(hints[name], f"{kind.__name__}.{name}", seen)
        field: dict[str, Any] = {"name": name, "type": avro_type}
        if isinstance(avro_type, list) and avro_type[0] == "null":
            field["default"] = None
        fields.append(field)
    return {"type": "record", "name": kind.__name__, "fields": fields}


def _fields(kind: type[Any]) -> list[str] | None:
    """Names of a dataclass, a msgspec struct, a pydantic model or a TypedDict; None for any other class."""
    if is_typeddict(kind):
        return list(get_type_hints(kind))
    for attribute in ("__dataclass_fields__", "model_fields"):
        fields = getattr(kind, attribute, None)
        if isinstance(fields, Mapping):
            return list(fields)
    names = getattr(kind, "__struct_fields__", None)
    return list(names) if isinstance(names, tuple) else None
