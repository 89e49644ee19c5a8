"""The table of a query with schema=registry: message columns, and the columns of the topic's schema in place of
`value`.

The schema version that is newest at the start of the query determines the table. The table is sent to the tasks with
the plan. A name that occurs in both messages and values is rejected. Pure: the caller supplies the schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from magnetar.base.errors import Misuse
from magnetar.spark.read.spark_types import KINDS, struct_type
from magnetar.spark.values.value_schema import VALUE, Column, Kind, RegisteredSchema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

KEY, VERSION, ORDER = "key", "__schema_version", "__order"


@dataclass(frozen=True, slots=True)
class ValueTable:
    schema: RegisteredSchema
    names: tuple[str, ...]  # its columns in order
    fields: tuple[str, ...]  # the columns from the value

    @property
    def of_messages(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if name not in self.fields)

    @property
    def needed(self) -> tuple[str, ...]:
        """The message columns that it requires."""
        keyed = [KEY] if self.keyed else []
        return tuple(dict.fromkeys([*self.of_messages, *keyed, VALUE, VERSION, ORDER]))

    @property
    def keyed(self) -> bool:
        """Whether values also use the message's key."""
        return self.schema.kind == Kind.KEY_VALUE


def table_type(schema: RegisteredSchema, columns: Sequence[str]) -> StructType:
    """The requested columns as Spark types, with the columns of the value in place of `value`."""
    available = _fields(schema)
    others = [name for name in columns if name != VALUE]
    lower = {name.lower() for name in available}  # Spark compares names without case
    for name in others:
        if name not in KINDS:
            raise Misuse(f"option columns: unknown column {name}: expected some of {', '.join(KINDS)}")
        if name in lower:
            raise Misuse(
                f"option schema: both the values and the messages have a field {name}: omit the message's in "
                "option columns, which must include value",
                topic=schema.topic,
                version=schema.version,
            )
    pairs: list[tuple[str, Any]] = []
    for name in columns:
        pairs += [(one.name, one.type) for one in available.values()] if name == VALUE else [(name, None)]
    return struct_type(pairs)


def table(row_type: StructType, schema: RegisteredSchema, columns: Sequence[str]) -> ValueTable:
    """The table for the columns that Spark reads, which may be the user's schema. A name that was requested as a
    message column is one; any other name is a field first.
    """
    available = _fields(schema)
    others = {name for name in columns if name != VALUE}
    fields: list[str] = []
    for field in row_type.fields:
        column = None if field.name in others else available.get(field.name)
        if column is None and (field.name == VALUE or field.name not in KINDS):
            raise Misuse(
                f"unknown column {field.name}: the fields of the values are {', '.join(available)}, the columns of "
                f"messages are {', '.join(KINDS)}",
                topic=schema.topic,
                version=schema.version,
            )
        if column is not None:
            fields.append(column.name)
        _same(field, column, schema)
    if not row_type.fields:
        raise Misuse("the schema must have at least one column", fields=", ".join(available))
    return ValueTable(schema, tuple(field.name for field in row_type.fields), tuple(fields))


def _fields(schema: RegisteredSchema) -> dict[str, Column]:
    # imported here, because a table is also sent to processes that do not need Arrow
    from magnetar.spark.values.select import form

    return {one.name: one for one in form(schema).columns}


def _same(actual: Any, column: Column | None, schema: RegisteredSchema) -> None:
    due = struct_type([(actual.name, None if column is None else column.type)]).fields[0].dataType.simpleString()
    if actual.dataType.simpleString() != due:
        raise Misuse(
            f"column {actual.name} must be {due}, not {actual.dataType.simpleString()}: cast it after load(), or "
            "omit .schema()",
            topic=schema.topic,
            version=schema.version,
        )
