"""What a registered schema makes of values: the columns they become, and how values that were written with another
version of it are read into the same columns.

The contract; each kind of schema keeps it in a file of its own, and `select` finds it. Two ways of failing, both of
which name a field: `Incompatible` is about two versions, before any value is looked at; `Unreadable` is about one row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

from magnetar.base.errors import Corrupt, Misuse


class Kind(IntEnum):
    """Of schemas, as Pulsar counts and names them."""

    BYTES = 0  # Pulsar's NONE: nothing is said of them
    STRING = 1
    JSON = 2
    PROTOBUF = 3
    AVRO = 4
    BOOLEAN = 5
    INT8 = 6
    INT16 = 7
    INT32 = 8
    INT64 = 9
    FLOAT = 10
    DOUBLE = 11
    DATE = 12
    TIME = 13
    TIMESTAMP = 14
    KEY_VALUE = 15
    INSTANT = 16
    LOCAL_DATE = 17
    LOCAL_TIME = 18
    LOCAL_DATE_TIME = 19
    PROTOBUF_NATIVE = 20
    AUTO_CONSUME = 21
    EXTERNAL = 22


VALUE = "value"  # the one column of values that have no fields

# Values without nulls as a binary array, to an array for each column. KEY_VALUE: structs of a message's key and value.
Decode = Callable[[Any], list[Any]]


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """One version of a topic's schema, as the registry tells it."""

    topic: str
    version: int
    kind: int  # one of Kind, or one that is not known yet
    data: bytes = b""
    properties: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: Any  # of Arrow


class ValueSchema(Protocol):
    columns: tuple[Column, ...]
    single: bool  # values have no fields: the one column is all of them

    def decoder(self, written: RegisteredSchema, names: Sequence[str]) -> Decode:
        """Of values that were written with this version, into some of the columns. `Incompatible`: it cannot be."""
        ...


class Incompatible(Misuse):
    """A version cannot be read into the columns, whatever its values are."""

    def __init__(self, why: str, field: str = "") -> None:
        super().__init__(why)
        self.field = field


class Unreadable(Corrupt):
    """A value is not what its schema says: the index of its row among those that were given."""

    def __init__(self, row: int, why: str, field: str = "") -> None:
        super().__init__(why)
        self.row = row
        self.field = field


def said(kind: int) -> str:
    """As Pulsar calls it."""
    return Kind(kind).name if kind in Kind.__members__.values() else str(kind)


def inner(path: str, name: str) -> str:
    """A field's name as people write it: customer.address.street."""
    return f"{path}.{name}" if path else name
