"""Parses Avro definitions, which Pulsar's AVRO and JSON schemas share, into nodes, and gives the Arrow type of each.

A name refers to an earlier definition. A recursive type is rejected, because no table column can hold it; an invalid
definition is rejected too. A node keeps the last part of its name, and versions are compared by it alone: stock clients
use different full names for the same record. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from magnetar.base.errors import Misuse
from magnetar.base.limits import SPARK_SCHEMA_NODES_MAX
from magnetar.spark.values.value_schema import inner

NO_DEFAULT: Any = object()

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
DIGITS_MAX = 38  # maximum decimal precision in Spark and in Arrow's 128 bits

INSTANT = pa.timestamp("us", tz="UTC")
LOCAL = pa.timestamp("us")
# Spark's TIME is disabled by default: the interval since midnight has the same information
TIME_OF_DAY = pa.duration("us")

# (underlying type, logical type) -> column type, and the number of written units per microsecond (or day).
UNITS: dict[tuple[str, str], tuple[Any, int]] = {
    ("int", "date"): (pa.date32(), 0),
    ("int", "time-millis"): (TIME_OF_DAY, 1000),
    ("long", "time-micros"): (TIME_OF_DAY, 1),
    ("long", "timestamp-millis"): (INSTANT, 1000),
    ("long", "timestamp-micros"): (INSTANT, 1),
    ("long", "timestamp-nanos"): (INSTANT, -1000),
    ("long", "local-timestamp-millis"): (LOCAL, 1000),
    ("long", "local-timestamp-micros"): (LOCAL, 1),
    ("long", "local-timestamp-nanos"): (LOCAL, -1000),
}
_PLAIN = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}


@dataclass(frozen=True, slots=True)
class Scalar:
    kind: str  # one of PRIMITIVES
    logical: str = ""  # a supported logical type, else ""
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Fixed:
    name: str
    size: int
    precision: int = 0  # precision of a decimal
    scale: int = 0


@dataclass(frozen=True, slots=True)
class EnumType:
    name: str
    symbols: tuple[str, ...]
    default: str | None = None


@dataclass(frozen=True, slots=True)
class ArrayType:
    items: Node


@dataclass(frozen=True, slots=True)
class MapType:
    values: Node


@dataclass(frozen=True, slots=True)
class Union:
    branches: tuple[Node, ...]

    @property
    def others(self) -> tuple[Node, ...]:
        """The branches that are not null."""
        return tuple(one for one in self.branches if one != NULL)


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: Node
    default: Any = NO_DEFAULT
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Record:
    name: str
    fields: tuple[Field, ...]


Node = Scalar | Fixed | EnumType | ArrayType | MapType | Union | Record
NULL = Scalar("null")


def parse(text: bytes) -> Node:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise Misuse("the registered definition must be Avro in JSON") from None
    try:
        node = _Parser().node(document, "")
        if _size(node, {}) > SPARK_SCHEMA_NODES_MAX:
            raise Misuse("the registered definition has too many fields", fields_max=SPARK_SCHEMA_NODES_MAX)
        return node
    except RecursionError:
        raise Misuse("the registered definition is nested too deeply") from None


def arrow_type(node: Node) -> Any:
    """The type of a column for these values; every column is nullable."""
    match node:
        case Scalar(precision=precision) | Fixed(precision=precision) if precision:
            return pa.decimal128(precision, node.scale)
        case Fixed():
            return pa.binary()
        case Scalar(kind=kind, logical=logical):
            return UNITS[kind, logical][0] if (kind, logical) in UNITS else _PLAIN[kind]
        case EnumType():
            return pa.string()
        case ArrayType(items=items):
            return pa.list_(pa.field("element", arrow_type(items)))
        case MapType(values=values):
            return pa.map_(pa.string(), arrow_type(values))
        case Record(fields=fields):
            return pa.struct([pa.field(one.name, arrow_type(one.type)) for one in fields])
        case Union():
            return _union_type(node)


def united(node: Union) -> Scalar | None:
    """The common type of a union of numbers, if one exists."""
    kinds = {one.kind for one in node.others if isinstance(one, Scalar) and not one.logical}
    if len(kinds) == len(node.others):
        if kinds == {"int", "long"}:
            return Scalar("long")
        if kinds == {"float", "double"}:
            return Scalar("double")
    return None


def _size(node: Node, sizes: dict[int, int]) -> int:
    """The number of types in a definition. A name counts as much as its definition."""
    if id(node) not in sizes:
        match node:
            case Record(fields=fields):
                parts: tuple[Node, ...] = tuple(one.type for one in fields)
            case Union(branches=branches):
                parts = branches
            case ArrayType(items=inside) | MapType(values=inside):
                parts = (inside,)
            case _:
                parts = ()
        sizes[id(node)] = 1 + sum(_size(one, sizes) for one in parts)
    return sizes[id(node)]


def _union_type(node: Union) -> Any:
    others = node.others
    if not others:
        return pa.null()
    if len(others) == 1:
        return arrow_type(others[0])
    if (number := united(node)) is not None:
        return arrow_type(number)
    return pa.struct([pa.field(f"member{index}", arrow_type(one)) for index, one in enumerate(others)])


class _Parser:
    def __init__(self) -> None:
        self._named: dict[str, Node] = {}  # by full name
        self._open: set[str] = set()
        self._space = ""  # current namespace

    def node(self, document: Any, path: str) -> Node:
        if isinstance(document, str):
            return self._name(document, path)
        if isinstance(document, list):
            return Union(tuple(self.node(one, path) for one in document))
        if not isinstance(document, Mapping) or "type" not in document:
            raise _wrong(path, "is not a type")
        kind = document["type"]
        match kind:
            case "record" | "error":
                return self._record(document, path)
            case "enum":
                symbols = document.get("symbols")
                if not isinstance(symbols, list) or not all(isinstance(one, str) for one in symbols):
                    raise _wrong(path, "must have symbols, as an enum")
                default = document.get("default")
                name = self._full(document, path)
                enum = EnumType(_last(name), tuple(symbols), default if isinstance(default, str) else None)
                return self._known(name, enum)
            case "fixed":
                size = document.get("size")
                if not isinstance(size, int) or not 0 <= size < 1 << 31:
                    raise _wrong(path, "must have a size, as fixed")
                name = self._full(document, path)
                return self._known(name, Fixed(_last(name), size, *_decimal(document)))
            case "array":
                return ArrayType(self.node(document.get("items"), path))
            case "map":
                return MapType(self.node(document.get("values"), path))
            case str() if kind in PRIMITIVES:
                return _logical(kind, document)
            case _:
                return self.node(kind, path)

    def _name(self, name: str, path: str) -> Node:
        if name in PRIMITIVES:
            return Scalar(name)
        for full in (name if "." in name else inner(self._space, name), name):
            if full in self._open:
                raise _wrong(
                    path, f"contains itself ({name}), which no column supports: read the topic without schema=registry"
                )
            if full in self._named:
                return self._named[full]
        raise _wrong(path, f"has an undefined type: {name[:80]}")

    def _record(self, document: Mapping[str, Any], path: str) -> Node:
        name = self._full(document, path)
        listed = document.get("fields")
        if not isinstance(listed, list):
            raise _wrong(path, "must have fields, as a record")
        outside, self._space = self._space, name.rpartition(".")[0]
        self._open.add(name)
        fields = tuple(self._field(one, path) for one in listed)
        self._open.discard(name)
        self._space = outside
        if len({one.name for one in fields}) != len(fields):
            raise _wrong(path, "must have each field once, as a record")
        return self._known(name, Record(_last(name), fields))

    def _full(self, document: Mapping[str, Any], path: str) -> str:
        name, space = document.get("name"), document.get("namespace")
        if not isinstance(name, str) or not name:
            raise _wrong(path, "must have a name, as a named type")
        if "." in name:
            return name
        return inner(space if isinstance(space, str) else self._space, name)

    def _field(self, document: Any, path: str) -> Field:
        if not isinstance(document, Mapping) or not isinstance(document.get("name"), str):
            raise _wrong(path, "has a field without a name")
        name = document["name"]
        if "type" not in document:
            raise _wrong(inner(path, name), "must have a type")
        node = self.node(document["type"], inner(path, name))
        if isinstance(node, Scalar) and "logicalType" in document and not node.logical:
            node = _logical(node.kind, document)  # some writers place it beside the type instead of in it
        aliases = document.get("aliases") or []
        return Field(name, node, document.get("default", NO_DEFAULT), tuple(one for one in aliases if type(one) is str))

    def _known(self, name: str, node: Node) -> Node:
        self._named[name] = node
        return node


def _logical(kind: str, document: Mapping[str, Any]) -> Scalar:
    """An unknown or unsuitable logical type is ignored, as Avro requires."""
    logical = document.get("logicalType")
    if kind == "bytes" and (decimal := _decimal(document))[0]:
        return Scalar(kind, "decimal", *decimal)
    return Scalar(kind, str(logical)) if (kind, logical) in UNITS else Scalar(kind)


def _decimal(document: Mapping[str, Any]) -> tuple[int, int]:
    precision, scale = document.get("precision"), document.get("scale", 0)
    if document.get("logicalType") != "decimal" or not isinstance(precision, int) or not isinstance(scale, int):
        return 0, 0
    return (precision, scale) if 0 < precision <= DIGITS_MAX and 0 <= scale <= precision else (0, 0)


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _wrong(path: str, why: str) -> Misuse:
    return Misuse(f"the registered definition cannot be a table: {f'field {path}' if path else 'it'} {why}")
