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


def table_type(schema: RegisteredSchema, asked: Sequence[str]) -> StructType:
    """The requested columns as Spark types, with the columns of the value in place of `value`."""
    found = _fields(schema)
    others = [name for name in asked if name != VALUE]
    lower = {name.lower() for name in found}  # Spark compares names without case
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
    made: list[tuple[str, Any]] = []
    for name in asked:
        made += [(one.name, one.type) for one in found.values()] if name == VALUE else [(name, None)]
    return struct_type(made)


def table(given: StructType, schema: RegisteredSchema, asked: Sequence[str]) -> ValueTable:
    """The table for the columns that Spark reads, which may be the user's schema. A name that was requested as a
    message column is one; any other name is a field first.
    """
    found = _fields(schema)
    others = {name for name in asked if name != VALUE}
    fields: list[str] = []
    for one in given.fields:
        column = None if one.name in others else found.get(one.name)
        if column is None and (one.name == VALUE or one.name not in KINDS):
            raise Misuse(
                f"unknown column {one.name}: the fields of the values are {', '.join(found)}, the columns of "
                f"messages are {', '.join(KINDS)}",
                topic=schema.topic,
                version=schema.version,
            )
        if column is not None:
            fields.append(column.name)
        _same(one, column, schema)
    if not given.fields:
        raise Misuse("the schema must have at least one column", fields=", ".join(found))
    return ValueTable(schema, tuple(one.name for one in given.fields), tuple(fields))


def _fields(schema: RegisteredSchema) -> dict[str, Column]:
    # imported here, because a table is also sent to processes that do not need Arrow
    from magnetar.spark.values.select import form

    return {one.name: one for one in form(schema).columns}


def _same(given: Any, column: Column | None, schema: RegisteredSchema) -> None:
    due = struct_type([(given.name, None if column is None else column.type)]).fields[0].dataType.simpleString()
    if given.dataType.simpleString() != due:
        raise Misuse(
            f"column {given.name} must be {due}, not {given.dataType.simpleString()}: cast it after load(), or "
            "omit .schema()",
            topic=schema.topic,
            version=schema.version,
        )
