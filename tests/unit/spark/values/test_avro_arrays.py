"""Items of lists and maps, read side by side: the same whatever way they were found, and none that is not there."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from magnetar.base.limits import SPARK_EMPTY_ITEMS_MAX
from magnetar.spark.values.avro import Avro
from magnetar.spark.values.value_schema import Unreadable
from tests.support.avro_definitions import by_another, decoded, encoded, record, registered

INNER = record(("a", "long"), ("b", "string"), ("c", ["null", "double"]), name="Inner")
NUMBERS = record(("x", "int"), ("y", {"type": "enum", "name": "E", "symbols": ["A", "B"]}), name="Numbers")
WIDE = record(("x", "float"), ("y", {"type": "fixed", "name": "F", "size": 3}), name="Wide")
DEEP = {"type": "map", "values": {"type": "array", "items": ["null", "string"]}}


def word(chance):
    return "".join(chance.choices("abcé", k=chance.choice((0, 1, 5, 90))))


ITEMS = {
    "long": ("long", lambda chance: chance.choice((1, -70, 1 << 40, -(1 << 63)))),
    "double": ("double", lambda chance: chance.random()),
    "string": ("string", word),
    "numbers": (NUMBERS, lambda chance: {"x": chance.randrange(-300, 300), "y": chance.choice("AB")}),
    "wide": (WIDE, lambda chance: {"x": 0.5, "y": chance.randbytes(3)}),
    "record": (INNER, lambda chance: {"a": 7, "b": word(chance), "c": chance.choice((None, 0.5))}),
    "deep": (DEEP, lambda chance: {word(chance): [None, word(chance)] for _ in range(chance.randrange(3))}),
    "union": (["null", "int", "string"], lambda chance: chance.choice((None, 5, "x"))),
}
# Rows, and up to how many items each has: side by side, steps past them, a scan of each; and one that is long.
SHAPES = {"many": (2100, 2), "some": (300, 5), "few": (8, 40), "one": (1, 300)}
DIFFERENT = 20


def definition(kind, container):
    items = ITEMS[kind][0]
    inside = {"type": "array", "items": items} if container == "array" else {"type": "map", "values": items}
    return record(("before", "int"), ("f", inside), ("after", "int"))


def rows_of(kind, container, shape):
    """Some that differ; as often as there are to be rows."""
    chance = random.Random(f"{kind} {container} {shape}")
    count, most = SHAPES[shape]
    made = ITEMS[kind][1]
    for number in range(min(count, DIFFERENT)):
        found = [made(chance) for _ in range(most if count == 1 else chance.randint(0, most))]
        if container == "map":
            yield {"before": number, "f": {f"k{place}": one for place, one in enumerate(found)}, "after": -number}
        else:
            yield {"before": number, "f": found, "after": -number}


def repeated(values, shape):
    count = SHAPES[shape][0]
    return (values * -(-count // len(values)))[:count]


def plain(kind, items):
    """A union of several types is a struct of them in a table."""
    if kind != "union":
        return items
    return [
        None if one is None else {"member0": one if one == 5 else None, "member1": "x" if one == "x" else None}
        for one in items
    ]


def same(written, table, values, shape, expected):
    found = decoded(Avro(registered(table)), registered(written), repeated(values, shape))
    assert found == repeated(expected, shape)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ITEMS)
def test_list_equals_reading_of_another_implementation(kind, shape):
    written = definition(kind, "array")
    values = [encoded(written, row) for row in rows_of(kind, "array", shape)]
    expected = [by_another(written, written, one) for one in values]
    same(written, written, values, shape, [{**one, "f": plain(kind, one["f"])} for one in expected])
    # And where nobody reads it, it is passed over.
    same(written, record(("after", "int")), values, shape, [{"after": one["after"]} for one in expected])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["long", "record"])
def test_map_equals_reading_of_another_implementation(kind, shape):
    written = definition(kind, "map")
    values = [encoded(written, row) for row in rows_of(kind, "map", shape)]
    expected = [by_another(written, written, one) for one in values]
    same(written, written, values, shape, expected)
    same(written, record(("after", "int")), values, shape, [{"after": one["after"]} for one in expected])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["long", "double", "numbers", "record", "deep"])
def test_torn_list_names_row_and_field(kind, shape):
    written = definition(kind, "array")
    values = repeated([encoded(written, row) for row in rows_of(kind, "array", shape)], shape)
    torn = max(range(len(values)), key=lambda place: len(values[place]))
    for end in {2, len(values[torn]) // 2}:  # behind `before`, which takes one byte
        bad = [*values[:torn], values[torn][:end], *values[torn + 1 :]]
        for table in (written, record(("after", "int"))):
            with pytest.raises(Unreadable) as told:
                decoded(Avro(registered(table)), registered(written), bad)
            assert told.value.row == torn
            assert told.value.field.startswith("f")


def test_field_inside_torn_item_is_named_with_path_to_it():
    written = record(("f", {"type": "array", "items": INNER}))
    good = encoded(written, {"f": [{"a": 1, "b": "xyz", "c": None}] * 50})
    with pytest.raises(Unreadable) as told:
        decoded(Avro(registered(written)), registered(written), [good, good[:-4]])
    assert (told.value.row, told.value.field) == (1, "f.b")


def test_blocks_of_different_rows_keep_row_order():
    written = record(("f", {"type": "array", "items": "string"}))
    form = Avro(registered(written))
    values = [b"\x04\x02a\x02b\x02\x02c\x00", b"\x00", b"\x02\x02d\x00", b"\x03\x08\x02e\x02f\x02\x02g\x02\x02h\x00"]
    found = decoded(form, registered(written), values)
    assert [one["f"] for one in found] == [["a", "b", "c"], [], ["d"], ["e", "f", "g", "h"]]


@pytest.mark.parametrize("container", ["array", "map"])
def test_overlong_number_equals_minimal_one_in_scan(container):
    """The length of a text in ten bytes, with bits that fall off the end of 64."""
    length = b"\x84" + b"\x80" * 8 + b"\x02"
    item = (b"\x02k" if container == "map" else b"") + length + b"ab"
    items = {"type": "array", "items": "string"} if container == "array" else {"type": "map", "values": "string"}
    written = record(("f", items))
    data = b"\x06" + item.replace(b"k", b"1") + item.replace(b"k", b"2") + item.replace(b"k", b"3") + b"\x00"
    (row,) = decoded(Avro(registered(written)), registered(written), [data])
    assert list(row["f"].values() if container == "map" else row["f"]) == ["ab"] * 3


@pytest.mark.timeout(60)
def test_negative_text_length_does_not_move_scan_back():
    strings = {"type": "array", "items": "string"}
    written = record(("f", {"type": "array", "items": strings}))
    with pytest.raises(Unreadable, match="its length exceeds the value") as told:
        decoded(Avro(registered(written)), registered(written), [b"\x04\x02\x03\x00\x00\x00"])
    assert told.value.field == "f"


def test_branch_below_none_is_refused_in_scan():
    written = record(("f", {"type": "array", "items": ["null", "string"]}))
    with pytest.raises(Unreadable, match="branch is not in the union: -1") as told:
        decoded(Avro(registered(written)), registered(written), [b"\x04\x01\x02a\x00\x00"])
    assert told.value.field == "f"


@pytest.mark.parametrize(
    ("items", "item"),
    [
        ("null", None),
        (record(name="Empty"), {}),
        (record(("nothing", "null"), name="Nothing"), {"nothing": None}),
        ({"type": "fixed", "name": "None", "size": 0}, b""),
    ],
)
def test_zero_width_items_are_counted_as_written(items, item):
    written = record(("f", {"type": "array", "items": items}), ("after", "int"))
    values = [encoded(record(("n", "long")), {"n": n}) + (b"\x00\x02" if n else b"\x02") for n in (3, 0, 1)]
    found = decoded(Avro(registered(written)), registered(written), values)
    assert found == [{"f": [item] * n, "after": 1} for n in (3, 0, 1)]
    assert decoded(Avro(registered(record(("after", "int")))), registered(written), values) == [{"after": 1}] * 3


@pytest.mark.parametrize("count", [SPARK_EMPTY_ITEMS_MAX + 1, (1 << 63) - 1, -(1 << 63), -SPARK_EMPTY_ITEMS_MAX - 1])
def test_too_many_zero_width_items_are_refused_by_field(count):
    written = record(("f", {"type": "array", "items": "null"}), ("after", "int"))
    claims = encoded("long", count) + (b"\x00" if count < 0 else b"") + b"\x00\x00"
    with pytest.raises(Unreadable, match=rf"more than .* items without bytes.*: {count}$") as told:
        decoded(Avro(registered(written)), registered(written), [b"\x02\x00\x00", claims])
    assert (told.value.row, told.value.field) == (1, "f")


def test_items_without_bytes_are_counted_over_all_blocks_and_rows():
    written = record(("f", {"type": "array", "items": "null"}))
    half = encoded("long", SPARK_EMPTY_ITEMS_MAX // 2 + 1)
    for values in ([half + half + b"\x00"], [half + b"\x00"] * 2):
        with pytest.raises(Unreadable, match=r"more than .* items without bytes") as told:
            Avro(registered(written)).decoder(registered(written), ["f"])(pa.array(values, pa.binary()))
        assert told.value.row == len(values) - 1
