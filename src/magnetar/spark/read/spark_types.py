"""The columns of the source as Spark types, and the columns that a schema requests.

Spark rejects Arrow types that differ from the schema, but late and with an unclear error. This module rejects an
impossible schema early, by the name of the column. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from magnetar.base.errors import Misuse

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

KINDS = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "publish_time": "timestamp",
    "event_time": "timestamp",
    "properties": "map<string,string>",
    "sequence_id": "bigint",
    "producer_name": "string",
    "__segment": "bigint",
    "__position": "string",
    "__order": "binary",
    "__key_hash": "int",
    "__schema_version": "bigint",
}


def ddl(names: Sequence[str]) -> str:
    """The schema of these columns in Spark's text form."""
    for name in names:
        if name not in KINDS:
            raise Misuse(f"option columns: unknown column {name}: expected some of {', '.join(KINDS)}")
    return ", ".join(f"`{name}` {KINDS[name]}" for name in names)


def columns(schema: StructType) -> tuple[str, ...]:
    """The columns of a schema, which may be the user's."""
    for field in schema.fields:
        kind = KINDS.get(field.name)
        if kind is None:
            raise Misuse(
                f"unknown column {field.name}: expected some of {', '.join(KINDS)}; omit .schema() or choose from "
                "these columns"
            )
        if field.dataType.simpleString() != kind:
            raise Misuse(
                f"column {field.name} must be {kind}, not {field.dataType.simpleString()}: cast it after load()"
            )
    if not schema.fields:
        raise Misuse("the schema must have at least one column", columns=", ".join(KINDS))
    return tuple(field.name for field in schema.fields)


def struct_type(columns: Iterable[tuple[str, Any]]) -> StructType:
    """From names and Arrow types. A message column needs only its name."""
    from pyspark.sql.types import StructField, StructType

    return StructType(
        [StructField(name, _plain(KINDS[name]) if kind is None else _type(kind)) for name, kind in columns]
    )


def _plain(word: str) -> DataType:
    from pyspark.sql import types as spark

    kinds: dict[str, DataType] = {
        "binary": spark.BinaryType(),
        "string": spark.StringType(),
        "timestamp": spark.TimestampType(),
        "bigint": spark.LongType(),
        "int": spark.IntegerType(),
        "map<string,string>": spark.MapType(spark.StringType(), spark.StringType()),
    }
    return kinds[word]


def _type(kind: Any) -> DataType:
    """The type that PySpark expects for this Arrow type."""
    from pyspark.sql.pandas.types import from_arrow_type

    return from_arrow_type(kind, prefer_timestamp_ntz=True)
