"""PROTOBUF and PROTOBUF_NATIVE values by the descriptors that were registered, and two versions of one."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP

from magnetar.base.errors import Misuse
from magnetar.spark.values.protobuf import PARSING_INFO, Protobuf
from magnetar.spark.values.value_schema import Incompatible, RegisteredSchema, Unreadable
from magnetar.wire.proto import pb
from tests.support.avro_definitions import decoded

F = FieldDescriptorProto


def field(name: str, number: int, kind: str, **more: Any) -> FieldDescriptorProto:
    return F(name=name, number=number, type=F.Type.Value(f"TYPE_{kind}"), **{"label": F.LABEL_OPTIONAL, **more})


def file(*fields: FieldDescriptorProto, syntax: str = "proto3", **more: Any) -> FileDescriptorProto:
    """With one message, shop.Order, and what else there is."""
    message = DescriptorProto(name="Order", field=fields, **more)
    made = FileDescriptorProto(name="shop.proto", package="shop", message_type=[message])
    if syntax != "proto2":
        made.syntax = syntax
    return made


def registered(*files: FileDescriptorProto, root: str = "shop.Order") -> RegisteredSchema:
    """As clients register it: the last file holds the message."""
    data = FileDescriptorSet(file=files).SerializeToString()
    document = {
        "fileDescriptorSet": base64.b64encode(data).decode(),
        "rootMessageTypeName": root,
        "rootFileDescriptorName": files[-1].name,
    }
    return RegisteredSchema("topic://a/b/c", 0, pb.Schema.ProtobufNative, json.dumps(document).encode())


def message(*files: FileDescriptorProto, root: str = "shop.Order") -> Any:
    pool = DescriptorPool()
    for one in files:
        pool.AddSerializedFile(one.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName(root))


def told(*fields: tuple[int, str, str, str]) -> RegisteredSchema:
    info = [dict(zip(("number", "name", "type", "label"), one, strict=True)) for one in fields]
    return RegisteredSchema("topic://a/b/c", 0, pb.Schema.Protobuf, b"{}", ((PARSING_INFO, json.dumps(info)),))


ID, NAME = field("id", 1, "INT64"), field("name", 2, "STRING")
KIND = {"enum_type": [{"name": "Kind", "value": [{"name": "NONE", "number": 0}, {"name": "GIFT", "number": 4}]}]}


def test_scalars_are_columns_and_unset_ones_zero():
    kinds = {
        "DOUBLE": 0.5,
        "FLOAT": 0.5,
        "INT64": -1,
        "UINT64": (1 << 64) - 1,
        "INT32": -1,
        "FIXED64": 1 << 63,
        "FIXED32": 1 << 31,
        "BOOL": True,
        "STRING": "é",
        "BYTES": b"\xff",
        "UINT32": (1 << 32) - 1,
        "SFIXED32": -1,
        "SFIXED64": -1,
        "SINT32": -1,
        "SINT64": -1,
    }
    shop = file(*(field(kind.lower(), place + 1, kind) for place, kind in enumerate(kinds)))
    schema, kind = registered(shop), message(shop)
    values = {name.lower(): value for name, value in kinds.items()}
    found, empty = decoded(Protobuf(schema), schema, [kind(**values).SerializeToString(), b""])
    assert found == {name: Decimal(one) if name in ("uint64", "fixed64") else one for name, one in values.items()}
    assert not any(empty.values())
    assert None not in empty.values()


def test_messages_lists_maps_and_enums_become_spark_types():
    entry = DescriptorProto(name="CountsEntry", field=[field("key", 1, "STRING"), field("value", 2, "INT32")])
    entry.options.map_entry = True
    inner = DescriptorProto(
        name="Item", field=[field("sku", 1, "STRING"), field("tags", 2, "STRING", label=F.LABEL_REPEATED)]
    )
    shop = file(
        field("first", 1, "MESSAGE", type_name=".shop.Order.Item"),
        field("items", 2, "MESSAGE", type_name=".shop.Order.Item", label=F.LABEL_REPEATED),
        field("counts", 3, "MESSAGE", type_name=".shop.Order.CountsEntry", label=F.LABEL_REPEATED),
        field("kind", 4, "ENUM", type_name=".shop.Order.Kind"),
        field("at", 5, "MESSAGE", type_name=".google.protobuf.Timestamp"),
        nested_type=[entry, inner],
        **KIND,
    )
    shop.dependency.append(TIMESTAMP.name)
    time = FileDescriptorProto.FromString(TIMESTAMP.serialized_pb)
    schema, kind = registered(time, shop), message(time, shop)
    full = kind(first={"sku": "a"}, items=[{"tags": ["x", "y"]}, {"sku": "b"}], counts={"one": 1}, kind=4)
    full.at.seconds = 5
    strange = kind(kind=9)
    assert decoded(Protobuf(schema), schema, [full.SerializeToString(), strange.SerializeToString()]) == [
        {
            "first": {"sku": "a", "tags": []},
            "items": [{"sku": "", "tags": ["x", "y"]}, {"sku": "b", "tags": []}],
            "counts": {"one": 1},
            "kind": "GIFT",
            "at": {"seconds": 5, "nanos": 0},
        },
        {"first": None, "items": [], "counts": {}, "kind": "9", "at": None},
    ]


def test_field_with_presence_is_null_or_default():
    shop = file(ID, field("count", 3, "INT32", default_value="7"), syntax="proto2")
    schema = registered(shop)
    assert decoded(Protobuf(schema), schema, [b"", message(shop)(id=0).SerializeToString()]) == [
        {"id": None, "count": 7},
        {"id": 0, "count": 7},
    ]


def test_messages_of_other_versions_are_read_by_newest_descriptor():
    before = file(field("id", 1, "INT32"), NAME, field("old", 5, "STRING"))
    after = file(ID, field("called", 2, "STRING"), field("more", 3, "BOOL"))
    value = message(before)(id=5, name="n", old="o").SerializeToString()
    assert decoded(Protobuf(registered(after)), registered(before), [value]) == [
        {"id": 5, "called": "n", "more": False}
    ]


@pytest.mark.parametrize(
    ("before", "said", "path"),
    [
        (file(field("id", 1, "STRING")), "string cannot be read as int64", "id"),
        (file(field("id", 1, "INT64", label=F.LABEL_REPEATED)), "repeated int64 cannot be read as int64", "id"),
        (file(field("id", 3, "INT64")), "its number is 3 in the message and 1 in the table", "id"),
    ],
)
def test_incompatible_number_and_renumbered_name_are_refused(before, said, path):
    with pytest.raises(Incompatible, match=said) as why:
        Protobuf(registered(file(ID))).decoder(registered(before), ["id"])
    assert why.value.field == path


def test_difference_inside_message_is_found():
    def shop(kind: str) -> FileDescriptorProto:
        inner = DescriptorProto(name="Item", field=[field("sku", 1, kind)])
        return file(field("item", 1, "MESSAGE", type_name=".shop.Order.Item"), nested_type=[inner])

    with pytest.raises(Incompatible, match="double cannot be read as string") as why:
        Protobuf(registered(shop("STRING"))).decoder(registered(shop("DOUBLE")), ["item"])
    assert why.value.field == "item.sku"


ITEM = DescriptorProto(
    name="Item", field=[field("sku", 1, "STRING"), field("sizes", 2, "UINT32", label=F.LABEL_REPEATED)]
)
ITEMS = field("items", 3, "MESSAGE", type_name=".shop.Order.Item", label=F.LABEL_REPEATED)


@pytest.mark.parametrize(
    ("bad", "path", "said"),
    [
        (b"\x08", "id", "the value ends too early"),
        (b"\x08" + b"\xff" * 11, "id", "a number does not end"),
        (b"\x12\x7fx", "name", "its length exceeds the value: 127"),
        (b"\x12\x01\xff", "name", "must be text in UTF-8"),
        (b"\x1a\x03\x0a\x01\xff", "items.sku", "must be text in UTF-8"),
        (b"\x1a\x03\x12\x01\x80", "items.sizes", "the value ends too early"),
        (b"\x1a\x02\x0a\x09", "items.sku", "its length exceeds the value: 9"),
        (b"\x2d\x00", "", "the value ends too early"),  # of a field that the table has not
        (b"\x0f", "", "the tag is invalid: 15"),
        (b"\x0b" * 200, "", "nested too deeply"),
    ],
)
def test_bytes_that_are_no_message_name_their_row_and_field(bad, path, said):
    schema = registered(file(ID, NAME, ITEMS, nested_type=[ITEM]))
    good = b"\x08\x01"
    with pytest.raises(Unreadable, match=said) as why:
        decoded(Protobuf(schema), schema, [good, bad, good])
    assert (why.value.row, why.value.field) == (1, path)


def test_invalid_proto2_text_names_row_and_field():
    entry = DescriptorProto(name="NotesEntry", field=[field("key", 1, "STRING"), field("value", 2, "STRING")])
    entry.options.map_entry = True
    notes = field("notes", 4, "MESSAGE", type_name=".shop.Order.NotesEntry", label=F.LABEL_REPEATED)
    schema = registered(file(NAME, ITEMS, notes, nested_type=[ITEM, entry], syntax="proto2"))
    for bad, path in (
        (b"\x12\x01\xff", "name"),
        (b"\x1a\x03\x0a\x01\xff", "items.sku"),
        (b"\x22\x06\x0a\x01a\x12\x01\xff", "notes"),
        (b"\x22\x06\x0a\x01\xff\x12\x01a", "notes"),
    ):
        with pytest.raises(Unreadable, match=r"[Uu][Tt][Ff]-?8") as why:
            decoded(Protobuf(schema), schema, [b"", bad])
        assert (why.value.row, why.value.field) == (1, path)


def test_only_fields_that_are_asked_for_are_made():
    schema = registered(file(ID, NAME))
    assert decoded(Protobuf(schema), schema, [b"\x08\x05"], ["name", "id"]) == [{"name": "", "id": 5}]


def test_protobuf_schema_is_read_by_numbers_and_deeper_stays_bytes():
    schema = told(
        (1, "id", "INT64", "LABEL_OPTIONAL"),
        (2, "name", "STRING", "LABEL_OPTIONAL"),
        (3, "item", "MESSAGE", "LABEL_OPTIONAL"),
        (4, "kind", "ENUM", "LABEL_REQUIRED"),
        (5, "tags", "STRING", "LABEL_REPEATED"),
    )
    inner = DescriptorProto(name="Item", field=[field("sku", 1, "STRING")])
    shop = file(
        ID,
        NAME,
        field("item", 3, "MESSAGE", type_name=".shop.Order.Item"),
        field("kind", 4, "ENUM", type_name=".shop.Order.Kind"),
        field("tags", 5, "STRING", label=F.LABEL_REPEATED),
        nested_type=[inner],
        **KIND,
    )
    value = message(shop)(id=1, name="n", item={"sku": "s"}, kind=4, tags=["a", "b"]).SerializeToString()
    assert decoded(Protobuf(schema), schema, [value]) == [
        {"id": 1, "name": "n", "item": b"\x0a\x01s", "kind": 4, "tags": ["a", "b"]}
    ]


@pytest.mark.parametrize(
    "schema",
    [
        RegisteredSchema("t", 0, pb.Schema.ProtobufNative, b"{"),
        RegisteredSchema("t", 0, pb.Schema.ProtobufNative, b"{}"),
        RegisteredSchema("t", 0, pb.Schema.ProtobufNative, b'{"fileDescriptorSet":"!","rootFileDescriptorName":""}'),
        registered(file(ID), root="shop.Nobody"),
        RegisteredSchema("t", 0, pb.Schema.Protobuf, b"{}"),
        told((1, "id", "NUMBER", "LABEL_OPTIONAL")),
        told((1, "id", "INT64", "LABEL_OPTIONAL"), (1, "again", "INT64", "LABEL_OPTIONAL")),
        registered(FileDescriptorProto(name="a", dependency=["a"], message_type=[{"name": "M"}]), root="M"),
    ],
)
def test_descriptor_that_cannot_be_read_is_said_to_be(schema):
    with pytest.raises(Misuse, match="the registered descriptor is invalid"):
        Protobuf(schema)


def test_message_expanding_to_thousands_of_columns_is_no_table():
    def level(number: int) -> DescriptorProto:
        kind = {"type_name": f".shop.M{number - 1}"}
        fields = [field(name, place + 1, "MESSAGE", **kind) for place, name in enumerate("ab")]
        return DescriptorProto(name=f"M{number}", field=fields if number else [field("x", 1, "INT32")])

    shop = file(field("all", 1, "MESSAGE", type_name=".shop.M20"))
    shop.message_type.extend(level(number) for number in range(21))
    with pytest.raises(Misuse, match="too many fields"):
        Protobuf(registered(shop))


def test_message_that_contains_itself_is_no_table():
    with pytest.raises(Misuse, match=r"field next contains itself \(shop.Order\)"):
        Protobuf(registered(file(field("next", 1, "MESSAGE", type_name=".shop.Order"))))
    with pytest.raises(Misuse, match="must have fields"):
        Protobuf(registered(file()))
