"""The messages of batches, found in their bytes without an object for any of them.

`locate` finds where each message of a batch lies: by arithmetic where all have one shape, else by a short loop, because
each begins where the one before it ends. `read` then reads the fields of all rows of many batches at once, field by
field in the order everybody writes them; a row that is written otherwise is marked `strange` and left to protobuf.
Sizes are a peer's word: what does not fit is `Corrupt`, nothing else is raised.
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

PADDING = 16  # bytes after a buffer that `read` may look at: a number that starts at its end is still inside

_ROW_BYTES_MIN = 6  # a size, and metadata that says how large the payload is
_SHAPED_ROWS_MIN = 16  # below, the loop is quicker than arithmetic
_NUMBER_BYTES_MAX = 10
_LENGTH = Struct(">I")

# Tags of SingleMessageMetadata, in the order of their numbers.
_PROPERTY, _KEY, _SIZE, _COMPACTED, _EVENT_TIME = 0x0A, 0x12, 0x18, 0x20, 0x28
_BASE64, _ORDERING_KEY, _SEQUENCE, _NULL, _NULL_KEY = 0x30, 0x3A, 0x40, 0x48, 0x50
_BEFORE_SIZE = (_KEY, _PROPERTY)


def locate(payload: bytes, count: int) -> tuple[Ints, Ints]:
    """Where the payloads of `count` messages begin and end; each one's metadata begins four bytes behind the end of the
    one before. They must fill the payload exactly.
    """
    if count < 1 or count * _ROW_BYTES_MIN > len(payload):
        raise Corrupt("a batch cannot hold as many messages as it claims", claimed=count, bytes=len(payload))
    shaped = _one_shape(payload, count) if count >= _SHAPED_ROWS_MIN else None
    return _one_by_one(payload, count) if shaped is None else shaped


def _one_shape(payload: bytes, count: int) -> tuple[Ints, Ints] | None:
    """If all messages have the sizes of the first one: everything up to those sizes must be alike."""
    body = 4 + int(_LENGTH.unpack_from(payload)[0])
    if body > len(payload):
        return None
    same = [0, 1, 2, 3]  # bytes that no message may have otherwise
    at = 4
    while at + 1 < body and payload[at] in _BEFORE_SIZE and payload[at + 1] < 128:
        same += (at, at + 1)
        at += 2 + payload[at + 1]
    if at + 1 >= body or payload[at] != _SIZE:
        return None
    size = payload[at + 1]
    same += (at, at + 1)
    if size >= 128:
        if at + 2 >= body or payload[at + 2] >= 128:
            return None
        size += (payload[at + 2] << 7) - 128
        same.append(at + 2)
    stride = body + size
    if stride * count != len(payload):
        return None
    table = np.frombuffer(payload, np.uint8).reshape(count, stride)
    if not (table[:, same] == table[0, same]).all():
        return None
    bodies = body + stride * np.arange(count, dtype=np.int64)
    return bodies, bodies + size


def _one_by_one(payload: bytes, count: int) -> tuple[Ints, Ints]:
    bodies = [0] * count
    ends = [0] * count
    unpack = _LENGTH.unpack_from
    end = 0
    index = 0
    try:
        for index in range(count):
            at = end + 4
            body = at + unpack(payload, end)[0]
            tag = payload[at]
            while tag in _BEFORE_SIZE:
                skip = payload[at + 1]
                if skip >= 128:
                    break
                at += 2 + skip
                tag = payload[at]
            if tag != _SIZE:
                size = _size(payload, end + 4, body)
            else:
                size = payload[at + 1]
                at += 2
                if size >= 128:
                    high = payload[at]
                    at += 1
                    size = size - 128 + (high << 7) if high < 128 else _size(payload, end + 4, body)
                if at > body:
                    raise _torn(index)
            bodies[index] = body
            ends[index] = end = body + size
    except (IndexError, StructError):
        raise _torn(index) from None
    if end != len(payload):
        raise Corrupt("the messages of a batch do not fill it", claimed=count, bytes=len(payload), filled=end)
    return np.array(bodies, np.int64), np.array(ends, np.int64)


def _size(payload: bytes, at: int, body: int) -> int:
    """The payload's size where it does not stand in its usual place: the last one that is said."""
    found = -1
    while at < body:
        tag, at = _number(payload, at)
        kind = tag & 7
        if kind == 0:
            value, at = _number(payload, at)
            found = value if tag == _SIZE else found
        elif kind == 2:
            length, at = _number(payload, at)
            at += length
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            raise IndexError
    if at != body or not 0 <= found < 1 << 31:
        raise IndexError
    return found


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
    return Corrupt("a message of a batch has no true size", place=place)


