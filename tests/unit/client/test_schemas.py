"""Values go through a schema and come back; what the broker is told is what stock clients tell it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import Enum

import msgspec
import pydantic
import pytest

from magnetar.base.errors import Misuse
from magnetar.client.schemas import BYTES, STRING, Json
from magnetar.wire.proto import pb


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Inner:
    at: float


@dataclass
class Order:
    id: int
    name: str
    paid: bool = False
    note: str | None = None
    tags: list[str] = field(default_factory=list)
    prices: dict[str, float] = field(default_factory=dict)
    inner: Inner | None = None
    colour: Colour = Colour.RED


class Point(msgspec.Struct):
    x: int
    y: int | None = None


class Line(pydantic.BaseModel):
    sku: str
    count: int = 1


class Model(pydantic.BaseModel):
    id: int
    lines: list[Line] = []
    note: str | None = None


def test_bytes_are_bytes_and_the_broker_is_told_nothing():
    assert BYTES.encode(b"x") == b"x"
    assert BYTES.encode(bytearray(b"x")) == b"x"  # type: ignore[arg-type]
    assert BYTES.decode(b"x") == b"x"
    assert BYTES.info() is None
    with pytest.raises(Misuse):
        BYTES.encode("text")  # type: ignore[arg-type]


def test_text_is_utf8():
    assert STRING.decode(STRING.encode("käse")) == "käse"
    info = STRING.info()
    assert info is not None
    assert info.type == pb.Schema.String


@pytest.mark.parametrize(
    "value",
    [
        Order(1, "a", note="n", tags=["x"], prices={"eur": 1.5}, inner=Inner(2.5), colour=Colour.BLUE),
        Point(1),
        {"any": "mapping"},
    ],
)
def test_values_of_users_classes_come_back(value):
    schema = Json(type(value))
    assert schema.decode(schema.encode(value)) == value


def test_pydantic_models_encode_and_check_themselves():
    schema = Json(Model)
    value = Model(id=7, lines=[Line(sku="a", count=2), Line(sku="b")], note="ü")
    assert schema.decode(schema.encode(value)) == value
    with pytest.raises(pydantic.ValidationError):
        schema.decode(b'{"id": "seven"}')
    info = schema.info()
    assert info is not None
    fields = {item["name"]: item["type"] for item in json.loads(info.schema_data)["fields"]}
    assert (fields["id"], fields["note"]) == ("long", ["null", "string"])
    assert (fields["lines"]["type"], fields["lines"]["items"]["name"]) == ("array", "Line")
    assert fields["lines"]["items"]["fields"][0] == {"name": "sku", "type": "string"}


def test_a_class_is_told_as_an_avro_record():
    info = Json(Order).info()
    assert info is not None
    assert (info.name, info.type) == ("Order", pb.Schema.Json)
    definition = json.loads(info.schema_data)
    assert (definition["type"], definition["name"]) == ("record", "Order")
    inner = {"type": "record", "name": "Inner", "fields": [{"name": "at", "type": "double"}]}
    assert {item["name"]: item["type"] for item in definition["fields"]} == {
        "id": "long",
        "name": "string",
        "paid": "boolean",
        "note": ["null", "string"],
        "tags": {"type": "array", "items": "string"},
        "prices": {"type": "map", "values": "double"},
        "inner": ["null", inner],
        "colour": {"type": "enum", "name": "Colour", "symbols": ["red", "blue"]},
    }
    assert definition["fields"][3]["default"] is None


def test_a_definition_of_ones_own_is_told_as_it_is():
    info = Json(dict, definition='{"type": "map", "values": "string"}').info()
    assert info is not None
    assert info.schema_data == b'{"type": "map", "values": "string"}'


def test_a_field_nobody_can_describe_is_named():
    @dataclass
    class Odd:
        what: complex

    with pytest.raises(Misuse, match=r"Odd\.what"):
        Json(Odd).info()
