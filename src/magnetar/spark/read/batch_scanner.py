"""Locates the messages of batches in their bytes, without creating an object per message.

`locate` finds the position of each message in a batch. It uses the sizes from the producer, or arithmetic if all
messages have the same shape, else a short loop, because each message begins at the end of the previous one. `read` then
reads the fields of all rows of many batches together, field by field in the usual order of writers. A row in another
order is marked `strange`, and protobuf reads it. Sizes are untrusted: a wrong size raises `Corrupt`, the only error of
this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from struct import error as StructError

import numpy as np
from numpy.typing import NDArray

from magnetar.base.errors import Corrupt

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
Numbers = NDArray[np.uint64]

# bytes after a buffer that `read` may access: a number that starts at the end of data stays inside the buffer
PADDING = 16

_ROW_BYTES_MIN = 6  # a size, and metadata with the payload size
_SHAPED_ROWS_MIN = 16  # for fewer rows, the loop is faster than arithmetic
_NUMBER_BYTES_MAX = 10
_BEYOND = 1 << 62  # greater than the end of any metadata
_LENGTH = Struct(">I")
_WIDTHS = {2: "<u2", 4: "<u4"}  # widths of the numbers in an index

# Tags of SingleMessageMetadata, in ascending order.
_PROPERTY, _KEY, _SIZE, _COMPACTED, _EVENT_TIME = 0x0A, 0x12, 0x18, 0x20, 0x28
_BASE64, _ORDERING_KEY, _SEQUENCE, _NULL, _NULL_KEY = 0x30, 0x3A, 0x40, 0x48, 0x50
_BEFORE_SIZE = (_KEY, _PROPERTY)


def locate(
    data: bytes, count: int, begin: int = 0, index: bytes = b""
) -> tuple[Ints, Ints] | tuple[list[int], list[int]]:
    """The begin and end of the payloads of `count` messages in `data`, the first of them after `begin`. The metadata of
    each message begins four bytes after the end of the previous message. The messages must fill the rest exactly.
    `index` has the sizes from the producer; it is ignored if it does not fit the batch, as after a compaction.
    """
    if count < 1 or count * _ROW_BYTES_MIN > len(data) - begin:
        raise Corrupt("a batch is too small for its number of messages", claimed=count, bytes=len(data) - begin)
    located = _by_index(data, count, begin, index) if index else None
    if located is not None:
        return located
    shaped = _one_shape(data, count, begin) if count >= _SHAPED_ROWS_MIN else None
    return _one_by_one(data, count, begin) if shaped is None else shaped


def _by_index(data: bytes, count: int, begin: int, index: bytes) -> tuple[Ints, Ints] | None:
    width = _WIDTHS.get(index[0])
    if width is None or len(index) != 1 + count * index[0]:
        return None
    sizes = np.frombuffer(index, width, offset=1).astype(np.int64)
    ends = begin + np.cumsum(sizes)
    if ends[-1] != len(data) or sizes.min() < _ROW_BYTES_MIN:
        return None
    starts = ends - sizes
    whole = np.frombuffer(data, np.uint8)
    length = np.zeros(count, np.int64)
    for place in range(4):
        length = length << 8 | whole[starts + place]
    bodies = starts + 4 + length
    return None if (bodies > ends).any() else (bodies, ends)


def _one_shape(data: bytes, count: int, begin: int) -> tuple[Ints, Ints] | None:
    """For messages that all have the sizes of the first one: the bytes up to these sizes must be equal."""
    body = begin + 4 + int(_LENGTH.unpack_from(data, begin)[0])
    if body > len(data):
        return None
    same = [0, 1, 2, 3]  # bytes that must be equal in all messages
    at = begin + 4
    while at + 1 < body and data[at] in _BEFORE_SIZE and data[at + 1] < 128:
        same += (at - begin, at - begin + 1)
        at += 2 + data[at + 1]
    if at + 1 >= body or data[at] != _SIZE:
        return None
    size = data[at + 1]
    same += (at - begin, at - begin + 1)
    if size >= 128:
        if at + 2 >= body or data[at + 2] >= 128:
            return None
        size += (data[at + 2] << 7) - 128
        same.append(at - begin + 2)
    stride = body + size - begin
    if stride * count != len(data) - begin:
        return None
    table = np.frombuffer(data, np.uint8, offset=begin).reshape(count, stride)
    if not (table[:, same] == table[0, same]).all():
        return None
    bodies = body + stride * np.arange(count, dtype=np.int64)
    return bodies, bodies + size


def _one_by_one(data: bytes, count: int, begin: int) -> tuple[list[int], list[int]]:
    bodies = [0] * count
    ends = [0] * count
    unpack = _LENGTH.unpack_from
    end = begin
    index = 0
    try:
        for index in range(count):
            at = end + 4
            body = at + unpack(data, end)[0]
            tag = data[at]
            while tag in _BEFORE_SIZE:
                skip = data[at + 1]
                if skip >= 128:
                    break
                at += 2 + skip
                tag = data[at]
            if tag != _SIZE:
                size = _size(data, end + 4, body)
            else:
                size = data[at + 1]
                at += 2
                if size >= 128:
                    high = data[at]
                    at += 1
                    size = size - 128 + (high << 7) if high < 128 else _size(data, end + 4, body)
                if at > body:
                    raise _torn(index)
            bodies[index] = body
            ends[index] = end = body + size
    except (IndexError, StructError):
        raise _torn(index) from None
    if end != len(data):
        raise Corrupt("the messages of a batch are shorter than the batch", claimed=count, bytes=len(data) - begin)
    return bodies, ends


def _size(payload: bytes, at: int, body: int) -> int:
    """The payload's size if it is not at its usual place: the last value wins."""
    size = -1
    while at < body:
        tag, at = _number(payload, at)
        kind = tag & 7
        if kind == 0:
            value, at = _number(payload, at)
            size = value if tag == _SIZE else size
        elif kind == 2:
            length, at = _number(payload, at)
            at += length
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            raise IndexError
    if at != body or not 0 <= size < 1 << 31:
        raise IndexError
    return size