@dataclass(slots=True)
class Rows:
    """Fields of messages, as places in one buffer. A start of -1 is a field that is not there."""

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
    event_ms: Numbers  # 0 where none was given
    sequence: Numbers
    sequenced: Bools  # has a sequence id of its own
    properties: Bools  # has any
    strange: Bools  # written in another way: nothing but the value is read

    def __len__(self) -> int:
        return len(self.value_start)


def read(buffer: Bytes, heads: Ints, bodies: Ints, ends: Ints) -> Rows:
    """The fields of rows whose metadata lies in `[heads, bodies)`. `buffer` has PADDING behind it."""
    walk = _Walk(buffer, heads, bodies)
    properties = walk.skip_repeated(_PROPERTY)
    key_start, key_end = walk.text(_KEY)
    sized = walk.number(_SIZE)[0]
    compacted = walk.flag(_COMPACTED)
    event_ms = walk.number(_EVENT_TIME)[1]
    base64 = walk.flag(_BASE64)
    ordering_start, ordering_end = walk.text(_ORDERING_KEY)
    sequenced, sequence = walk.number(_SEQUENCE)
    null, null_key = walk.flag(_NULL), walk.flag(_NULL_KEY)
    strange = walk.strange | (walk.at != bodies) | ~sized
    return Rows(
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
    """All rows side by side: each step moves those on whose next field it is."""

    def __init__(self, buffer: Bytes, heads: Ints, bodies: Ints) -> None:
        self._buffer = buffer
        self._bodies = bodies
        self.at = heads.copy()
        self.strange = bodies < heads

    def text(self, tag: int) -> tuple[Ints, Ints]:
        """Where the bytes of a field lie."""
        starts = np.full(len(self.at), -1, np.int64)
        ends = starts.copy()
        rows = self._rows(tag)
        if rows.size:
            length = self._value(rows)
            start = self.at[rows]
            end = start + np.minimum(length, np.uint64(1 << 40)).astype(np.int64)
            rows, start, end = self._inside(rows, start, end)
            starts[rows], ends[rows], self.at[rows] = start, end, end
        return starts, ends

    def skip_repeated(self, tag: int) -> Bools:
        found = np.zeros(len(self.at), np.bool_)
        while True:
            starts, _ = self.text(tag)
            there = starts >= 0
            if not there.any():
                return found
            found |= there

    def number(self, tag: int) -> tuple[Bools, Numbers]:
        there = np.zeros(len(self.at), np.bool_)
        values = np.zeros(len(self.at), np.uint64)
        rows = self._rows(tag)
        if rows.size:
            values[rows] = self._value(rows)
            there[rows] = True
        return there, values

    def flag(self, tag: int) -> Bools:
        result: Bools = self.number(tag)[1] != 0
        return result

    def _rows(self, tag: int) -> Ints:
        """The rows whose next field this is."""
        here = (self.at < self._bodies) & ~self.strange
        here &= self._buffer[np.where(here, self.at, 0)] == tag
        return np.flatnonzero(here)

    def _value(self, rows: Ints) -> Numbers:
        """The number behind the tag of each of these rows, which are moved behind it."""
        values = np.zeros(len(rows), np.uint64)
        at = self.at[rows] + 1
        left = np.arange(len(rows))
        for turn in range(_NUMBER_BYTES_MAX):
            byte = self._buffer[at[left]]
            values[left] |= (byte & 127).astype(np.uint64) << np.uint64(7 * turn)
            at[left] += 1
            left = left[byte >= 128]
            if not left.size:
                break
        self.strange[rows[left]] = True
        self.strange[rows[at > self._bodies[rows]]] = True
        self.at[rows] = at
        return values

    def _inside(self, rows: Ints, start: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
        """Without the rows whose field reaches beyond their metadata."""
        beyond = (end > self._bodies[rows]) | self.strange[rows]
        self.strange[rows[beyond]] = True
        fits = ~beyond
        return rows[fits], start[fits], end[fits]
