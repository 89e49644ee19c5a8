"""The bytes of a deduplication snapshot: magic, version, position, range, one row per producer, CRC32C.

Every byte is checked on the way in: a wrong checksum or shape is `Corrupt`, a newer version is refused with what to
do. The body of version 1 is big-endian; a sequence id takes 9 bytes, so that any 64-bit id and "none" (-1) fit.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import google_crc32c

from magnetar.base.errors import Corrupt, InvalidRange
from magnetar.base.ids import Position
from magnetar.base.ranges import HashRange

MAGIC = b"MgDd"
VERSION = 1
CONNECTED = -1  # in place of the time since when a producer is idle

_HEAD = struct.Struct(">4sHqqIII")  # magic, version, ledger, entry, first hash, last hash, rows
_ROW = struct.Struct(">IqI")  # bytes of the name, idle since, ranges
_MARK = struct.Struct(">II9s")
_CRC = struct.Struct(">I")

Row = tuple[str, int | None, list[tuple[int, int, int]]]  # producer, idle since, marks


def encode(position: Position, hash_range: HashRange, rows: Sequence[Row]) -> bytes:
    parts = [_HEAD.pack(MAGIC, VERSION, position.ledger, position.entry, hash_range.start, hash_range.end, len(rows))]
    for producer, since, marks in rows:
        name = producer.encode("utf-8", "surrogatepass")
        parts.append(_ROW.pack(len(name), CONNECTED if since is None else since, len(marks)))
        parts.append(name)
        parts.extend(_MARK.pack(start, end, mark.to_bytes(9, "big", signed=True)) for start, end, mark in marks)
    body = b"".join(parts)
    return body + _CRC.pack(google_crc32c.value(body))


def decode(data: bytes) -> tuple[Position, HashRange, list[Row]]:
    if len(data) < _HEAD.size + _CRC.size or data[:4] != MAGIC:
        raise Corrupt("expected a deduplication snapshot", bytes=len(data))
    version = int.from_bytes(data[4:6], "big")
    if version > VERSION:
        raise Corrupt("the deduplication snapshot was written by a newer version: upgrade this broker", version=version)
    body, crc = data[: -_CRC.size], data[-_CRC.size :]
    if _CRC.pack(google_crc32c.value(body)) != crc:
        raise Corrupt("the deduplication snapshot has a wrong checksum", bytes=len(data))
    try:
        return _body(body)
    except (struct.error, UnicodeDecodeError, InvalidRange) as error:
        raise Corrupt("the deduplication snapshot has a wrong shape", why=str(error)) from error


def _body(body: bytes) -> tuple[Position, HashRange, list[Row]]:
    _, _, ledger, entry, first, last, count = _HEAD.unpack_from(body)
    at = _HEAD.size
    rows: list[Row] = []
    for _ in range(count):
        name_bytes, since, ranges = _ROW.unpack_from(body, at)
        at += _ROW.size
        name = body[at : at + name_bytes].decode("utf-8", "surrogatepass")
        at += name_bytes
        marks: list[tuple[int, int, int]] = []
        for _ in range(ranges):
            start, end, mark = _MARK.unpack_from(body, at)
            at += _MARK.size
            marks.append((start, end, int.from_bytes(mark, "big", signed=True)))
        rows.append((name, None if since == CONNECTED else since, marks))
    if at != len(body):
        raise Corrupt("the deduplication snapshot has bytes behind its end", bytes=len(body) - at)
    return Position(ledger, entry), HashRange(first, last), rows
