"""Batches under other numbers: byte for byte what a producer would have written, or no answer."""

from __future__ import annotations

from base64 import b64encode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.wire.batch_renumber import renumbered, rows
from magnetar.wire.message import join_batch, split_batch
from magnetar.wire.proto import pb
from magnetar.wire.send_frames import Extras, batch_payload, single_extras
from tests.support.search_effort import examples

TEXT = st.text(max_size=12) | st.text(min_size=100, max_size=140)
NUMBER = st.sampled_from([0, 1, 127, 128, 16_383, 16_384, 1 << 21, (1 << 28) - 3, 1 << 40, (1 << 63) - 9])


@st.composite
def said(draw: st.DrawFn) -> tuple[bytes, Extras]:
    key = draw(st.none() | TEXT.map(str.encode) | st.binary(max_size=9))
    base64 = False
    if key is not None:
        try:
            key.decode()
        except UnicodeDecodeError:
            key, base64 = b64encode(key), True
    properties = draw(st.none() | st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=3))
    null = draw(st.booleans())
    value = b"" if null else draw(st.binary(max_size=300))
    return value, single_extras(properties, key, base64, None, draw(st.sampled_from([0, 7, 1_700_000_000_000])), null)


@settings(max_examples=examples(60), deadline=None)
@given(messages=st.lists(said(), min_size=1, max_size=20), before=NUMBER, after=NUMBER, skip=st.integers(0, 19))
def test_only_numbers_change(messages: list[tuple[bytes, Extras]], before: int, after: int, skip: int) -> None:
    values = [value for value, _ in messages]
    extras = {place: one for place, (_, one) in enumerate(messages)}
    payload = batch_payload(values, before, None, extras)
    found = rows(payload, len(values))
    assert found is not None
    assert [row[4] for row in found] == [len(value) for value in values]
    assert b"".join(renumbered(payload, found, after)) == batch_payload(values, after, None, extras)
    skip = min(skip, len(values) - 1)
    rest = batch_payload(values[skip:], after, None, {n: extras[n + skip] for n in range(len(values) - skip)})
    assert b"".join(renumbered(payload, found[skip:], after)) == rest


def test_keys_are_told_as_wire_carries_them() -> None:
    extras = {
        0: single_extras(None, b"k", False, None, 0, False),
        1: single_extras(None, b"/wA=", True, None, 0, False),
    }
    found = rows(batch_payload([b"a", b"b", b"c"], 0, None, extras), 3)
    assert found is not None
    assert [row[5:] for row in found] == [(b"k", False), (b"/wA=", True), (None, False)]


@pytest.mark.parametrize(
    "other",
    [
        pb.SingleMessageMetadata(),  # no number
        pb.SingleMessageMetadata(sequence_id=1, ordering_key=b"o"),
        pb.SingleMessageMetadata(sequence_id=1, compacted_out=True),
        pb.SingleMessageMetadata(sequence_id=1, null_partition_key=True),
        pb.SingleMessageMetadata(sequence_id=1, properties=[pb.KeyValue(key="k" * 200, value="")]),
    ],
)
def test_what_is_written_in_another_way_has_no_answer(other: pb.SingleMessageMetadata) -> None:
    usual = pb.SingleMessageMetadata(sequence_id=0)
    assert rows(join_batch([(usual, b"v")]), 1) is not None
    assert rows(join_batch([(usual, b"v"), (other, b"v")]), 2) is None


@pytest.mark.parametrize(
    "head",
    [
        b"\x40\x01\x18\x01",  # the number before the size
        b"\x18\x01\x40\x01\x40\x02",  # two numbers
        b"\x12\x01a\x12\x01b\x18\x01\x40\x01",  # two keys
        b"\x0a\x03\x0a\x01a\x18\x01\x40\x01",  # a property without a value
        b"\x0a\x06\x0a\x01\xff\x12\x01b\x18\x01\x40\x01",  # whose name is no text
        b"\x18\x01\x30\x02\x40\x01",
        b"\x18\x01\x28" + b"\xff" * 10 + b"\x01\x40\x01",  # a time that is no number
        b"\x18\x81\x80\x80\x80\x00\x40\x01",  # a size in five bytes
    ],
)
def test_fields_out_of_order_or_twice_have_no_answer(head: bytes) -> None:
    assert rows(len(head).to_bytes(4, "big") + head + b"v", 1) is None


@settings(max_examples=examples(60), deadline=None)
@given(
    messages=st.lists(said(), min_size=1, max_size=4), flips=st.lists(st.tuples(st.integers(0), st.integers(0, 255)))
)
def test_inconsistent_bytes_have_no_answer_or_consistent_one(
    messages: list[tuple[bytes, Extras]], flips: list[tuple[int, int]]
) -> None:
    whole = bytearray(
        batch_payload([value for value, _ in messages], 0, None, {n: m[1] for n, m in enumerate(messages)})
    )
    for place, byte in flips:
        whole[place % len(whole)] = byte
    payload = bytes(whole)
    found = rows(payload, len(messages))
    if found is not None:
        copied = split_batch(b"".join(renumbered(payload, found, 5)), len(messages))
        assert [one.sequence_id for one, _ in copied] == list(range(5, 5 + len(messages)))
    assert rows(payload[:-1], len(messages)) is None or found is None
