"""The default value of a field, for messages without this field, as one value of the column's type.

Avro writes defaults in JSON: bytes as text whose characters are the bytes, a union's default as a value of one branch.
A default of the wrong type is an error of the registered schema: `Incompatible`, with the name of the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa

from magnetar.spark.values.avro_schema import (
    NO_DEFAULT,
    UNITS,
    ArrayType,
    EnumType,
    Fixed,
    MapType,
    Node,
    Record,
    Scalar,
    Union,
    arrow_type,
    united,
)
from magnetar.spark.values.value_schema import Incompatible

_DECIMAL_BYTES_MAX = 64  # maximum bytes of a default: sixteen hold all digits, the others can only repeat the sign
_NATIVE: dict[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "int": (int,),
    "long": (int,),
    "float": (int, float),
    "double": (int, float),
    "bytes": (str,),
    "string": (str,),
}


def constant(node: Node, default: Any, path: str) -> Any:
    """An Arrow scalar."""
    try:
        return pa.array([_value(node, default)], arrow_type(node))[0]
    except (_Wrong, pa.ArrowException, OverflowError):
        raise Incompatible(f"its default must match its type, got {str(default)[:80]}", path) from None


class _Wrong(Exception):
    """The value has another type."""


def _value(node: Node, default: Any) -> Any:
    """The Python value for Arrow."""
    match node:
        case Union():
            return _branch(node, default)
        case Scalar(kind="null"):
            if default is not None:
                raise _Wrong
            return None
        case Scalar(kind=kind):
            natives = _NATIVE[kind]
            if not isinstance(default, natives) or (isinstance(default, bool) and bool not in natives):
                raise _Wrong
            return _scalar(node, default)
        case Fixed(size=size):
            data = _bytes(default)
            if len(data) != size:
                raise _Wrong
            return _decimal(data, node.scale) if node.precision else data
        case EnumType(symbols=symbols):
            if default not in symbols:
                raise _Wrong
            return default
        case ArrayType(items=items):
            if not isinstance(default, list):
                raise _Wrong
            return [_value(items, one) for one in default]
        case MapType(values=values):
            return [(name, _value(values, one)) for name, one in _object(default).items()]
        case Record(fields=fields):
            mapping = _object(default)
            return {one.name: _field(one.type, mapping.get(one.name, one.default)) for one in fields}


def _field(node: Node, default: Any) -> Any:
    return None if default is NO_DEFAULT else _value(node, default)


def _branch(node: Union, default: Any) -> Any:
    """The first matching branch. Avro allows only the first branch, but writers use others too."""
    if default is None:
        return None
    number = united(node)
    if number is not None:
        return _value(number, default)
    for index, branch in enumerate(node.others):
        try:
            value = _value(branch, default)
        except _Wrong:
            continue
        return value if len(node.others) == 1 else {f"member{index}": value}
    raise _Wrong


def _scalar(node: Scalar, default: Any) -> Any:
    if node.kind == "bytes":
        data = _bytes(default)
        return _decimal(data, node.scale) if node.precision else data
    per = UNITS.get((node.kind, node.logical), (None, 0))[1]
    if per:
        return default * per if per > 0 else default // -per
    return default


def _bytes(default: Any) -> bytes:
    try:
        return str(default).encode("latin-1") if isinstance(default, str) else _wrong()
    except UnicodeEncodeError:
        raise _Wrong from None


def _decimal(data: bytes, scale: int) -> Decimal:
    if len(data) > _DECIMAL_BYTES_MAX:
        raise _Wrong
    return Decimal(f"{int.from_bytes(data, 'big', signed=True)}E-{scale}")  # exact in any decimal context


def _object(default: Any) -> Mapping[str, Any]:
    return default if isinstance(default, Mapping) else _wrong()


def _wrong() -> Any:
    raise _Wrong
