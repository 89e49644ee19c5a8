"""AVRO values read by columns: what another implementation of Avro makes of them row by row, however they evolved."""

from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.spark.values.avro import Avro
from magnetar.spark.values.value_schema import Incompatible, Unreadable
from tests.support.avro_definitions import by_another, decoded, encoded, newer, record, records, registered

ORDER = record(("id", "long"), ("customer", "string"), ("amount", ["null", "double"]))


def read(written, table, value):
    """One value that was written with one definition, in the table of the other."""
    (row,) = decoded(Avro(registered(table)), registered(written), [encoded(written, value)])
    return row


@given(st.data())
@settings(max_examples=25)
def test_values_are_what_another_implementation_reads(data):
    definition, values = data.draw(records())
    rows = data.draw(st.lists(values, min_size=1, max_size=5))
    table = data.draw(st.just(definition) | newer(definition))
    written = [encoded(definition, row) for row in rows]
    expected = [by_another(definition, table, one) for one in written]
    assert decoded(Avro(registered(table)), registered(definition), written) == expected


@given(st.data())
@settings(max_examples=12)
def test_torn_bytes_are_unreadable_or_read_and_nothing_else(data):
    definition, values = data.draw(records())
    good = encoded(definition, data.draw(values))
    cut = data.draw(st.integers(0, len(good)))
    bad = good[:cut] + data.draw(st.binary(max_size=4)) + good[cut + data.draw(st.integers(0, 2)) :]
    form = Avro(registered(definition))
    with contextlib.suppress(Unreadable):
        decoded(form, registered(definition), [good, bad, good])


@pytest.mark.parametrize("cut", range(1, len(encoded(ORDER, {"id": 300, "customer": "abc", "amount": 1.0}))))
def test_truncated_value_names_row_and_field(cut):
    good = encoded(ORDER, {"id": 300, "customer": "abc", "amount": 1.0})
    with pytest.raises(Unreadable) as told:
        decoded(Avro(registered(ORDER)), registered(ORDER), [good, good[:cut], good])
    field = "id" if cut < 2 else "customer" if cut < 6 else "amount"
    assert (told.value.row, told.value.field) == (1, field)


def test_value_that_goes_on_behind_its_schema_is_unreadable():
    good = encoded(ORDER, {"id": 1, "customer": "abc", "amount": None})
    with pytest.raises(Unreadable, match="longer than its schema allows") as told:
        decoded(Avro(registered(ORDER)), registered(ORDER), [good, good + b"\0"])
    assert told.value.row == 1


@pytest.mark.parametrize(
    ("written", "read_as", "value", "found"),
    [
        ("int", "long", 7, 7),
        ("int", "float", 7, 7.0),
        ("long", "double", 1 << 40, float(1 << 40)),
        ("float", "double", 0.5, 0.5),
        ("string", "bytes", "é", "é".encode()),
        ("bytes", "string", "é".encode(), "é"),
        ("int", ["null", "long"], 7, 7),
        (["null", "int"], "int", None, None),  # a column may be null
        ("null", "int", None, None),
        ("null", ["int", "string"], None, None),
        (["null", "int"], "long", 3, 3),
        (["int", "string"], ["string", "null", "int"], "x", {"member0": "x", "member1": None}),
        (["int", "string"], ["string", "null", "int"], 5, {"member0": None, "member1": 5}),
        (["int", "long"], ["long", "int"], 1 << 40, 1 << 40),
        (["null", "float", "double"], ["null", "float", "double"], 0.5, 0.5),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "double"}, [1, 2], [1.0, 2.0]),
    ],
)
def test_type_is_read_as_one_that_it_may_stand_for(written, read_as, value, found):
    assert read(record(("f", written)), record(("f", read_as)), {"f": value}) == {"f": found}


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        ("string", "int"),
        ("long", "int"),
        ("double", "long"),
        ("boolean", "int"),
        ({"type": "array", "items": "int"}, {"type": "map", "values": "int"}),
        ({"type": "array", "items": "string"}, {"type": "array", "items": "int"}),
        ({"type": "fixed", "name": "F", "size": 2}, {"type": "fixed", "name": "F", "size": 3}),
        ("string", ["null", "int", "boolean"]),
    ],
)
def test_recursive_type_without_alternative_is_refused_before_read(written, read_as):
    inner = record(("f", written), name="Inner")
    with pytest.raises(Incompatible) as told:
        Avro(registered(record(("in", record(("f", read_as), name="Inner"))))).decoder(
            registered(record(("in", inner))), ["in"]
        )
    assert told.value.field == "in.f"


