"""The columns of the source in Spark's words: their types, and which of them a schema asks for.

Spark refuses Arrow whose types are not exactly those of the schema, and says so late and darkly; a schema that cannot
be is refused here, by the name of the column. Decides only.
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
    """The schema of these columns, as Spark's own text."""
    for name in names:
        if name not in KINDS:
            raise Misuse(f"option columns: there is no column {name}: columns are {', '.join(KINDS)}")
    return ", ".join(f"`{name}` {KINDS[name]}" for name in names)


def columns(schema: StructType) -> tuple[str, ...]:
    """Those of a schema, which may be the user's."""
    for one in schema.fields:
        kind = KINDS.get(one.name)
        if kind is None:
            raise Misuse(
                f"there is no column {one.name}: columns are {', '.join(KINDS)}; leave .schema() out, or name some of "
                "them"
            )
        if one.dataType.simpleString() != kind:
            raise Misuse(f"column {one.name} is {kind}, not {one.dataType.simpleString()}: cast it after load()")
    if not schema.fields:
        raise Misuse("a schema names at least one column", columns=", ".join(KINDS))
    return tuple(one.name for one in schema.fields)


def struct_type(columns: Iterable[tuple[str, Any]]) -> StructType:
    """Of names and Arrow types; a column of messages says its name alone."""
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
    """As PySpark takes it for this type of Arrow, and for no other."""
    from pyspark.sql.pandas.types import from_arrow_type

    return from_arrow_type(kind, prefer_timestamp_ntz=True)
