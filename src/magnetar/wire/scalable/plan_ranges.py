"""Encodes and decodes one readable range in the answer to PLAN, without its segment id.

Counts from a ledger's index are encoded directly from its columns, byte for byte as protobuf does. One answer has
ranges of up to a thousand segments, and a message object for each would take a third of its time. Decoding checks that
marks increase; otherwise it raises `Corrupt`. Encoding trusts its caller: no number is negative, columns have equal
lengths and few marks.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from magnetar.layout.readable_range import CutColumns, ReadableRange, ReadPosition
from magnetar.wire.broker_frames import _LOW, _LOW_BITS, _LOW_MASK, _WHOLE, varint
from magnetar.wire.proto import pb

_EVEN = _WHOLE[::2]  # numbers under 2^13 as sint64 writes them
_EVEN_MAX = _LOW_MASK >> 1
_TWICE_MAX = (1 << 2 * _LOW_BITS) - 1
_THRICE_MAX = (1 << 3 * _LOW_BITS) - 1
_SEALED = b"\x50\x01"

Body = bytes  # fields 2 to 15 of a PlanStretch


class EncodedRange(msgspec.Struct, gc=False):
    """A range that is only passed on: the messages from its start on, and the rest in one encoding, or in both after
    both were requested. One object per mark of a thousand segments would not fit into the processor's caches.
    """

    messages: int
    bytes: int
    row: int  # row of the start
    sealed: bool
    written: Body = b""
    listed: ReadableRange | None = None

    @property
    def body(self) -> Body:
        if not self.written:
            assert self.listed is not None
            self.written = write(self.listed)
        return self.written

    @property
    def stretch(self) -> ReadableRange:
        if self.listed is None:
            self.listed = read(pb.PlanStretch.FromString(b"\x08\x00" + self.written))
        return self.listed


def encode_range(range_: ReadableRange) -> EncodedRange:
    return EncodedRange(range_.messages, range_.bytes, range_.start.row, range_.sealed, b"", range_)


def counted(
    place: tuple[int, int],
    columns: tuple[Sequence[int], Sequence[int], Sequence[int]],
    before: tuple[int, int],
    *,
    published_ms: int,
    sealed: bool,
) -> EncodedRange:
    """The complete content of a ledger from `place` on. The columns are the next entry, the messages and the bytes of
    each mark, counted from the beginning of the ledger; the last mark is at the end. `before`: messages and bytes
    before the position. `published_ms` belongs to the first mark. The code avoids function calls, because an answer
    repeats it a thousand times.
    """
    (ledger, first), (entries, messages, sizes), (skipped, skipped_bytes) = place, columns, before
    total, size = messages[-1] - skipped, sizes[-1] - skipped_bytes
    here = _EVEN[ledger] if ledger <= _EVEN_MAX else varint(ledger << 1)
    if entries[-1] <= _EVEN_MAX:
        begun, places = _EVEN[first], [_EVEN[entry] for entry in entries]
    else:
        begun, places = varint(first << 1), [varint(entry << 1) for entry in entries]
    if _TWICE_MAX < published_ms <= _THRICE_MAX:
        time = (
            _LOW[published_ms & _LOW_MASK]
            + _LOW[published_ms >> _LOW_BITS & _LOW_MASK]
            + _WHOLE[published_ms >> 2 * _LOW_BITS]
        )
    else:
        time = varint(published_ms)
    counts, lengths = _varints(messages, skipped, total), _varints(sizes, skipped_bytes, size)
    ledgers, nexts, numbers, sized = here * len(entries), b"".join(places), b"".join(counts), b"".join(lengths)
    body = (
        b"\x10", here, b"\x18", begun,
        b"\x2a", _WHOLE[len(ledgers)], ledgers,
        b"\x32", _WHOLE[len(nexts)], nexts,
        b"\x3a", _WHOLE[len(numbers)], numbers,
        b"\x42", _WHOLE[len(sized)], sized,
        b"\x4a", _WHOLE[len(time)], time,
        _SEALED if sealed else b"",
        b"\x60", here, b"\x68", places[-1], b"\x70", counts[-1], b"\x78", lengths[-1],
    )  # fmt: skip
    return EncodedRange(total, size, 0, sealed, b"".join(body))


def _varints(numbers: Sequence[int], less: int, largest: int) -> list[bytes]:
    """Each number minus `less`, as varints; the largest number is known. Inlines `varint`."""
    if largest <= _LOW_MASK:
        return [_WHOLE[number - less] for number in numbers]
    if largest > _TWICE_MAX:
        return [varint(number - less) for number in numbers]
    return [
        _LOW[number & _LOW_MASK] + _WHOLE[number >> _LOW_BITS] if number > _LOW_MASK else _WHOLE[number]
        for number in [number - less for number in numbers]
    ]


def write(range_: ReadableRange) -> Body:
    """Encodes any range with protobuf."""
    start, end, (ledgers, entries, messages, sizes, times) = range_.start, range_.end, range_.columns
    message = pb.PlanStretch(
        start_ledger=start[0],
        start_entry=start[1],
        ledger_id=ledgers,
        entry_id=entries,
        messages=messages,
        bytes=sizes,
        publish_time=times,
        end_ledger=end[0],
        end_entry=end[1],
        messages_behind=range_.messages,
        bytes_behind=range_.bytes,
    )
    if start.row:
        message.start_row = start.row
    if range_.sealed:
        message.sealed = True
    if range_.lost:
        message.lost = True
    return message.SerializePartialToString()


def read(message: pb.PlanStretch) -> ReadableRange:
    start = ReadPosition(message.start_ledger, message.start_entry, message.start_row)
    marks = CutColumns(
        *map(list, (message.ledger_id, message.entry_id, message.messages, message.bytes, message.publish_time))
    )
    marks.check(start)
    end = ReadPosition(message.end_ledger, message.end_entry)
    return ReadableRange(start, marks, message.sealed, message.lost, end, message.messages_behind, message.bytes_behind)
