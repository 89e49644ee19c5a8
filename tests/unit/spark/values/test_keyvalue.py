"""Keys with values: both parts by their own schemas, wherever the key lies, as Pulsar's Java client writes them."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from magnetar.base.errors import Misuse
from magnetar.spark.values.keyvalue import KEY_PART, VALUE_PART, parts
from magnetar.spark.values.select import decoder, form
from magnetar.spark.values.value_schema import Incompatible, Kind, RegisteredSchema, Unreadable
from tests.support.avro_definitions import encoded, pair, record, sized
from tests.support.golden_vectors import load

ORDER = record(("id", "long"), ("customer", "string"))
WIDER = record(("id", "long"), ("customer", ["null", "string"]), ("more", "int", 7))
BOTH = (KEY_PART, VALUE_PART)


NUMBERED = (("STRING", None), ("INT32", None))
ORDERS = (("INT64", None), ("AVRO", ORDER))


def recorded(label):
    """As the Java client registers it."""
    (found,) = [one for one in load("schemas.json")["schema_info"] if one["label"] == label]
    properties = tuple(sorted(found["properties"].items()))
    return RegisteredSchema("topic://a/b/c", 0, Kind.KEY_VALUE, bytes.fromhex(found["schema_hex"]), properties)


def read(schema, *messages, table=None, names=BOTH):
    """Of keys and payloads."""
    made = decoder(table or schema, schema, names)
    given = pa.array([{"key": key, "value": value} for key, value in messages], KINDS)
    columns = made(given)
    types = {one.name: one.type for one in form(table or schema).columns}
    batch = pa.RecordBatch.from_arrays(columns, schema=pa.schema([(name, types[name]) for name in names]))
    batch.validate(full=True)
    return [tuple(row.values()) for row in batch.to_pylist()]


KINDS = pa.struct([("key", pa.binary()), ("value", pa.binary())])


def test_every_schema_that_java_client_registers_has_its_two_columns():
    labels = [one["label"] for one in load("schemas.json")["schema_info"] if one["type"] == "KEY_VALUE"]
    assert len(labels) >= 9
    for label in labels:
        assert [one.name for one in form(recorded(label)).columns] == list(BOTH)
    key, value = form(recorded("KV AVRO JSON SEPARATED")).columns
    assert key.type == pa.struct([("n", pa.int32()), ("note", pa.string())])
    assert [one.name for one in value.type] == ["color", "colors"]


def test_key_value_of_java_client_is_read_with_nulls():
    inline, apart = (recorded(f"KV STRING INT32 {encoding}") for encoding in ("INLINE", "SEPARATED"))
    written = [
        bytes.fromhex(one["bytes"])
        for one in load("schemas.json")["encoded"]
        if one["schema"] == "KV STRING INT32 INLINE"
    ]
    assert read(inline, *((b"route", one) for one in written)) == [("key", 258), (None, 258), ("key", None)]
    payload = bytes.fromhex("00000102")
    assert read(apart, (b"key", payload), (None, payload), (b"key", None)) == [
        ("key", 258),
        (None, 258),
        ("key", None),  # a tombstone keeps its key
    ]


def test_parts_with_fields_are_structs_and_others_are_values():
    schema = pair(("AVRO", ORDER), ("JSON", ORDER))
    key = encoded(ORDER, {"id": 1, "customer": "a"})
    assert read(schema, (None, sized(key, b'{"id": 2, "customer": "b"}')), (b"k", None), (None, sized(None, None))) == [
        ({"id": 1, "customer": "a"}, {"id": 2, "customer": "b"}),
        (None, None),  # nothing to take a key from
        (None, None),
    ]
    assert read(pair(("BYTES", None), ("NONE", None)), (None, sized(b"\xff", b""))) == [(b"\xff", b"")]


def test_only_parts_that_are_asked_for_are_read():
    schema = pair(*ORDERS, "SEPARATED")
    bad = (b"", encoded(ORDER, {"id": 2, "customer": "b"}))
    assert read(schema, bad, names=[VALUE_PART]) == [({"id": 2, "customer": "b"},)]
    assert read(schema, ((5).to_bytes(8, "big"), b"\xff"), names=[KEY_PART]) == [(5,)]


def test_key_and_value_evolve_wherever_key_was_stored():
    before = pair(("INT32", None), ("AVRO", ORDER), "SEPARATED")
    after = pair(("INT64", None), ("AVRO", WIDER), version=1)
    value = encoded(ORDER, {"id": 2, "customer": "b"})
    assert read(before, ((5).to_bytes(4, "big"), value), table=after) == [
        (5, {"id": 2, "customer": "b", "more": 7}),
    ]


@pytest.mark.parametrize(
    ("written", "field"),
    [
        (pair(("INT64", None), ("AVRO", record(("id", "string"), ("customer", "string")))), "kv_value.id"),
        (pair(("STRING", None), ("AVRO", ORDER)), "kv_key"),
        (pair(("INT64", None), ("STRING", None)), "kv_value"),
    ],
)
def test_version_that_does_not_fit_names_its_part_and_field(written, field):
    with pytest.raises(Incompatible) as told:
        decoder(pair(*ORDERS), written, BOTH)
    assert told.value.field == field


GOOD = encoded(ORDER, {"id": 1, "customer": "abc"})
EIGHT = bytes(8)


@pytest.mark.parametrize(
    ("payload", "field", "said"),
    [
        (b"", "kv_key", "ends too early"),
        (b"\0\0\0", "kv_key", "ends too early"),
        (struct.pack(">i", 9) + EIGHT, "kv_key", "its length exceeds the value: 9"),
        (struct.pack(">i", -2) + EIGHT, "kv_key", "its length exceeds the value: -2"),
        (sized(EIGHT), "kv_value", "ends too early"),
        (sized(EIGHT) + struct.pack(">i", 1), "kv_value", "its length exceeds the value: 1"),
        (sized(EIGHT, GOOD) + b"\0", "", "longer than its schema allows"),
        (sized(b"\0" * 7, GOOD), "kv_key", "must have 8 bytes, got 7"),
        (sized(EIGHT, GOOD[:-1]), "kv_value.customer", "its length exceeds the value: 3"),
    ],
)
def test_payload_that_is_torn_names_its_row_and_part(payload, field, said):
    fine = (None, sized(EIGHT, GOOD))
    with pytest.raises(Unreadable, match=said) as told:
        read(pair(*ORDERS), fine, (None, None), (None, payload), fine)
    assert (told.value.row, told.value.field) == (2, field)


def test_invalid_key_of_message_is_reported_with_row():
    with pytest.raises(Unreadable, match="must have 8 bytes, got 1") as told:
        read(pair(*ORDERS, "SEPARATED"), (None, GOOD), (b"k", GOOD))
    assert (told.value.row, told.value.field) == (1, "kv_key")


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (RegisteredSchema("t", 0, Kind.KEY_VALUE), "a definition is shorter than its length"),
        (RegisteredSchema("t", 0, Kind.KEY_VALUE, b"\0\0\0\x05ab\0\0\0\0"), "a definition is shorter than its length"),
        (RegisteredSchema("t", 0, Kind.KEY_VALUE, sized(b"", b"") + b"x"), "extra data after both definitions"),
        (pair(*NUMBERED, "APART"), "kv.encoding.type must be INLINE or SEPARATED, got APART"),
        (pair(("KEY_VALUE", None), ("STRING", None)), "the key has the unsupported kind KEY_VALUE"),
        (pair(("STRING", None), ("ODD", None)), "the value has the unsupported kind ODD"),
        (pair(*NUMBERED, **{"key.schema.properties": "[]"}), "key.schema.properties must be an object"),
        (pair(*NUMBERED, **{"key.schema.properties": "{"}), "is invalid: "),
        (pair(("STRING", None), ("AVRO", None)), "kv_value: the registered definition must be Avro"),
        (pair(("AUTO_CONSUME", None), ("STRING", None)), "kv_key: schemas of kind AUTO_CONSUME are not supported"),
    ],
)
def test_schema_without_key_and_value_is_refused_with_reason(schema, said):
    with pytest.raises(Misuse, match=f"option schema: .*{said}"):
        form(schema)


def test_undeclared_parts_are_bytes_in_payload():
    found = parts(RegisteredSchema("t", 4, Kind.KEY_VALUE, sized(b"", b"")))
    assert not found.separated
    assert {name: (one.kind, one.version) for name, one in found.schemas.items()} == dict.fromkeys(
        BOTH, (Kind.BYTES, 4)
    )
