"""PROTOBUF and PROTOBUF_NATIVE values as columns: messages are parsed with the registered descriptor, and columns are
built from them.

By Protobuf's rules, the newest descriptor reads messages of every version: an added field has its default (null if the
field tracks presence), a removed field is skipped. Two versions that give one number another type, or one name another
number, are `Incompatible`. Types with the same encoding can be read as each other, as Protobuf allows. But Protobuf
truncates a number outside the range of the newer type, and this module raises `Unreadable`. A PROTOBUF schema registers
only the numbers and types of a message's own fields: nested messages stay bytes and enums stay numbers.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from magnetar.base.errors import Misuse
from magnetar.base.limits import SPARK_SCHEMA_NODES_MAX
from magnetar.spark.values.protobuf_diagnosis import ParseError, fault
from magnetar.spark.values.protobuf_range_check import Check, OutOfRange, entry_of, narrowing, said
from magnetar.spark.values.value_schema import Column, Decode, Incompatible, Kind, RegisteredSchema, Unreadable, inner

PARSING_INFO = "__PARSING_INFO__"

_F = FieldDescriptor
_TYPES: dict[int, Any] = {
    _F.TYPE_DOUBLE: pa.float64(),
    _F.TYPE_FLOAT: pa.float32(),
    _F.TYPE_INT64: pa.int64(),
    _F.TYPE_SINT64: pa.int64(),
    _F.TYPE_SFIXED64: pa.int64(),
    _F.TYPE_UINT64: pa.decimal128(20, 0),  # Spark has no unsigned numbers
    _F.TYPE_FIXED64: pa.decimal128(20, 0),
    _F.TYPE_INT32: pa.int32(),
    _F.TYPE_SINT32: pa.int32(),
    _F.TYPE_SFIXED32: pa.int32(),
    _F.TYPE_UINT32: pa.int64(),
    _F.TYPE_FIXED32: pa.int64(),
    _F.TYPE_BOOL: pa.bool_(),
    _F.TYPE_STRING: pa.string(),
    _F.TYPE_BYTES: pa.binary(),
    _F.TYPE_ENUM: pa.string(),
}
# Types with the same encoding, which can be read as each other.
_ALIKE = [
    {_F.TYPE_INT32, _F.TYPE_INT64, _F.TYPE_UINT32, _F.TYPE_UINT64, _F.TYPE_BOOL, _F.TYPE_ENUM},
    {_F.TYPE_SINT32, _F.TYPE_SINT64},
    {_F.TYPE_FIXED32, _F.TYPE_SFIXED32},
    {_F.TYPE_FIXED64, _F.TYPE_SFIXED64},
    {_F.TYPE_STRING, _F.TYPE_BYTES},
]
_WRONG = (ValueError, TypeError, KeyError, DecodeError)

Build = Callable[[list[Any]], Any]  # a column from the fields of messages; `OutOfRange`: a value does not fit


class Protobuf:
    single = False

    def __init__(self, schema: RegisteredSchema) -> None:
        self._schema = schema
        self._read = _descriptor(schema)
        if not self._read.fields:
            raise Misuse("the registered message must have fields", message=self._read.full_name)
        _check_size(self._read)
        self.columns = tuple(Column(one.name, _type(one, one.name, (self._read,))) for one in self._read.fields)

    def decoder(self, written: RegisteredSchema, names: Sequence[str]) -> Decode:
        fields = [self._read.fields_by_name[name] for name in names]
        narrowed = None
        if written.data != self._schema.data or written.properties != self._schema.properties:
            before = _descriptor(written)
            _check(before, self._read, "")
            narrowed = narrowing(before, fields, "")
        builds = [_build(one, one.name) for one in fields]

        def decode(values: Any) -> list[Any]:
            payloads = values.to_pylist()
            if narrowed is not None:
                _each(narrowed, _parsed(before, payloads))
            return _columns(builds, _parsed(self._read, payloads))

        return decode


def _descriptor(schema: RegisteredSchema) -> Descriptor:
    try:
        if schema.kind == Kind.PROTOBUF_NATIVE:
            return _native(json.loads(schema.data))
        return _told(dict(schema.properties)[PARSING_INFO])
    except _WRONG as error:
        raise Misuse(f"the registered descriptor is invalid: {type(error).__name__} {str(error)[:200]}") from None


def _native(document: Any) -> Descriptor:
    files = {one.name: one for one in FileDescriptorSet.FromString(b64decode(document["fileDescriptorSet"])).file}
    pool = DescriptorPool()
    added: set[str] = set()

    def add(name: str, above: frozenset[str]) -> None:
        if name in above:
            raise ValueError(f"{name} imports itself")
        if name not in added:
            for dependency in files[name].dependency:
                add(dependency, above | {name})
            pool.AddSerializedFile(files[name].SerializeToString())
            added.add(name)

    add(document["rootFileDescriptorName"], frozenset())
    return pool.FindMessageTypeByName(document["rootMessageTypeName"])


def _told(text: str) -> Descriptor:
    """From the numbers, names and types that the Java client stores with a PROTOBUF schema."""
    message = DescriptorProto(name="Value")
    for entry in json.loads(text):
        kind = {"MESSAGE": "BYTES", "ENUM": "INT32"}.get(entry["type"], entry["type"])
        message.field.add(
            name=entry["name"],
            number=entry["number"],
            type=FieldDescriptorProto.Type.Value(f"TYPE_{kind}"),
            label=FieldDescriptorProto.Label.Value(
                "LABEL_REPEATED" if entry["label"] == "LABEL_REPEATED" else "LABEL_OPTIONAL"
            ),
        )
    file = FileDescriptorProto(name="value.proto", package="told", syntax="proto3", message_type=[message])
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool.FindMessageTypeByName("told.Value")


def _type(field: FieldDescriptor, path: str, above: tuple[Descriptor, ...]) -> Any:
    kind, entry = field.message_type, entry_of(field)
    if entry is not None:
        key, value = (_type(entry.fields_by_name[name], path, above) for name in ("key", "value"))
        return pa.map_(key, value)
    if kind is None:
        type = _TYPES[field.type]
    elif kind in above:
        raise Misuse(
            f"the registered message cannot be a table: field {path} contains itself ({kind.full_name}), which "
            "no column supports: read the topic without schema=registry"
        )
    else:
        type = pa.struct([pa.field(one.name, _type(one, inner(path, one.name), (*above, kind))) for one in kind.fields])
    return pa.list_(pa.field("element", type)) if field.is_repeated else type


def _check_size(root: Descriptor) -> None:
    """Nested fields count as often as they become columns. `_type` rejects a recursive message."""
    sizes: dict[str, int] = {}

    def size(kind: Descriptor) -> int:
        if kind.full_name not in sizes:
            sizes[kind.full_name] = 0
            sizes[kind.full_name] = sum(
                1 + (0 if one.message_type is None else size(one.message_type)) for one in kind.fields
            )
        return sizes[kind.full_name]

    if size(root) > SPARK_SCHEMA_NODES_MAX:
        raise Misuse("the registered message has too many fields", fields_max=SPARK_SCHEMA_NODES_MAX)


def _check(written: Descriptor, read: Descriptor, path: str) -> None:
    for read_field in read.fields:
        field = inner(path, read_field.name)
        before = written.fields_by_number.get(read_field.number)
        named = written.fields_by_name.get(read_field.name)
        if named is not None and named.number != read_field.number:
            raise Incompatible(
                f"its number is {named.number} in the message and {read_field.number} in the table", field
            )
        if before is None:
            continue
        if before.is_repeated != read_field.is_repeated or not _alike(before.type, read_field.type):
            raise Incompatible(f"{said(before)} cannot be read as {said(read_field)}", field)
        if read_field.message_type is not None and before.message_type is not None:
            _check(before.message_type, read_field.message_type, field)


def _alike(left: int, right: int) -> bool:
    return left == right or any(left in kinds and right in kinds for kinds in _ALIKE)


def _parsed(kind: Descriptor, values: list[bytes]) -> list[Any]:
    parse = GetMessageClass(kind).FromString
    try:
        return [parse(value) for value in values]
    except DecodeError:
        for row, value in enumerate(values):
            try:
                parse(value)
            except DecodeError:
                error = fault(kind, value) or ParseError(f"it must be a message {kind.full_name}")
                raise Unreadable(row, error.why, error.field) from None
        raise


def _each(check: Check, messages: list[Any]) -> None:
    for row, message in enumerate(messages):
        try:
            check(message)
        except OutOfRange as error:
            raise Unreadable(row, error.why, error.field) from None


def _columns(builds: list[Build], messages: list[Any]) -> list[Any]:
    try:
        return [build(messages) for build in builds]
    except OutOfRange:
        for build in builds:
            _each(lambda message, build=build: build([message]), messages)  # type: ignore[misc]
        raise


def _build(field: FieldDescriptor, path: str) -> Build:
    """From messages, some of which may be None: then their fields are null too."""
    name, convert = field.name, _made(field, path)
    if not field.is_repeated and field.has_presence and not field.has_default_value:
        return lambda messages: convert(
            [getattr(one, name) if one is not None and one.HasField(name) else None for one in messages]
        )
    return lambda messages: convert([None if one is None else getattr(one, name) for one in messages])


def _made(field: FieldDescriptor, path: str) -> Build:
    entry = entry_of(field)
    if entry is not None:
        return _map(entry, _type(field, field.name, ()), path)
    convert = _single(field, path)
    if not field.is_repeated:
        return convert
    kind = _type(field, field.name, ())
    return lambda lists: pa.ListArray.from_arrays(_offsets(lists), convert(_flat(lists)), type=kind)


def _single(field: FieldDescriptor, path: str) -> Build:
    """From single values."""
    kind = field.message_type
    if kind is None:
        type = _TYPES[field.type]
        if field.enum_type is not None:
            names = {number: one.name for number, one in field.enum_type.values_by_number.items()}
            return lambda values: pa.array([None if one is None else names.get(one, str(one)) for one in values], type)

        def held(values: list[Any]) -> Any:
            try:
                return pa.array(values, type)
            except (pa.ArrowException, OverflowError) as error:
                raise OutOfRange(f"it is outside the range of the column: {error}", path) from None

        return held
    builds = [_build(one, inner(path, one.name)) for one in kind.fields]
    fields = [pa.field(one.name, _type(one, one.name, ())) for one in kind.fields]

    def messages(values: list[Any]) -> Any:
        if not builds:
            return pa.array([None if one is None else {} for one in values], pa.struct([]))
        absent = pa.array([one is None for one in values], pa.bool_())
        return pa.StructArray.from_arrays([build(values) for build in builds], fields=fields, mask=absent)

    return messages


def _map(entry: Descriptor, kind: Any, path: str) -> Build:
    key, value = (_single(entry.fields_by_name[name], path) for name in ("key", "value"))

    def mapped(maps: list[Any]) -> Any:
        try:
            pairs = [pair for one in maps if one is not None for pair in one.items()]
        except UnicodeDecodeError as error:
            raise OutOfRange(f"it must be text in UTF-8: {error.reason}", path) from None
        return pa.MapArray.from_arrays(
            _offsets(maps), key([name for name, _ in pairs]), value([one for _, one in pairs]), kind
        )

    return mapped


def _flat(lists: list[Any]) -> list[Any]:
    return list(chain.from_iterable(one for one in lists if one is not None))


def _offsets(lists: list[Any]) -> Any:
    """The start of each message's items; a null list has none and is marked as null."""
    ends = np.cumsum([0, *(0 if one is None else len(one) for one in lists)])
    return pa.array(ends.astype(np.int32), mask=np.array([*(one is None for one in lists), False]))
