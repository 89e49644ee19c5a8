"""Bytes that are nothing, to every decoder: each says what is wrong with which row, and nothing else happens."""

from __future__ import annotations

import json
import struct
import tracemalloc
from functools import cache

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.spark.values import primitives
from magnetar.spark.values.select import decoder, form
from magnetar.spark.values.value_schema import Kind, RegisteredSchema, Unreadable
from magnetar.wire.proto import pb
from tests.support import avro_definitions
from tests.support.avro_definitions import encoded, pair, record, sized
from tests.unit.spark.values.test_protobuf import F, field, file, message, registered, told

PEAK_BYTES_MAX = 64 * 1024 * 1024

INNER = record(("x", "int"), ("kind", {"type": "enum", "name": "E", "symbols": ["A", "B"]}), name="Inner")
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
PLAIN = [
    ("id", "long"),
    ("small", "int"),
    ("yes", "boolean"),
    ("half", "float"),
    ("whole", "double"),
    ("name", "string"),
    ("at", {"type": "long", "logicalType": "timestamp-millis"}),
    ("day", {"type": "int", "logicalType": "date"}),
    ("inner", INNER),
    ("many", {"type": "array", "items": ["null", "Inner"]}),
    ("numbers", {"type": "array", "items": "long"}),
    ("doubles", {"type": "array", "items": "double"}),
    ("deep", {"type": "map", "values": {"type": "array", "items": "string"}}),
]
AVRO = record(
    *PLAIN,
    ("voids", {"type": "array", "items": "null"}),
    ("price", DECIMAL),
    ("raw", "bytes"),
    ("four", {"type": "fixed", "name": "Four", "size": 4}),
    ("either", ["null", "string", {"type": "array", "items": "int"}]),
)
JSON = record(*PLAIN, ("price", DECIMAL))
ROW = {
    "id": 300,
    "small": -5,
    "yes": True,
    "half": 0.5,
    "whole": 0.25,
    "name": "née",
    "at": 1_769_860_800_001,
    "day": 5,
    "inner": {"x": 1, "kind": "B"},
    "many": [None, {"x": 2, "kind": "A"}],
    "numbers": [1, 200, 1 << 40],
    "doubles": [0.5, 0.25],
    "deep": {"k": ["a", "b"], "l": []},
    "voids": [None] * 3,
    "price": b"\x04\xd2",
    "raw": b"\xff",
    "four": b"abcd",
    "either": [7, 8],
}


def stripped(definition):
    """Without meanings, so that numbers and bytes are written as they are."""
    fields = [
        {**one, "type": one["type"]["type"]} if "logicalType" in one["type"] else one for one in definition["fields"]
    ]
    return {**definition, "fields": fields}


def shop(syntax):
    counts = DescriptorProto(name="CountsEntry", field=[field("key", 1, "STRING"), field("value", 2, "INT32")])
    counts.options.map_entry = True
    item = DescriptorProto(name="Item", field=[field("sku", 1, "STRING"), field("n", 2, "SINT64")])
    many = {"label": F.LABEL_REPEATED}
    return file(
        field("id", 1, "INT64"),
        field("name", 2, "STRING"),
        field("items", 3, "MESSAGE", type_name=".shop.Order.Item", **many),
        field("counts", 4, "MESSAGE", type_name=".shop.Order.CountsEntry", **many),
        field("sizes", 5, "UINT64", **many),
        field("wide", 6, "FIXED32", **many),
        nested_type=[counts, item],
        syntax=syntax,
    )


def ordered(syntax):
    made = message(shop(syntax))(id=5, name="née", items=[{"sku": "a", "n": -1}], counts={"k": 7})
    made.sizes.extend([1, 1 << 63])
    made.wide.extend([1, 2])
    return made.SerializeToString()


TOLD = told((1, "id", "INT64", "LABEL_OPTIONAL"), (2, "name", "STRING", "LABEL_OPTIONAL"))
NUMBERED = (("INT32", None), ("STRING", None))
TEXT = {**{name: ROW[name] for name, _ in PLAIN}, "price": 12.34}
CASES = {
    "AVRO": (avro_definitions.registered(AVRO), encoded(stripped(AVRO), ROW)),
    "JSON": (avro_definitions.registered(JSON, pb.Schema.Json), json.dumps(TEXT).encode()),
    "PROTOBUF_NATIVE 2": (registered(shop("proto2")), ordered("proto2")),
    "PROTOBUF_NATIVE 3": (registered(shop("proto3")), ordered("proto3")),
    "PROTOBUF": (TOLD, b"\x08\x05\x12\x02ab"),
    "INLINE": (pair(*NUMBERED), sized(bytes(4), b"abc")),
    "SEPARATED": (pair(*NUMBERED, "SEPARATED"), b"abc"),
    **{
        Kind(kind).name: (RegisteredSchema("topic://a/b/c", 0, kind), bytes(16)[: size] if size else b"ab")
        for kind, size in {
            **dict.fromkeys(primitives.KINDS, 8),
            **dict.fromkeys((Kind.BYTES, Kind.STRING), 0),
            **dict.fromkeys((Kind.BOOLEAN, Kind.INT8), 1),
            Kind.INT16: 2,
            **dict.fromkeys((Kind.INT32, Kind.FLOAT), 4),
            Kind.INSTANT: 12,
            Kind.LOCAL_DATE_TIME: 16,
        }.items()
    },
}  # fmt: skip


