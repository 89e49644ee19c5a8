"""The stored form of an entry in a store that has no index of its own: the entry behind a block with its counts.

The block has the byte form of Pulsar's broker entry metadata: 0x0e02, its size in four bytes, and a protobuf message.
`index` is the number of messages in the ledger up to the end of this entry, minus one. Two fields of ours hold the
messages of this entry and the bytes of all entries up to its end. So two stored entries give the counts between them. A
reader removes the block. Entries of other brokers have no block, or one without our fields: both decode, without
counts. A block that contradicts itself is `Corrupt`. Hot: plain functions over runs, no object for an entry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct

from magnetar.base.errors import Corrupt
from magnetar.ledger.run import Run

MAGIC = 0x0E02
INDEX_FIELD = 2
MESSAGES_FIELD = 10009  # ours: docs/PROTOCOL.md has the registry
BYTES_FIELD = 10010
BLOCK_BYTES_MAX = 38  # header 6, index 1 + 10, messages 3 + 5, bytes 3 + 10
UNCOUNTED = -1

_HEAD = Struct(">HI")
_HEAD_BYTES = _HEAD.size
_MAGIC_BYTES = MAGIC.to_bytes(2, "big")
_WIRE_BYTES = {
    0: 0,
    1: 8,
    2: 0,
    5: 4,
}  # of protobuf's wire types: bytes behind the tag, and behind the varint if there is one

CountOf = Callable[[bytes], int]


def one_message(entry: bytes) -> int:
    """For entries without a count in ledgers that hold no batches."""
    return 1


def encode_entries(run: Run, messages: int, size: int) -> list[bytes]:
    """The stored form of each entry of a run. `messages` and `size`: of all entries of the ledger before the run."""
    body, start = run.body, run.offsets[0]
    stored: list[bytes] = []
    for own, end in zip(run.counts, run.offsets[1:], strict=True):
        assert own > 0, "an entry has at least one message"
        messages += own
        size += end - start
        block = b"\x10" + _varint(messages - 1) + _MESSAGES_TAG + _varint(own) + _BYTES_TAG + _varint(size)
        stored.append(_HEAD.pack(MAGIC, len(block)) + block + body[start:end])
        start = end
    return stored


def decode_entry(stored: bytes) -> tuple[int, int, int, int]:
    """Where the entry starts in its stored form, its messages, and the messages and bytes of the ledger up to its end.
    The three counts are UNCOUNTED if the entry does not carry them."""
    if stored[:2] != _MAGIC_BYTES:
        return 0, UNCOUNTED, UNCOUNTED, UNCOUNTED
    if len(stored) < _HEAD_BYTES:
        raise Corrupt("a stored entry ends inside its block of counts", bytes=len(stored))
    start: int = _HEAD_BYTES + _HEAD.unpack_from(stored)[1]
    if start > len(stored):
        raise Corrupt("the block of counts is longer than the stored entry", block=start, bytes=len(stored))
    index = own = size = UNCOUNTED
    position = _HEAD_BYTES
    while position < start:
        tag, position = _read_varint(stored, position, start)
        field, wire_type = tag >> 3, tag & 7
        if wire_type not in _WIRE_BYTES or not field:
            raise Corrupt("the block of counts has a field of an unknown type", field=field, type=wire_type)
        if wire_type == 0:
            value, position = _read_varint(stored, position, start)
            if field == INDEX_FIELD:
                index = value
            elif field == MESSAGES_FIELD:
                own = value
            elif field == BYTES_FIELD:
                size = value
            continue
        more = 0
        if wire_type == 2:
            more, position = _read_varint(stored, position, start)
        position += _WIRE_BYTES[wire_type] + more
    if position != start:
        raise Corrupt("a field is longer than the block of counts", block=start, field=position)
    if own == UNCOUNTED or size == UNCOUNTED:
        return start, UNCOUNTED, UNCOUNTED, UNCOUNTED  # of another broker: its index counts over ledgers
    if not 0 < own <= index + 1 or size < len(stored) - start:
        raise Corrupt("the counts of a stored entry contradict each other", messages=own, index=index, bytes=size)
    return start, own, index + 1, size


def decode_entries(
    stored: Sequence[bytes], ledger: int, first: int, *, count_of: CountOf = one_message, bytes_max: int | None = None
) -> Run:
    """Consecutive stored entries as a run: those that fit `bytes_max`, and at least the first. `count_of` counts the
    messages of an entry that does not carry them."""
    parts: list[memoryview] = []
    offsets, end = [0], 0
    counts: list[int] = []
    for entry in stored:
        start, own, _, _ = decode_entry(entry)
        end += len(entry) - start
        if bytes_max is not None and end > bytes_max and parts:
            break
        parts.append(memoryview(entry)[start:])
        offsets.append(end)
        counts.append(count_of(entry[start:]) if own == UNCOUNTED else own)
    return Run(b"".join(parts), offsets, counts, sum(counts), ledger, first)


def _varint(value: int) -> bytes:
    if value < 0x80:
        return _BYTE[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varint(buffer: bytes, position: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while position < end and shift < 70:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise Corrupt("a number in the block of counts does not end", place=position)


_BYTE = [bytes((value,)) for value in range(0x80)]
_MESSAGES_TAG = _varint(MESSAGES_FIELD << 3)
_BYTES_TAG = _varint(BYTES_FIELD << 3)