def _number(payload: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = payload[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise IndexError


def _torn(place: int) -> Corrupt:
    return Corrupt("a message of a batch has an invalid size", place=place)


@dataclass(slots=True)
class MessageColumns:
    """Fields of messages, as positions in one buffer. A start of -1 means that the field is missing."""

    value_start: Ints
    value_end: Ints
    key_start: Ints
    key_end: Ints
    ordering_start: Ints
    ordering_end: Ints
    key_base64: Bools
    null: Bools
    null_key: Bools
    compacted: Bools
    event_ms: Numbers  # 0 if not set
    sequence: Numbers
    sequenced: Bools  # whether the row has its own sequence id
    properties: Bools  # whether the row has properties
    strange: Bools  # unusual field order: only the value is read

    def __len__(self) -> int:
        return len(self.value_start)


def read(buffer: Bytes, heads: Ints, bodies: Ints, ends: Ints) -> MessageColumns:
    """The fields of rows whose metadata is in `[heads, bodies)`. `buffer` has PADDING after its data."""
    walk = _Walk(buffer, heads, bodies)
    properties = walk.skip_repeated(_PROPERTY)
    key_start, key_end = walk.text(_KEY)
    sized, size = walk.number(_SIZE)
    compacted = walk.flag(_COMPACTED)
    event_ms = walk.number(_EVENT_TIME)[1]
    base64 = walk.flag(_BASE64)
    ordering_start, ordering_end = walk.text(_ORDERING_KEY)
    sequenced, sequence = walk.number(_SEQUENCE)
    null, null_key = walk.flag(_NULL), walk.flag(_NULL_KEY)
    strange = walk.strange | (walk.at != bodies) | ~sized
    if (~strange & (size != (ends - bodies).astype(np.uint64))).any():
        raise Corrupt("the messages of a batch do not match the sizes in its index")
    return MessageColumns(
        bodies,
        ends,
        key_start,
        key_end,
        ordering_start,
        ordering_end,
        base64,
        null,
        null_key,
        compacted,
        event_ms,
        sequence,
        sequenced,
        properties,
        strange,
    )


class _Walk:
    """Processes all rows together: each step advances the rows whose next field it reads."""

    def __init__(self, buffer: Bytes, heads: Ints, bodies: Ints) -> None:
        self._buffer = buffer
        self._bodies = bodies
        self.at = heads.copy()
        self.strange = bodies < heads
        self._tag = np.where((heads < bodies) & ~self.strange, buffer[heads], np.uint8(0))

    def text(self, tag: int) -> tuple[Ints, Ints]:
        """The position of the bytes of a field."""
        starts = np.full(len(self.at), -1, np.int64)
        ends = starts.copy()
        rows = self._rows(tag)
        if rows is not None:
            length, start = self._value(rows)
            end = start + np.minimum(length, np.uint64(1 << 40)).astype(np.int64)
            beyond = self._move(rows, end)
            starts[rows] = np.where(beyond, -1, start)
            ends[rows] = np.where(beyond, -1, end)
        return starts, ends

    def skip_repeated(self, tag: int) -> Bools:
        repeated = np.zeros(len(self.at), np.bool_)
        while True:
            there = self.text(tag)[0] >= 0
            if not there.any():
                return repeated
            repeated |= there

    def number(self, tag: int) -> tuple[Bools, Numbers]:
        there = np.zeros(len(self.at), np.bool_)
        values = np.zeros(len(self.at), np.uint64)
        rows = self._rows(tag)
        if rows is not None:
            values[rows], at = self._value(rows)
            there[rows] = True
            self._move(rows, at)
        return there, values

    def flag(self, tag: int) -> Bools:
        result: Bools = self.number(tag)[1] != 0
        return result

    def _rows(self, tag: int) -> Ints | slice | None:
        """The rows whose next field has this tag."""
        here = self._tag == tag
        if here.all():
            return slice(None) if len(here) else None
        rows = np.flatnonzero(here)
        return rows if rows.size else None

    def _value(self, rows: Ints | slice) -> tuple[Numbers, Ints]:
        """The number after the tag of each of these rows, and the position after it."""
        at = self.at[rows] + 1
        byte = self._buffer[at]
        values = (byte & 127).astype(np.uint64)
        at += 1
        left = np.flatnonzero(byte >= 128)
        shift = 7
        while left.size and shift < 7 * _NUMBER_BYTES_MAX:
            byte = self._buffer[at[left]]
            values[left] |= (byte & 127).astype(np.uint64) << np.uint64(shift)
            at[left] += 1
            left = left[byte >= 128]
            shift += 7
        at[left] = _BEYOND
        return values, at

    def _move(self, rows: Ints | slice, at: Ints) -> Bools:
        """Advances to the next field. Rows that would leave their metadata do not advance; they are returned as
        strange.
        """
        bodies = self._bodies[rows]
        beyond: Bools = at > bodies
        if beyond.any():
            at = np.where(beyond, bodies, at)
            self.strange[rows] |= beyond
        self.at[rows] = at
        self._tag[rows] = np.where(at < bodies, self._buffer[at], np.uint8(0))
        return beyond