@cache
def made(name):
    schema = CASES[name][0]
    found = form(schema).columns
    return decoder(schema, schema, [one.name for one in found]), pa.schema([(one.name, one.type) for one in found])


def columns(name, values):
    """As tasks have them; of a key with a value, the key is as good as it was."""
    decode, types = made(name)
    given = pa.array(values, pa.binary())
    if CASES[name][0].kind == Kind.KEY_VALUE:
        given = pa.StructArray.from_arrays([pa.array([bytes(4)] * len(values), pa.binary()), given], ["key", "value"])
    batch = pa.RecordBatch.from_arrays(decode(given), schema=types)
    batch.validate(full=True)
    return batch


def tried(name, bad):
    """What is said of a row between two that are good; None: it was read."""
    good = CASES[name][1]
    try:
        found = columns(name, [good, bad, good])
    except Unreadable as error:
        return error
    assert found.num_rows == 3
    return None


def spoiled(good):
    """Cut, changed, doubled; or bytes that were never anything."""
    place = st.integers(0, len(good))
    put = st.binary(max_size=6) | st.sampled_from(
        [b"\xff" * 10, b"\x80" * 9 + b"\x01", b"\xfe" + b"\xff" * 8 + b"\x01"]
    )
    changed = st.tuples(place, put, st.integers(0, 3)).map(
        lambda one: good[: one[0]] + one[1] + good[one[0] + one[2] :]
    )
    return place.map(lambda end: good[:end]) | changed | st.binary(max_size=40) | st.just(good + good)


@pytest.mark.parametrize("name", CASES)
def test_what_is_good_is_read(name):
    good = CASES[name][1]
    first, second = columns(name, [good, good]).to_pylist()
    assert first == second
    assert any(one is not None for one in first.values())


@given(st.data())
@settings(max_examples=60)
def test_garbage_bytes_are_unreadable_in_every_kind(data):
    name = data.draw(
        st.sampled_from([*CASES, *["AVRO"] * 20, *["JSON", "PROTOBUF_NATIVE 2", "PROTOBUF_NATIVE 3"] * 10])
    )
    found = tried(name, data.draw(spoiled(CASES[name][1])))
    assert found is None or (found.row == 1 and found.what)


@pytest.mark.parametrize("name", ["AVRO", "JSON", "PROTOBUF_NATIVE 2", "PROTOBUF_NATIVE 3", "INLINE"])
def test_value_that_ends_anywhere_is_told_with_its_row(name):
    good = CASES[name][1]
    found = [one for one in (tried(name, good[:end]) for end in range(len(good))) if one is not None]
    assert {one.row for one in found} == {1}
    assert len(found) > len(good) // 2  # a message of Protobuf may end behind any field


def claims(number):
    return encoded("long", number)


HOSTILE = {
    "a list of more than there is": ("AVRO", encoded(stripped(record(*PLAIN[:9])), ROW) + claims(1 << 40)),
    "voids without end": ("AVRO", encoded(stripped(record(*PLAIN)), ROW) + (claims(1 << 20) * 8)),
    "a list of one byte each": ("AVRO", b"\x80" * 100_000),
    "nested brackets": ("JSON", b'{"strange": ' + b"[" * 10_000),
    "nested objects": ("JSON", b'{"inner": ' * 10_000),
    "a small decimal": ("JSON", b'{"price": "1E-999999999"}'),
    "a large decimal": ("JSON", b'{"price": "1E+999999999"}'),
    "no decimal": ("JSON", b'{"price": "NaN"}'),
    "many digits": ("JSON", b'{"price": ' + b"9" * 5000 + b"}"),
    "nested groups": ("PROTOBUF_NATIVE 3", b"\x0b" * 10_000),
    "a long text": ("PROTOBUF_NATIVE 3", b"\x12\xff\xff\xff\xff\x07"),
    "a long key": ("INLINE", struct.pack(">i", (1 << 31) - 1)),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("case", HOSTILE)
def test_what_claims_to_be_much_is_told_and_costs_little(case):
    name, bad = HOSTILE[case]
    tracemalloc.start()
    pool = pa.default_memory_pool()
    arrow = pool.max_memory()  # the most that there ever was
    try:
        found = tried(name, bad)
        peak = tracemalloc.get_traced_memory()[1] + pool.max_memory() - arrow
    finally:
        tracemalloc.stop()
    assert found is not None
    assert found.row == 1
    assert peak < PEAK_BYTES_MAX
