"""The encoding of ZooKeeper's protocol: numbers in big endian, text and bytes with their length, -1 for none.

Encoding trusts its caller. Decoding trusts no byte: bytes that end too early, a negative length and text that is not
UTF-8 are Corrupt.
"""

from __future__ import annotations

import struct

from magnetar.base.errors import Corrupt

_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
NONE = _INT.pack(-1)


def integer(value: int) -> bytes:
    return _INT.pack(value)


def long(value: int) -> bytes:
    return _LONG.pack(value)


def boolean(value: bool) -> bytes:
    return b"\x01" if value else b"\x00"


def buffer(value: bytes | None) -> bytes:
    return NONE if value is None else _INT.pack(len(value)) + value


def text(value: str) -> bytes:
    return buffer(value.encode())


class Reader:
    """Reads one frame from its start to its end."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def integer(self) -> int:
        return int(self._unpack(_INT))

    def long(self) -> int:
        return int(self._unpack(_LONG))

    def boolean(self) -> bool:
        return self._take(1) != b"\x00"

    def buffer(self) -> bytes | None:
        size = self.integer()
        if size < -1:
            raise Corrupt("a length in a frame of ZooKeeper is negative", length=size)
        return None if size == -1 else self._take(size)

    def text(self) -> str:
        value = self.buffer()
        if value is None:
            raise Corrupt("a text in a frame of ZooKeeper is missing")
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise Corrupt("a text in a frame of ZooKeeper is not UTF-8") from None

    def texts(self) -> list[str]:
        """Each takes four bytes or more: a count beyond that is refused before a list is made for it."""
        count = self.integer()
        if count < -1 or count * 4 > self.left:
            raise Corrupt("a list in a frame of ZooKeeper is longer than the frame", count=count)
        return [self.text() for _ in range(count)]

    def _unpack(self, form: struct.Struct) -> int:
        if self.left < form.size:
            raise Corrupt("a frame of ZooKeeper ends too early", bytes=len(self._data))
        (value,) = form.unpack_from(self._data, self._at)
        self._at += form.size
        return int(value)

    def _take(self, size: int) -> bytes:
        if self.left < size:
            raise Corrupt("a frame of ZooKeeper ends too early", bytes=len(self._data))
        value = self._data[self._at : self._at + size]
        self._at += size
        return value
