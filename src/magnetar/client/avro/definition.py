"""The Avro record that describes a Python class; a typed schema sends it to the broker.

Supports dataclasses, msgspec structs, pydantic models and typed dicts made of text, numbers, bytes, times, enums,
lists, mappings, optional values and each other. A field of another type is refused with its name; the caller then
passes its own definition. `Json` describes its documents: times are text, enums their values. `Avro` describes binary
values: times are logical types, enums the names of their members, and simple defaults are part of the definition. Pure.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import types
import uuid
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
LOGICAL: dict[Any, dict[str, str]] = {
    datetime.datetime: {"type": "long", "logicalType": "timestamp-micros"},
    datetime.date: {"type": "int", "logicalType": "date"},
    datetime.time: {"type": "long", "logicalType": "time-micros"},
    uuid.UUID: {"type": "string", "logicalType": "uuid"},
}
_ABSENT = object()


def definition_of(kind: type[Any], *, binary: bool = False) -> str:
    """The definition as JSON text, of JSON documents or of binary Avro values."""
    return json.dumps(_Definition(binary).derive(kind, kind.__name__))


def field_names(kind: type[Any]) -> list[str] | None:
    """Names of a dataclass, a msgspec struct, a pydantic model or a TypedDict; None for any other class."""
    if is_typeddict(kind):
        return list(get_type_hints(kind))
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    fields = getattr(kind, "model_fields", None)
    if isinstance(fields, Mapping):
        return list(fields)
    names = getattr(kind, "__struct_fields__", None)
    return list(names) if isinstance(names, tuple) else None


def is_array(kind: Any) -> bool:
    return kind is list or get_origin(kind) in (list, set, frozenset, tuple, Sequence)


def is_mapping(kind: Any) -> bool:
    return kind is dict or get_origin(kind) in (dict, Mapping)


def is_union(kind: Any) -> bool:
    return get_origin(kind) in (Union, types.UnionType)


class _Definition:
    """One derivation. `seen`: classes that it has defined, which Avro names from then on."""

    def __init__(self, binary: bool) -> None:
        self.binary = binary
        self.seen: dict[Any, str] = {}

    def derive(self, kind: Any, where: str) -> Any:
        if kind in self.seen:
            return self.seen[kind]
        if kind in _PLAIN:
            return _PLAIN[kind]
        if self.binary and kind in LOGICAL:
            return LOGICAL[kind]
        inner = get_args(kind)
        if is_union(kind):
            return self._union(inner, where)
        if is_array(kind):
            return {"type": "array", "items": self.derive(inner[0], where) if inner else "string"}
        if is_mapping(kind):
            return {"type": "map", "values": self.derive(inner[1], where) if inner else "string"}
        if isinstance(kind, type):
            if issubclass(kind, Enum):
                self.seen[kind] = kind.__name__
                symbols = [one.name if self.binary else str(one.value) for one in kind]
                return {"type": "enum", "name": kind.__name__, "symbols": symbols}
            if f"{kind.__module__}.{kind.__name__}" in _AS_TEXT and not self.binary:
                return "string"
            names = field_names(kind)
            if names is not None:
                return self._record(kind, names)
        schema = "Avro" if self.binary else "Json"
        raise Misuse(f"no Avro type for {where}: {kind!r}; pass {schema}(..., definition=...) with the definition")

    def _union(self, inner: tuple[Any, ...], where: str) -> Any:
        others = [self.derive(part, where) for part in inner if part is not types.NoneType]
        return ["null", *others] if types.NoneType in inner else others

    def _record(self, kind: type[Any], names: list[str]) -> dict[str, Any]:
        self.seen[kind] = kind.__name__
        hints = get_type_hints(kind)
        defaults = _defaults(kind) if self.binary else {}
        fields: list[dict[str, Any]] = []
        for name in names:
            avro_type = self.derive(hints[name], f"{kind.__name__}.{name}")
            field: dict[str, Any] = {"name": name, "type": avro_type}
            default = defaults.get(name, _ABSENT)
            nullable = isinstance(avro_type, list) and avro_type[0] == "null"
            if nullable and default in (None, _ABSENT):
                field["default"] = None
            elif isinstance(avro_type, list) and default is not _ABSENT:
                field |= _of_first_branch(avro_type, default)
            elif default is not None and default is not _ABSENT:
                field["default"] = default
            fields.append(field)
        return {"type": "record", "name": kind.__name__, "fields": fields}


def _of_first_branch(union: list[Any], default: Any) -> dict[str, Any]:
    """The default of a union must be of its first branch, so that branch comes first."""
    kinds = {str: "string", bool: "boolean", int: "long", float: "double"}
    branch = kinds.get(type(default))
    if branch not in union:
        return {}
    return {"type": [branch, *(one for one in union if one != branch)], "default": default}


def _defaults(kind: type[Any]) -> dict[str, Any]:
    """Defaults that Avro's JSON can hold: a reader uses them for a field that the writer did not have."""
    defaults: dict[str, Any] = {}
    if dataclasses.is_dataclass(kind):
        for field in dataclasses.fields(kind):
            defaults[field.name] = _default(field.default_factory, field.default)
    elif hasattr(kind, "model_fields"):
        for name, model_field in kind.model_fields.items():
            defaults[name] = _default(model_field.default_factory, model_field.default)
    elif hasattr(kind, "__struct_fields__"):
        import msgspec

        for struct_field in msgspec.structs.fields(kind):
            defaults[struct_field.name] = _default(struct_field.default_factory, struct_field.default)
    return {name: _as_json(value) for name, value in defaults.items() if _as_json(value) is not _ABSENT}


def _default(factory: Any, default: Any) -> Any:
    return factory() if factory in (list, dict) else default


def _as_json(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.name
    if value is None or type(value) in (str, bool, int, float) or value in ([], {}):
        return value
    return _ABSENT
