"""What a query with schema=registry reads: columns of messages, and in the place of `value` the columns that the
topic's schema gives it.

The table is fixed when the query begins, by the version of the schema that was the newest then, and travels to the
tasks with the plan. A name that messages and values both have is refused, not guessed at. Decides only: whoever calls
brings the schema.
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
    names: tuple[str, ...]  # of its columns, in their order
    fields: tuple[str, ...]  # those of the value

    @property
    def of_messages(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if name not in self.fields)

    @property
    def needed(self) -> tuple[str, ...]:
        """The columns of messages that it is made of."""
        keyed = [KEY] if self.keyed else []
        return tuple(dict.fromkeys([*self.of_messages, *keyed, VALUE, VERSION, ORDER]))

    @property
    def keyed(self) -> bool:
        """Is a value made of the message's key too?"""
        return self.schema.kind == Kind.KEY_VALUE


def table_type(schema: RegisteredSchema, asked: Sequence[str]) -> StructType:
    """The columns that were asked for in Spark's words: where `value` was, what it holds."""
    found = _fields(schema)
    others = [name for name in asked if name != VALUE]
    lower = {name.lower() for name in found}  # Spark takes names that differ in case for one
    for name in others:
        if name not in KINDS:
            raise Misuse(f"option columns: there is no column {name}: columns are {', '.join(KINDS)}")
        if name in lower:
            raise Misuse(
                f"option schema: the values have a field {name} and the messages a column of that name: leave the "
                "message's out by option columns, which must name value",
                topic=schema.topic,
                version=schema.version,
            )
    made: list[tuple[str, Any]] = []
    for name in asked:
        made += [(one.name, one.type) for one in found.values()] if name == VALUE else [(name, None)]
    return struct_type(made)


def table(given: StructType, schema: RegisteredSchema, asked: Sequence[str]) -> ValueTable:
    """Of the columns that Spark reads, which may be the user's: a name that was asked for as a column of messages is
    one, any other is a field first.
    """
    found = _fields(schema)
    others = {name for name in asked if name != VALUE}
    fields: list[str] = []
    for one in given.fields:
        column = None if one.name in others else found.get(one.name)
        if column is None and (one.name == VALUE or one.name not in KINDS):
            raise Misuse(
                f"there is no column {one.name}: the fields of the values are {', '.join(found)}, columns of messages "
                f"are {', '.join(KINDS)}",
                topic=schema.topic,
                version=schema.version,
            )
        if column is not None:
            fields.append(column.name)
        _same(one, column, schema)
    if not given.fields:
        raise Misuse("a schema names at least one column", fields=", ".join(found))
    return ValueTable(schema, tuple(one.name for one in given.fields), tuple(fields))


def _fields(schema: RegisteredSchema) -> dict[str, Column]:
    from magnetar.spark.values.select import form  # here, because a table is also sent to who has no need of Arrow

    return {one.name: one for one in form(schema).columns}


def _same(given: Any, column: Column | None, schema: RegisteredSchema) -> None:
    due = struct_type([(given.name, None if column is None else column.type)]).fields[0].dataType.simpleString()
    if given.dataType.simpleString() != due:
        raise Misuse(
            f"column {given.name} is {due}, not {given.dataType.simpleString()}: cast it after load(), or leave "
            ".schema() out",
            topic=schema.topic,
            version=schema.version,
        )
