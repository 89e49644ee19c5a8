"""Values go through a schema and come back; what the broker is told is what stock clients tell it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import Enum
from typing import TypedDict

import msgspec
import pydantic
import pytest

from magnetar.base.errors import InvalidValue, Misuse
from magnetar.client.schema import BYTES, STRING, Json
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


def test_bytes_are_bytes_and_broker_is_told_nothing():
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


def test_class_is_told_as_avro_record():
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


def test_definition_of_ones_own_is_told_as_it_is():
    info = Json(dict, definition='{"type": "map", "values": "string"}').info()
    assert info is not None
    assert info.schema_data == b'{"type": "map", "values": "string"}'


def test_field_nobody_can_describe_is_named():
    @dataclass
    class Odd:
        what: complex

    with pytest.raises(Misuse, match=r"Odd\.what"):
        Json(Odd).info()


class Typed(TypedDict):
    id: int
    name: str


class Plain:
    pass


@pytest.mark.parametrize("kind", [int, str, list[int], Plain])
def test_type_without_fields_is_refused_as_json(kind):
    with pytest.raises(Misuse, match=r"Json|no Avro type"):
        Json(kind)


def test_type_without_fields_is_taken_with_definition():
    schema = Json(int, definition='{"type": "long"}')
    assert schema.decode(schema.encode(7)) == 7
    with pytest.raises(InvalidValue):
        schema.encode("seven")  # type: ignore[arg-type]


def test_typed_dict_is_record_and_its_fields_are_checked():
    schema = Json(Typed)
    assert json.loads(schema.info().schema_data)["fields"][0] == {"name": "id", "type": "long"}
    assert schema.decode(schema.encode({"id": 1, "name": "a"})) == {"id": 1, "name": "a"}
    with pytest.raises(InvalidValue, match="field id must be int, got str"):
        schema.encode({"id": "1", "name": "a"})  # type: ignore[typeddict-item]


@pytest.mark.parametrize(
    ("schema", "value", "facts"),
    [
        (Json(Order), Inner(1.0), {"expected": "Order", "got": "Inner"}),
        (Json(Order), Order("x", "a"), {"field": "id", "expected": "int", "got": "str"}),  # type: ignore[arg-type]
        (
            Json(Order),
            Order(1, "a", inner=Inner("soon")),  # type: ignore[arg-type]
            {"field": "inner.at", "expected": "float", "got": "str"},
        ),
        (Json(Point), Point(None), {"field": "x", "expected": "int", "got": "null"}),  # type: ignore[arg-type]
        (
            Json(Model),
            Model.model_construct(id="seven"),
            {"field": "id", "expected": "int_parsing", "got": "str"},
        ),
        (STRING, 7, {"expected": "str", "got": "int"}),
    ],
)
def test_value_that_does_not_fit_is_refused_by_field(schema, value, facts):
    with pytest.raises(InvalidValue) as caught:
        schema.encode(value)
    assert caught.value.facts == facts
    assert isinstance(caught.value, Misuse)


def test_value_that_no_library_encodes_is_refused():
    with pytest.raises(InvalidValue, match="does not fit Order"):
        Json(Order).encode(Order(1, Plain()))  # type: ignore[arg-type]


def test_unchecked_fields_are_sent_as_they_are():
    assert Json(Order, check=False).encode(Order("x", "a")).startswith(b'{"id":"x"')  # type: ignore[arg-type]
    with pytest.raises(InvalidValue):
        Json(Order, check=False).encode(Inner(1.0))  # type: ignore[arg-type]
