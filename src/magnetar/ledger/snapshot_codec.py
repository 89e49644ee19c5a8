"""Bytes of snapshots: varints, tagged sections, and lists of numbers that pack and unpack at the speed of the
interpreter's C loops.

A list of numbers is cut into blocks; each block has the width (1, 2, 4 or 8 bytes) that its largest number needs, so
that one large number does not widen the rest. Reading trusts nothing: any inconsistency is `Corrupt`, and no length is
used beyond the bytes that exist.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import sub

from magnetar.base.errors import Corrupt

_BLOCK_NUMBERS = 1024
_TYPECODES = {1: "B", 2: "H", 4: "I", 8: "Q"}
assert all(array(code).itemsize == width for width, code in _TYPECODES.items()), (
    "the number widths of this platform are not supported"
)

Section = tuple[int, bytes]


def varint(value: int) -> bytes:
    assert value >= 0
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def pack(numbers: Sequence[int]) -> bytes:
    """Non-negative numbers below 2**64, as many as there are; their count goes elsewhere."""
    parts: list[bytes] = []
    for at in range(0, len(numbers), _BLOCK_NUMBERS):
        block = numbers[at : at + _BLOCK_NUMBERS]
        highest = max(block)
        assert min(block) >= 0
        width = 1 if highest < 1 << 8 else 2 if highest < 1 << 16 else 4 if highest < 1 << 32 else 8
        packed = array(_TYPECODES[width], block)
        if sys.byteorder == "big":
            packed.byteswap()
        parts += (bytes((width,)), packed.tobytes())
    return b"".join(parts)


def pack_ascending(numbers: Sequence[int]) -> bytes:
    return pack([*numbers[:1], *map(sub, numbers[1:], numbers)])


def sections(parts: Sequence[Section]) -> bytes:
    return b"".join(varint(tag) + varint(len(body)) + body for tag, body in parts)


class Unpacker:
    """Reads what the functions above wrote, from the front."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise Corrupt("a snapshot is shorter than its header says", wanted=size, left=self.left)
        self._at += size
        return self._data[self._at - size : self._at]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
            if shift > 63:
                raise Corrupt("a snapshot has a number of too many bytes")
        if value >= 1 << 64:
            raise Corrupt("a snapshot has a number that is too large")
        return value

    def numbers(self, count: int) -> list[int]:
        if count > self.left:
            raise Corrupt("a snapshot has fewer bytes than its count of numbers requires", count=count, left=self.left)
        out: list[int] = []
        while len(out) < count:
            width = self.take(1)[0]
            if width not in _TYPECODES:
                raise Corrupt("a snapshot has a block of an unknown width", width=width)
            packed = array(_TYPECODES[width])
            packed.frombytes(self.take(width * min(_BLOCK_NUMBERS, count - len(out))))
            if sys.byteorder == "big":
                packed.byteswap()
            out += packed.tolist()
        return out

    def ascending(self, count: int) -> list[int]:
        """Strictly ascending."""
        deltas = self.numbers(count)
        if count > 1 and min(deltas[1:]) == 0:
            raise Corrupt("a snapshot lists an entry twice")
        return list(accumulate(deltas))

    def sections(self) -> Iterator[Section]:
        while self.left:
            tag = self.varint()
            yield tag, self.take(self.varint())
