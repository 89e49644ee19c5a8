"""Selects the decoder of a registered schema by its kind, and decodes values of any version into the columns of one
version.

The table has the form of the version at the start of the query. Versions of another kind are rejected, except that JSON
and AVRO share their definitions: a topic may have changed from one to the other. A KEY_VALUE schema has two columns,
each with its own kind. A schema that cannot be a table (defined elsewhere) is rejected with an alternative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from magnetar.base.errors import Misuse
from magnetar.spark.values import primitives
from magnetar.spark.values.avro import Avro
from magnetar.spark.values.json_values import JsonValues
from magnetar.spark.values.keyvalue import KeyValue
from magnetar.spark.values.primitives import Primitive
from magnetar.spark.values.protobuf import Protobuf
from magnetar.spark.values.value_schema import Decode, Incompatible, Kind, RegisteredSchema, ValueSchema, said


def _key_value(schema: RegisteredSchema) -> ValueSchema:
    return KeyValue(schema, _form, decoder)


_PRIMITIVE: Callable[[RegisteredSchema], ValueSchema] = Primitive
_FORMS: dict[int, Callable[[RegisteredSchema], ValueSchema]] = {
    Kind.AVRO: Avro,
    Kind.JSON: JsonValues,
    Kind.PROTOBUF: Protobuf,
    Kind.PROTOBUF_NATIVE: Protobuf,
    Kind.KEY_VALUE: _key_value,
    **dict.fromkeys(primitives.KINDS, _PRIMITIVE),
}
_DEFINED = (Kind.AVRO, Kind.JSON)


def form(schema: RegisteredSchema) -> ValueSchema:
    """The columns of a topic. `Misuse` explains why the schema has none, and the alternative."""
    try:
        return _form(schema)
    except Misuse as error:
        raise Misuse(f"option schema: {error.what}", topic=schema.topic, version=schema.version) from None


def _form(schema: RegisteredSchema) -> ValueSchema:
    constructor = _FORMS.get(schema.kind)
    if constructor is None:
        raise Misuse(
            f"schemas of kind {said(schema.kind)} are not supported: remove schema=registry and decode the "
            "bytes of value in the query"
        )
    value_schema = constructor(schema)
    if not value_schema.columns:
        raise Misuse("the registered record has no fields: remove schema=registry")
    return value_schema


def decoder(table: RegisteredSchema, written: RegisteredSchema, names: Sequence[str]) -> Decode:
    """Decodes values of one version into columns of the other. `Incompatible`: no value of it can be read."""
    constructor, target = _FORMS.get(written.kind), form(table)
    if constructor is _FORMS[table.kind]:
        return target.decoder(written, names)
    if written.kind in _DEFINED and table.kind in _DEFINED:
        source = form(replace(table, kind=written.kind))
        types = {one.name: one.type for one in source.columns}
        other = [one.name for one in target.columns if one.name in names and types[one.name] != one.type]
        if not other:
            return source.decoder(written, names)
        raise Incompatible(
            f"it is {said(written.kind)} and the table is {said(table.kind)}, which differ in its type", other[0]
        )
    raise Incompatible(f"it is {said(written.kind)} and the table is {said(table.kind)}")
