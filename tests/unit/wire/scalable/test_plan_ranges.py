"""A stretch as it stands in an answer: byte for byte what protobuf writes, and read back as it was."""

from __future__ import annotations

import random
from itertools import accumulate

import pytest

from magnetar.base.errors import Corrupt
from magnetar.layout.readable_range import NO_MARKS, START, CutColumns, ReadableRange, ReadPosition
from magnetar.wire.proto import pb
from magnetar.wire.scalable.plan_ranges import EncodedRange, counted, encode_range, read, write

EDGES = [0, 1, 63, 64, 127, 128, 8191, 8192, 16383, 16384, 2**21 - 1, 2**21, 2**28 - 1, 2**28, 2**42 - 1, 2**42, 2**56]


def by_protobuf(one: ReadableRange) -> bytes:
    """The message with every field that has a value, in one call; without its id, which comes first."""
    fields: dict[str, object] = {
        "start_ledger": one.start.ledger,
        "start_entry": one.start.entry,
        "ledger_id": one.columns.ledgers,
        "entry_id": one.columns.entries,
        "messages": one.columns.messages,
        "bytes": one.columns.bytes,
        "publish_time": one.columns.times,
        "end_ledger": one.end.ledger,
        "end_entry": one.end.entry,
        "messages_behind": one.messages,
        "bytes_behind": one.bytes,
    }
    fields |= {"start_row": one.start.row} if one.start.row else {}
    fields |= {name: True for name in ("sealed", "lost") if getattr(one, name)}
    whole = pb.PlanStretch(segment_id=0, **fields).SerializeToString()  # type: ignore[arg-type]
    assert whole[:2] == b"\x08\x00"
    return whole[2:]


def grown(chance: random.Random, count: int, *, least: int) -> list[int]:
    """From 0 on."""
    return list(accumulate((max(least, chance.choice(EDGES)) for _ in range(count)), initial=0))


@pytest.mark.parametrize("marks", [1, 2, 5, 8, 128])
def test_counted_range_is_encoded_exactly_as_by_protobuf(marks: int) -> None:
    chance = random.Random(marks)
    for _ in range(200 if marks < 100 else 20):
        entries, messages, sizes = (grown(chance, marks, least=least) for least in (1, 1, 0))
        at, skipped, skipped_bytes, ledger, time = (chance.choice(EDGES) for _ in range(5))
        place, columns = (ledger, at), ([at + one for one in entries], [skipped + one for one in messages])
        bodies = [skipped_bytes + one for one in sizes]
        found = counted(
            place,
            (columns[0][1:], columns[1][1:], bodies[1:]),
            (skipped, skipped_bytes),
            published_ms=time,
            sealed=bool(chance.randrange(2)),
        )
        end = ReadPosition(ledger, columns[0][-1])
        told_marks = CutColumns([ledger] * marks, columns[0][1:], messages[1:], sizes[1:], [time])
        same = ReadableRange(ReadPosition(*place), told_marks, found.sealed, False, end, messages[-1], sizes[-1])
        assert found.written == by_protobuf(same)
        assert (found.messages, found.bytes, found.row) == (same.messages, same.bytes, 0)
        assert found.stretch == same


def test_every_number_is_encoded_as_by_protobuf() -> None:
    for number in range(1, 2**14 + 300, 7):
        found = counted((number, number), ([number + 1], [number], [number]), (0, 0), published_ms=number, sealed=False)
        assert found.written == by_protobuf(found.stretch)
        assert found.stretch.columns == CutColumns([number], [number + 1], [number], [number], [number])


MARKS = CutColumns([1, 1, 2], [5, 9, 1], [5, 9, 10], [50, 90, 1 << 60], [99, 0, 0])
STRETCHES = [
    ReadableRange(START),
    ReadableRange(START, sealed=True),
    ReadableRange(ReadPosition(4, 4), NO_MARKS, True, True, ReadPosition(4, 4)),
    ReadableRange(ReadPosition(1, 0, 3), MARKS, True, True, ReadPosition(2, 7), 70, 700),
    ReadableRange(
        ReadPosition(1, 0), MARKS._replace(times=[7]), end=ReadPosition(2, 1), messages=2**63, bytes=2**64 - 1
    ),
    ReadableRange(ReadPosition(0, 0), MARKS._replace(times=[]), lost=True, end=ReadPosition(2**63 - 1, 2**63 - 1)),
]


@pytest.mark.parametrize("one", STRETCHES)
def test_any_range_is_encoded_as_by_protobuf_and_read_back(one: ReadableRange) -> None:
    assert write(one) == by_protobuf(one)
    passed_on = encode_range(one)
    assert (passed_on.messages, passed_on.bytes, passed_on.row) == (one.messages, one.bytes, one.start.row)
    assert passed_on.stretch is one
    assert passed_on.body == write(one)
    assert passed_on.body is passed_on.body  # once
    back = EncodedRange(one.messages, one.bytes, one.start.row, one.sealed, passed_on.body)
    assert back.stretch == one
    assert back.stretch is back.stretch


def test_marks_that_do_not_grow_are_refused() -> None:
    with pytest.raises(Corrupt):
        read(pb.PlanStretch(segment_id=1, ledger_id=[1, 1], entry_id=[2, 1], messages=[1, 2], bytes=[1, 2]))
