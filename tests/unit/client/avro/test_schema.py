"""Values of every kind of class become Avro bytes and come back; a value that does not fit is refused by its field."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from enum import Enum
from typing import Any, ClassVar, TypedDict
from uuid import UUID

import fastavro
import msgspec
import pydantic
import pytest

from magnetar.base.errors import InvalidValue, Misuse
from magnetar.client.avro.schema import Avro
from magnetar.client.schema import Json
from magnetar.wire.proto import pb


class Colour(Enum):
    RED = 1
    BLUE = 2


@dataclass
class Inner:
    at: float


@dataclass
class Order:
    kinds: ClassVar[int] = 3
    id: int
    name: str
    paid: bool = False
    note: str | None = None
    tags: list[str] = field(default_factory=list)
    prices: dict[str, float] = field(default_factory=dict)
    inner: Inner | None = None
    colour: Colour = Colour.RED
    raw: bytes = b""
    sets: set[int] = field(default_factory=set)
    many: tuple[Inner, ...] = ()
    either: str | int | None = "x"


@dataclass
class Times:
    at: datetime
    day: date
    hour: time
    key: UUID


class Point(msgspec.Struct):
    x: int
    y: int | None = None


class Line(pydantic.BaseModel):
    sku: str
    count: int = 1


class Model(pydantic.BaseModel):
    id: int
    lines: list[Line] = []


class Typed(TypedDict):
    id: int


FULL = Order(
    1,
    "käse",
    paid=True,
    note="n",
    tags=["a"],
    prices={"eur": 1.5},
    inner=Inner(2),
    colour=Colour.BLUE,
    raw=b"\x00",
    sets={1, 2},
    many=(Inner(0.5),),
    either=7,
)


@pytest.mark.parametrize(
    "value",
    [
        FULL,
        Order(-(1 << 63), ""),
        Times(datetime(2026, 1, 2, 3, 4, 5, 6, UTC), date(2026, 1, 2), time(3, 4, 5, 6), UUID(int=7)),
        Point(1),
        Point((1 << 63) - 1, 2),
        Model(id=1, lines=[Line(sku="a")]),
    ],
)
def test_value_comes_back_as_its_class(value: Any):
    schema = Avro(type(value))
    assert schema.decode(schema.encode(value)) == value


def test_typed_dict_and_dict_with_definition_come_back():
    typed: Avro[Typed] = Avro(Typed)
    assert typed.decode(typed.encode({"id": 1})) == {"id": 1}
    definition = '{"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}'
    plain: Avro[dict[str, int]] = Avro(dict, definition=definition)
    assert plain.decode(plain.encode({"id": 1})) == {"id": 1}
    with pytest.raises(InvalidValue):
        plain.encode({"id": "text"})  # type: ignore[dict-item]
    with pytest.raises(InvalidValue):
        plain.encode({"other": 1})


def test_bytes_are_those_of_avro():
    schema = Avro(Order)
    info = schema.info()
    assert info is not None
    assert (info.type, info.name) == (pb.Schema.Avro, "Order")
    definition = json.loads(info.schema_data)
    read: Any = fastavro.schemaless_reader(io.BytesIO(schema.encode(FULL)), definition, None)
    assert (read["id"], read["name"], read["colour"], read["inner"]) == (1, "käse", "BLUE", {"at": 2.0})
    by_name = {one["name"]: one for one in definition["fields"]}
    assert "kinds" not in by_name
    assert by_name["paid"] == {"name": "paid", "type": "boolean", "default": False}
    assert by_name["note"] == {"name": "note", "type": ["null", "string"], "default": None}
    assert by_name["either"] == {"name": "either", "type": ["string", "null", "long"], "default": "x"}
    assert by_name["tags"]["default"] == []
    assert by_name["colour"]["type"]["symbols"] == ["RED", "BLUE"]


def test_times_are_logical_types():
    info = Avro(Times).info()
    assert info is not None
    found = {one["name"]: one["type"]["logicalType"] for one in json.loads(info.schema_data)["fields"]}
    assert found == {"at": "timestamp-micros", "day": "date", "hour": "time-micros", "key": "uuid"}


@pytest.mark.parametrize(
    ("value", "where", "expected", "got"),
    [
        (Order("1", ""), "id", "int", "str"),  # type: ignore[arg-type]
        (Order(True, ""), "id", "int", "bool"),
        (Order(1 << 63, ""), "id", "an int of 64 bits", "int"),
        (Order(1, ""), None, None, None),
        (Order(1, "", prices={"eur": "x"}), "prices.eur", "float", "str"),  # type: ignore[dict-item]
        (Order(1, "", tags=["a", 1]), "tags[1]", "str", "int"),  # type: ignore[list-item]
        (Order(1, "", inner=Inner("x")), "inner.at", "float", "str"),  # type: ignore[arg-type]
        (Order(1, "", inner=Point(1)), "inner", "Inner", "Point"),  # type: ignore[arg-type]
        (Order(1, "", colour="RED"), "colour", "Colour", "str"),  # type: ignore[arg-type]
        (Order(1, "", either=b""), "either", "str or int or None", "bytes"),  # type: ignore[arg-type]
        (Order(1, "", prices={1: 1.0}), "prices", "a key of type str", "int"),  # type: ignore[dict-item]
    ],
)
def test_misfit_is_refused_with_its_field(value: Order, where: str | None, expected: str | None, got: str | None):
    schema = Avro(Order)
    if where is None:
        schema.encode(value)
        return
    with pytest.raises(InvalidValue) as refused:
        schema.encode(value)
    facts = refused.value.facts
    assert (facts["field"], facts["expected"], facts["got"]) == (where, expected, got)


def test_time_without_zone_and_other_class_are_refused():
    schema = Avro(Times)
    with pytest.raises(InvalidValue, match="time zone"):
        schema.encode(Times(datetime(2026, 1, 1), date(2026, 1, 1), time(), UUID(int=1)))
    with pytest.raises(InvalidValue, match="expects Times, got int"):
        schema.encode(1)  # type: ignore[arg-type]


@dataclass
class Node:
    next: Node | None = None


def test_types_without_avro_form_are_refused():
    @dataclass
    class Pair:
        both: tuple[int, str]

    @dataclass
    class Ambiguous:
        which: Inner | dict[str, int]

    for kind, why in ((int, "use a dataclass"), (dict, "definition"), (Pair, "tuple"), (Ambiguous, "as one type")):
        with pytest.raises(Misuse, match=why):
            Avro(kind)
    with pytest.raises(Misuse, match="contains itself"):
        Avro(Node)
    with pytest.raises(Misuse, match="contains itself"):
        Avro(Node, definition='{"type": "record", "name": "N", "fields": [{"name": "next", "type": "int"}]}')
    with pytest.raises(Misuse, match="record or map"):
        Avro(Point, definition='"long"')
    with pytest.raises(Misuse, match="not valid"):
        Avro(Point, definition='{"type": "record", "name": "N", "fields": [{"name": "x", "type": "nothing"}]}')


def written(definition: Any) -> pb.Schema:
    return pb.Schema(name="S", schema_data=json.dumps(definition).encode(), type=pb.Schema.Avro)


def record(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": one, "type": kind} for one, kind in fields.items()]}


def encoded(definition: Any, value: Any) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(definition), value)
    return buffer.getvalue()


@dataclass
class Reader:
    id: int
    name: str = "absent"
    tags: list[str] = field(default_factory=list)


@pytest.mark.parametrize("name", ["Reader", "Other", "com.shop.Other"])
def test_value_of_other_writer_is_read_by_both_definitions(name: str):
    definition = record(name, more="string", id="int", tags={"type": "array", "items": "string"})
    decoder = Avro(Reader)._reading(written(definition))
    assert decoder.decode(encoded(definition, {"more": "x", "id": 5, "tags": ["a"]})) == Reader(5, tags=["a"])


def test_value_of_unfit_writer_fails_with_reason():
    schema = Avro(Reader)
    with pytest.raises(Misuse, match="type Json"):
        schema._reading(pb.Schema(name="S", schema_data=b"{}", type=pb.Schema.Json))
    definition = record("Reader", id="string")
    decoder = schema._reading(written(definition))
    with pytest.raises(Exception, match="string"):
        decoder.decode(encoded(definition, {"id": "x"}))
    with pytest.raises(ValueError, match="bytes follow the value"):
        schema.decode(schema.encode(Reader(1)) + b"\x00")


def test_json_takes_class_with_class_variable():
    schema = Json(Order)
    assert schema.decode(schema.encode(Order(1, "a"))) == Order(1, "a")


def test_missing_library_is_named_with_command():
    program = (
        "import sys; sys.modules['fastavro'] = None\n"
        "from dataclasses import dataclass\n"
        "import magnetar\n"
        "@dataclass\n"
        "class A:\n    n: int\n"
        "try:\n    magnetar.Avro(A)\nexcept magnetar.errors.Misuse as error:\n    print(error)\n"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() == "Avro needs the package fastavro: run pip install 'magnetar[avro]'"