def test_only_row_of_branch_that_does_not_fit_is_refused():
    written, table = record(("f", ["int", "string"])), record(("f", "int"))
    form = Avro(registered(table))
    numbers = [encoded(written, {"f": number}) for number in range(3)]
    assert decoded(form, registered(written), numbers) == [{"f": number} for number in range(3)]
    with pytest.raises(Unreadable, match="string cannot be read as int") as told:
        decoded(form, registered(written), [*numbers, encoded(written, {"f": "x"})])
    assert (told.value.row, told.value.field) == (3, "f")


def test_field_that_was_renamed_is_found_by_its_alias():
    table = {"type": "record", "name": "R", "fields": [{"name": "who", "type": "string", "aliases": ["customer"]}]}
    assert read(ORDER, table, {"id": 1, "customer": "c", "amount": None}) == {"who": "c"}


def test_existing_field_name_is_no_alias():
    table = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "b", "type": "int"}, {"name": "a", "type": "int", "aliases": ["b", "c"]}],
    }
    form = Avro(registered(table))
    both = record(("b", "int"), ("a", "int"))
    assert decoded(form, registered(both), [encoded(both, {"b": 1, "a": 2})], ["a"]) == [{"a": 2}]
    older = record(("b", "int"), ("c", "int"))
    assert decoded(form, registered(older), [encoded(older, {"b": 1, "c": 3})], ["a"]) == [{"a": 3}]


def test_unwritten_field_without_default_is_null():
    assert read(ORDER, record(("id", "long"), ("more", "string")), {"id": 1, "customer": "c", "amount": 2.0}) == {
        "id": 1,
        "more": None,
    }


def test_only_requested_fields_are_built_in_that_order():
    values = [encoded(ORDER, {"id": number, "customer": "c", "amount": 2.0}) for number in range(3)]
    rows = decoded(Avro(registered(ORDER)), registered(ORDER), values, ["amount", "id"])
    assert [list(row.items()) for row in rows] == [[("amount", 2.0), ("id", number)] for number in range(3)]


def test_definition_that_is_no_record_is_one_column():
    form = Avro(registered({"type": "array", "items": "long"}))
    values = [encoded({"type": "array", "items": "long"}, one) for one in ([], [1, 2])]
    assert decoded(form, registered({"type": "array", "items": "long"}), values) == [{"value": []}, {"value": [1, 2]}]
    with pytest.raises(Incompatible, match="expected a record"):
        Avro(registered(ORDER)).decoder(registered("long"), ["id"])


def test_items_in_sized_blocks_are_read_or_skipped():
    blocks = b"\x03\x04\x02\x04\x02\x06\x00"  # two items of two bytes, then one, then the end
    written = record(("f", {"type": "array", "items": "long"}), ("g", "long"))
    both = decoded(Avro(registered(written)), registered(written), [blocks + b"\x08"])
    assert both == [{"f": [1, 2, 3], "g": 4}]
    table = record(("g", "long"))
    assert decoded(Avro(registered(table)), registered(written), [blocks + b"\x08"]) == [{"g": 4}]


def test_list_claiming_more_items_than_bytes_is_unreadable():
    for items in ("boolean", "long", "string", "double"):
        written = record(("f", {"type": "array", "items": items}))
        with pytest.raises(Unreadable, match="more items than bytes: 9223372036854775807"):
            decoded(Avro(registered(written)), registered(written), [b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"])


def test_numbers_that_are_none_come_through():
    (row,) = decoded(
        Avro(registered(record(("f", "double")))), registered(record(("f", "double"))), [b"\0" * 6 + b"\xf8\x7f"]
    )
    assert math.isnan(row["f"])


def test_no_rows_are_no_rows():
    assert decoded(Avro(registered(ORDER)), registered(ORDER), []) == []
