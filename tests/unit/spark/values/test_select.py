"""Every kind of schema has its form or a refusal, and a topic may have changed from JSON to AVRO."""

from __future__ import annotations

import pyarrow as pa
import pytest

from magnetar.base.errors import Misuse
from magnetar.spark.values.select import decoder, form
from magnetar.spark.values.value_schema import Incompatible, Kind, RegisteredSchema, said
from magnetar.wire.proto import pb
from tests.support.avro_definitions import encoded, record, registered

T = pb.Schema
ORDER = record(("id", "long"), ("raw", "bytes"))


def names(schema):
    return [one.name for one in form(schema).columns]


def test_fields_are_columns_and_what_has_none_is_one():
    assert names(registered(ORDER)) == names(registered(ORDER, T.Json)) == ["id", "raw"]
    assert names(RegisteredSchema("t", 0, T.Int64)) == ["value"]


@pytest.mark.parametrize("kind", [T.AutoConsume, T.External, 99])
def test_kind_without_table_is_refused_with_remedy(kind):
    with pytest.raises(
        Misuse, match=f"option schema: schemas of kind {said(kind)} are not supported: remove schema=registry"
    ):
        form(RegisteredSchema("topic://a/b/c", 3, kind))


def test_impossible_definition_is_reported_with_topic_and_version():
    with pytest.raises(Misuse, match=r"option schema: .*must be Avro in JSON \(topic=topic://a/b/c, version=3\)"):
        form(RegisteredSchema("topic://a/b/c", 3, T.Avro, b"{"))
    with pytest.raises(Misuse, match="the registered record has no fields"):
        form(registered(record()))


def test_json_and_avro_versions_are_one_table_if_types_match():
    before, after = registered(ORDER, T.Json), registered(ORDER, version=1)
    assert decoder(after, before, ["id"])(pa.array([b'{"id": 5}'], pa.binary()))[0].to_pylist() == [5]
    value = encoded(ORDER, {"id": 5, "raw": b""})
    assert decoder(before, after, ["id"])(pa.array([value], pa.binary()))[0].to_pylist() == [5]
    with pytest.raises(Incompatible, match="it is JSON and the table is AVRO") as told:
        decoder(after, before, ["id", "raw"])  # bytes are text in JSON
    assert told.value.field == "raw"


def test_other_kinds_do_not_mix():
    for written in (
        RegisteredSchema("t", 1, T.String),
        RegisteredSchema("t", 1, T.KeyValue),
        RegisteredSchema("t", 1, T.ProtobufNative),
    ):
        with pytest.raises(Incompatible, match="and the table is AVRO"):
            decoder(registered(ORDER), written, ["id"])


def test_kinds_have_numbers_of_wire():
    assert [int(kind) for kind in Kind] == sorted(pb.Schema.Type.values())
    assert [said(kind) for kind in (T.NoSchema, T.KeyValue, T.LocalDateTime, T.Bool, 99)] == [
        "BYTES",
        "KEY_VALUE",
        "LOCAL_DATE_TIME",
        "BOOLEAN",
        "99",
    ]
    pairs = {name.upper().replace("_", ""): number for name, number in pb.Schema.Type.items()}
    for kind in Kind:
        name = {"BYTES": "NOSCHEMA", "BOOLEAN": "BOOL"}.get(kind.name, kind.name.replace("_", ""))
        assert pairs[name] == kind
