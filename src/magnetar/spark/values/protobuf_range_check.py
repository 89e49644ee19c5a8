"""Checks that written Protobuf numbers fit into a narrower type of the reader's schema.

Types with the same encoding can be read as each other, but Protobuf truncates values that do not fit. Messages of a
version with a wider type, or another sign, are inspected with their own descriptor. A number outside the newer type
raises `OutOfRange` with the name of its field. Other contents of a message are not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FieldDescriptorProto

from magnetar.spark.values.value_schema import inner

Check = Callable[[Any], None]  # checks a message, or one value of a field

_F = FieldDescriptor
_RANGES = {
    **dict.fromkeys((_F.TYPE_INT32, _F.TYPE_SINT32, _F.TYPE_SFIXED32, _F.TYPE_ENUM), (-(1 << 31), (1 << 31) - 1)),
    **dict.fromkeys((_F.TYPE_INT64, _F.TYPE_SINT64, _F.TYPE_SFIXED64), (-(1 << 63), (1 << 63) - 1)),
    **dict.fromkeys((_F.TYPE_UINT32, _F.TYPE_FIXED32), (0, (1 << 32) - 1)),
    **dict.fromkeys((_F.TYPE_UINT64, _F.TYPE_FIXED64), (0, (1 << 64) - 1)),
    _F.TYPE_BOOL: (0, 1),
}


class OutOfRange(Exception):
    """A field's value does not fit into its column."""

    def __init__(self, why: str, field: str) -> None:
        self.why = why
        self.field = field


def narrowing(written: Descriptor, read: Sequence[FieldDescriptor], path: str) -> Check | None:
    """Check for written messages that every number fits the read field. None: every number always fits."""
    checks: list[Check] = []
    for field in read:
        before = written.fields_by_number.get(field.number)
        check = None if before is None else _field(before, field, inner(path, field.name))
        if check is not None:
            checks.append(check)
    if not checks:
        return None

    def narrowed(message: Any) -> None:
        for check in checks:
            check(message)

    return narrowed


def entry_of(field: FieldDescriptor) -> Descriptor | None:
    """Key and value of a map field."""
    kind = field.message_type
    return kind if kind is not None and kind.GetOptions().map_entry else None


def said(field: FieldDescriptor) -> str:
    kind = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()  # type: ignore[arg-type]
    return f"repeated {kind}" if field.is_repeated else kind


def _field(before: FieldDescriptor, after: FieldDescriptor, path: str) -> Check | None:
    """Check for all values of a field."""
    name, entries = before.name, (entry_of(before), entry_of(after))
    if entries[0] is not None and entries[1] is not None:
        return _map(entries[0], entries[1], name, path)
    check = _value(before, after, path)
    if check is None:
        return None

    def one(message: Any) -> None:
        if not before.has_presence or message.HasField(name):
            check(getattr(message, name))

    def many(message: Any) -> None:
        for value in getattr(message, name):
            check(value)

    return many if before.is_repeated else one


def _map(before: Descriptor, after: Descriptor, name: str, path: str) -> Check | None:
    key, value = (_value(before.fields_by_name[one], after.fields_by_name[one], path) for one in ("key", "value"))
    if key is None and value is None:
        return None

    def pairs(message: Any) -> None:
        for left, right in getattr(message, name).items():
            if key is not None:
                key(left)
            if value is not None:
                value(right)

    return pairs


def _value(before: FieldDescriptor, after: FieldDescriptor, path: str) -> Check | None:
    if before.message_type is not None and after.message_type is not None:
        return narrowing(before.message_type, after.message_type.fields, path)
    if before.type not in _RANGES or after.type not in _RANGES:
        return None
    (least, most), (low, high) = _RANGES[before.type], _RANGES[after.type]
    if low <= least and most <= high:
        return None
    holds = f"{said(after)} has the range {low} to {high}"

    def fits(value: int) -> None:
        if not low <= value <= high:
            raise OutOfRange(f"it is {int(value)}, but {holds}", path)

    return fits
