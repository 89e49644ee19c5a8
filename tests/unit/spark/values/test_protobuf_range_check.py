"""Numbers that were written as a type that held more of them: those that fit are read, others told by their field."""

from __future__ import annotations

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto

from magnetar.spark.values.protobuf import Protobuf
from magnetar.spark.values.value_schema import Unreadable
from tests.support.avro_definitions import decoded
from tests.unit.spark.values.test_protobuf import KIND, F, field, file, message, registered

MANY = {"label": F.LABEL_REPEATED}


def of(kind, **more):
    more = {**({"type_name": ".shop.Order.Kind"} if kind == "ENUM" else {}), **more}
    return file(field("f", 1, kind, **more), **(KIND if kind == "ENUM" else {}))


def read(before, after, **values):
    data = message(before)(**values).SerializeToString()
    (_, row) = decoded(Protobuf(registered(after)), registered(before), [b"", data])
    return row["f"]


@pytest.mark.parametrize(
    ("before", "after", "fits", "other"),
    [
        ("INT64", "INT32", -(1 << 31), 1 << 31),
        ("INT64", "UINT32", (1 << 32) - 1, -1),
        ("INT64", "UINT64", 5, -1),
        ("UINT64", "INT64", 1 << 62, 1 << 63),
        ("UINT32", "INT32", 5, 1 << 31),
        ("INT32", "UINT32", 5, -1),
        ("INT32", "BOOL", 1, 2),
        ("SINT64", "SINT32", -5, 1 << 40),
        ("FIXED32", "SFIXED32", 5, 1 << 31),
        ("SFIXED64", "FIXED64", 5, -1),
    ],
)
def test_unrepresentable_number_is_reported_and_others_read(before, after, fits, other):
    assert read(of(before), of(after), f=fits) == fits
    with pytest.raises(Unreadable, match=rf"^it is {other}, but {after.lower()} has the range -?\d+ to \d+$") as told:
        read(of(before), of(after), f=other)
    assert (told.value.row, told.value.field) == (1, "f")


@pytest.mark.parametrize(
    ("before", "after", "value"),
    [("INT32", "INT64", -(1 << 31)), ("UINT32", "INT64", (1 << 32) - 1), ("BOOL", "INT32", True), ("ENUM", "INT64", 4)],
)
def test_type_that_holds_all_of_other_takes_every_number(before, after, value):
    assert read(of(before), of(after), f=value) == value


def test_number_in_list_is_told_too():
    assert read(of("INT64", **MANY), of("INT32", **MANY), f=[1, 2]) == [1, 2]
    with pytest.raises(Unreadable, match="it is 1099511627776, but repeated int32 has the range"):
        read(of("INT64", **MANY), of("INT32", **MANY), f=[1, 1 << 40])


def nested(kind: str) -> FileDescriptorProto:
    item = DescriptorProto(name="Item", field=[field("n", 1, kind), field("same", 2, "INT32")])
    entry = DescriptorProto(
        name="FEntry",
        field=[field("key", 1, kind), field("value", 2, "MESSAGE", type_name=".shop.Order.Item")],
    )
    entry.options.map_entry = True
    return file(field("f", 1, "MESSAGE", type_name=".shop.Order.FEntry", **MANY), nested_type=[item, entry])


@pytest.mark.parametrize(
    ("given", "path"), [({1 << 40: {"n": 1}}, "f"), ({1: {"n": 2, "same": 3}, 2: {"n": 1 << 40}}, "f.n")]
)
def test_number_inside_map_is_told_by_path_to_it(given, path):
    before, after = nested("INT64"), nested("INT32")

    def data(pairs):
        made = message(before)()
        for key, one in pairs.items():
            made.f[key].n = one["n"]
        return made.SerializeToString()

    form = Protobuf(registered(after))
    assert decoded(form, registered(before), [data({5: {"n": 6}})]) == [{"f": {5: {"n": 6, "same": 0}}}]
    with pytest.raises(Unreadable, match="it is 1099511627776, but int32 has the range") as told:
        decoded(form, registered(before), [data({}), data(given)])
    assert (told.value.row, told.value.field) == (1, path)


def test_default_that_nobody_wrote_is_held_against_nobody():
    before = file(field("f", 1, "INT64", default_value=str(1 << 40)), syntax="proto2")
    after = file(field("f", 1, "INT32"), syntax="proto2")
    assert read(before, after) is None


def test_number_of_unrequested_field_is_not_checked():
    more = field("g", 2, "INT32")
    before, after = file(field("f", 1, "INT64"), more), file(field("f", 1, "INT32"), more)
    value = message(before)(f=1 << 40, g=1).SerializeToString()
    assert decoded(Protobuf(registered(after)), registered(before), [value], ["g"]) == [{"g": 1}]
