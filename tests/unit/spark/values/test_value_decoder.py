"""Rows of several versions made into one table: each by its own, in their order, and asked for once."""

from __future__ import annotations

import base64
import json

import pyarrow as pa
import pytest

from magnetar.base.errors import Corrupt, Misuse, NotFound
from magnetar.spark.read.decoder import Decoder
from magnetar.spark.values.table import ValueTable
from magnetar.spark.values.value_decoder import ValueDecoder
from magnetar.spark.values.value_schema import RegisteredSchema
from magnetar.wire.proto import pb
from tests.support.avro_definitions import encoded, pair, record, registered
from tests.support.golden_vectors import sent_frames
from tests.unit.spark.entries import single

FIRST = record(("id", "int"), ("old", "string"))
SECOND = record(("id", "long"), ("more", "string", "none"))
OTHER = record(("id", "string"))
VERSIONS = {
    0: registered(FIRST, version=0),
    1: registered(SECOND, version=1),
    2: registered(OTHER, version=2),
    3: RegisteredSchema("topic://a/b/c", 3, pb.Schema.KeyValue),
}
TABLE = ValueTable(VERSIONS[1], ("key", "id", "more"), ("id", "more"))


class Registry:
    def __init__(self):
        self.asked = []

    def __call__(self, version):
        self.asked.append(version)
        if version not in VERSIONS:
            raise NotFound("there is none")
        return VERSIONS[version]


def batch(*rows):
    """Of versions and values, one message each; None is a version that is not named."""
    made = Decoder(TABLE.needed, segment=4)
    for place, (version, value) in enumerate(rows):
        fields = {} if version is None else {"schema_version": version.to_bytes(8, "big")}
        made.add(7, place, single(value or b"", null_value=value is None, partition_key=f"k{place}", **fields))
    return made.take()


def first(number):
    return 0, encoded(FIRST, {"id": number, "old": "x"})


def second(number):
    return 1, encoded(SECOND, {"id": number, "more": "m"})


def read(*rows, table=TABLE, registry=None):
    made = ValueDecoder(table, registry or Registry()).made(batch(*rows))
    made.validate(full=True)
    return made


def test_rows_of_two_versions_and_null_ones_keep_their_order():
    rows = read(first(1), second(2), (None, None), first(3), (None, second(4)[1]), (0, None))
    assert rows.to_pylist() == [
        {"key": b"k0", "id": 1, "more": "none"},
        {"key": b"k1", "id": 2, "more": "m"},
        {"key": b"k2", "id": None, "more": None},
        {"key": b"k3", "id": 3, "more": "none"},
        {"key": b"k4", "id": 4, "more": "m"},
        {"key": b"k5", "id": None, "more": None},
    ]


def test_columns_follow_table_order_for_any_rows():
    table = ValueTable(VERSIONS[1], ("more", "__schema_version", "id"), ("more", "id"))
    types = pa.schema([("more", pa.string()), ("__schema_version", pa.int64()), ("id", pa.int64())])
    for rows in ([first(1)], [second(1), first(2)], [(None, None)], []):
        assert read(*rows, table=table).schema == types
    assert read(first(1), (None, None), table=ValueTable(VERSIONS[1], ("key",), ())).to_pylist() == [
        {"key": b"k0"},
        {"key": b"k1"},
    ]


@pytest.mark.parametrize("encoding", ["separated", "inline"])
def test_java_key_values_are_read_with_either_key_place(encoding):
    schema = pair(("STRING", None), ("INT32", None), encoding.upper())
    made = Decoder(ValueTable(schema, ("kv_key", "kv_value"), ("kv_key", "kv_value")).needed, segment=4)
    frames = [one for one in sent_frames() if one["case"] == f"schema-key-value-{encoding}"]
    for place, frame in enumerate(frames):
        made.add(7, place, frame["bytes"][8 + frame["command_size"] :])
    rows = ValueDecoder(ValueTable(schema, ("kv_value", "kv_key"), ("kv_value", "kv_key")), Registry()).made(
        made.take()
    )
    rows.validate(full=True)
    assert rows.to_pylist() == [
        {"kv_value": 258, "kv_key": "key"},
        {"kv_value": 1, "kv_key": None},
        {"kv_value": None, "kv_key": "key"},
    ]


def test_key_without_value_is_one_of_its_version_too():
    before = pair(("INT32", None), ("STRING", None), "SEPARATED")
    table = ValueTable(
        pair(("INT64", None), ("STRING", None), version=1), ("kv_key", "kv_value"), ("kv_key", "kv_value")
    )
    made = Decoder(table.needed, segment=4)
    key = base64.b64encode((5).to_bytes(4, "big")).decode()
    fields = {"partition_key": key, "partition_key_b64_encoded": True, "schema_version": bytes(8)}
    made.add(7, 0, single(b"", null_value=True, **fields))
    made.add(7, 1, single(b"", null_value=True))
    found = ValueDecoder(table, lambda version: before).made(made.take()).to_pylist()
    assert found == [{"kv_key": 5, "kv_value": None}, {"kv_key": None, "kv_value": None}]


def test_version_is_asked_for_once_and_that_of_table_never():
    registry = Registry()
    made = ValueDecoder(TABLE, registry)
    for _ in range(3):
        made.made(batch(first(1), second(2), first(3), (None, None)))
    assert registry.asked == [0]


def test_unfitting_version_is_named_with_field_and_remedy():
    with pytest.raises(
        Misuse, match=r"version 2 .* of version 1: field id: string cannot be read as long: remove schema="
    ):
        read(second(1), (2, encoded(OTHER, {"id": "x"})))
    with pytest.raises(Misuse, match="it is KEY_VALUE and the table is AVRO"):
        read((3, b"x"))


def test_version_that_is_gone_is_named():
    with pytest.raises(Misuse, match="use version 9 of the schema, which the registry does not contain any more"):
        read(second(1), (9, b""))


def test_value_that_cannot_be_read_is_named_by_its_position():
    with pytest.raises(Corrupt, match=r"field more: .*version=1, position=7:2:0 of segment 4"):
        read(second(1), (None, None), (1, b"\x02\x7f"), first(2))
    with pytest.raises(Corrupt, match=r"position=7:1:0 of segment 4"):
        read(first(1), (0, b"\x02\x7f"))


def test_value_of_json_that_is_none_is_named_too():
    schema = RegisteredSchema("topic://a/b/c", 0, pb.Schema.Json, json.dumps(FIRST).encode())
    with pytest.raises(
        Corrupt, match=r"option schema: a value does not match its schema: it must be JSON.*position=7:0:0"
    ):
        read((0, b"{"), table=ValueTable(schema, ("id",), ("id",)))
