"""The interface of schema kinds: the columns of values, and the decoding of other versions into the same columns.

Each kind of schema implements it in its own file, and `select` chooses one. Two errors name a field: `Incompatible`
concerns two versions, before any value is decoded; `Unreadable` concerns one row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

from magnetar.base.errors import Corrupt, Misuse


class Kind(IntEnum):
    """Kinds of schemas with Pulsar's numbers and names."""

    BYTES = 0  # Pulsar's NONE: no type information
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


VALUE = "value"  # the only column of values without fields

# Converts values without nulls in a binary array to one array per column. KEY_VALUE: from structs of a message's key
# and value.
Decode = Callable[[Any], list[Any]]


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """One version of a topic's schema from the registry."""

    topic: str
    version: int
    kind: int  # one of Kind, or an unknown number
    data: bytes = b""
    properties: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: Any  # Arrow type


class ValueSchema(Protocol):
    columns: tuple[Column, ...]
    single: bool  # values have no fields: one column contains them

    def decoder(self, written: RegisteredSchema, names: Sequence[str]) -> Decode:
        """Decodes values of this written version into some of the columns. `Incompatible`: impossible."""
        ...


class Incompatible(Misuse):
    """A version cannot be read into the columns, regardless of its values."""

    def __init__(self, why: str, field: str = "") -> None:
        super().__init__(why)
        self.field = field


class Unreadable(Corrupt):
    """A value does not match its schema: the index of its row in the input."""

    def __init__(self, row: int, why: str, field: str = "") -> None:
        super().__init__(why)
        self.row = row
        self.field = field


def said(kind: int) -> str:
    """Pulsar's name of the kind."""
    return Kind(kind).name if kind in Kind.__members__.values() else str(kind)


def inner(path: str, name: str) -> str:
    """The path of a nested field: customer.address.street."""
    return f"{path}.{name}" if path else name
