"""One segment of the journal: its names, its header, its records, and the index file that spares a restart the scan.

The first sixteen bytes of every file (magic, format version, their CRC) never change their form, so that an older
Magnetar can distinguish a newer file from a damaged one. An index file (sidecar) is trusted only whole: by its own CRC,
and by the stamp of its segment. Pure bytes and values; `journal_files` does the writing.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator

from google_crc32c import extend

from magnetar.base.errors import Corrupt, Refused
from magnetar.ledger.local.records import NATIVE

SEGMENT_MAGIC = b"MGNTRJNL"
SIDECAR_MAGIC = b"MGNTRIDX"
VERSION = 1
PREFIX = struct.Struct("<8sII")
FIELDS = struct.Struct("<QQQ")  # sequence, stamp, created in ms
FOOT = struct.Struct("<I")
START = 64  # where the first record begins: the header and room to grow
SIDECAR = struct.Struct("<QQQQ")  # sequence, stamp, end, records
COLUMNS = "QQQIII"  # ledger, first, messages, entries, body, offset


def log_name(sequence: int) -> str:
    return f"{sequence:010d}.log"


def sidecar_name(sequence: int) -> str:
    return f"{sequence:010d}.idx"


def spare_name(sequence: int) -> str:
    return f"spare-{sequence:010d}.log"


def sequence_of(name: str) -> int | None:
    """The sequence number in a segment's name; None for any other file."""
    stem, dot, kind = name.partition(".")
    return int(stem) if dot and kind == "log" and stem.isdecimal() else None


def stamp_of(sequence: int, chance: int) -> int:
    """A stamp no earlier use of the same file had (the sequence) and no publisher can guess (the chance)."""
    return (sequence & 0xFFFFFFFF) << 32 | (chance & 0xFFFFFFFF)


class SegmentRecords:
    """The records of a segment in columns, one item for each: what a sidecar stores and compaction walks."""

    __slots__ = ("bodies", "entries", "firsts", "ledgers", "messages", "offsets")

    def __init__(self) -> None:
        self.ledgers = array("Q")
        self.firsts = array("Q")
        self.messages = array("Q")
        self.entries = array("I")
        self.bodies = array("I")
        self.offsets = array("I")

    def add(self, ledger: int, first: int, messages: int, entries: int, body: int, offset: int) -> None:
        self.ledgers.append(ledger)
        self.firsts.append(first)
        self.messages.append(messages)
        self.entries.append(entries)
        self.bodies.append(body)
        self.offsets.append(offset)

    def cut(self, offset: int) -> None:
        """Forget what starts at or after this offset."""
        keep = len(self.offsets)
        while keep and self.offsets[keep - 1] >= offset:
            keep -= 1
        for column in self.columns():
            del column[keep:]

    def columns(self) -> tuple[array[int], ...]:
        return (self.ledgers, self.firsts, self.messages, self.entries, self.bodies, self.offsets)

    def __len__(self) -> int:
        return len(self.offsets)

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return zip(*self.columns(), strict=True)


class Segment:
    """One file of the journal as the loop sees it. `live` counts the bytes of records that some ledger still needs."""

    __slots__ = ("allocated", "end", "full", "live", "records", "sequence", "stamp", "stuck")

    def __init__(self, sequence: int, stamp: int, end: int = START) -> None:
        self.sequence = sequence
        self.stamp = stamp
        self.end = end  # where the next record goes
        self.live = 0
        self.full = False  # ended: nothing is appended any more
        self.stuck = False  # a record in it cannot be read: it stays as it is
        self.allocated = 0
        self.records: SegmentRecords | None = None  # kept while it is being written

    @property
    def used(self) -> int:
        return self.end - START


def encode_header(sequence: int, stamp: int, created_ms: int) -> bytes:
    fields = FIELDS.pack(sequence, stamp, created_ms)
    header = _prefix(SEGMENT_MAGIC) + fields + FOOT.pack(extend(0, fields))
    return header.ljust(START, b"\0")


def decode_header(data: bytes, name: str) -> tuple[int, int] | None:
    """(sequence, stamp), or None if these bytes are not a header. A newer format is Refused."""
    if not _check_prefix(data, SEGMENT_MAGIC, name):
        return None
    fields = data[PREFIX.size : PREFIX.size + FIELDS.size]
    if len(data) < START or FOOT.unpack_from(data, PREFIX.size + FIELDS.size)[0] != extend(0, fields):
        return None
    sequence, stamp, _ = FIELDS.unpack(fields)
    return sequence, stamp


def encode_sidecar(segment: Segment, records: SegmentRecords) -> bytes:
    parts = [SIDECAR.pack(segment.sequence, segment.stamp, segment.end, len(records))]
    parts += [_swapped(column).tobytes() for column in records.columns()]
    rest = b"".join(parts)
    return _prefix(SIDECAR_MAGIC) + rest + FOOT.pack(extend(0, rest))


def decode_sidecar(data: bytes, name: str) -> tuple[Segment, SegmentRecords]:
    """What the segment holds. Corrupt when any byte is wrong: then the segment is read instead."""
    if not _check_prefix(data, SIDECAR_MAGIC, name):
        raise Corrupt("expected an index file of the journal", file=name)
    rest = data[PREFIX.size : -FOOT.size]
    if len(rest) < SIDECAR.size or FOOT.unpack(data[-FOOT.size :])[0] != extend(0, rest):
        raise Corrupt("an index file of the journal has a wrong checksum", file=name)
    sequence, stamp, end, count = SIDECAR.unpack_from(rest)
    records = SegmentRecords()
    at = SIDECAR.size
    for column in records.columns():
        size = count * column.itemsize
        column.frombytes(rest[at : at + size])
        if not NATIVE:
            column.byteswap()
        at += size
    if at != len(rest) or len(records.offsets) != count:
        raise Corrupt("an index file of the journal has a wrong length", file=name)
    segment = Segment(sequence, stamp, end)
    segment.full = True
    return segment, records


def _prefix(magic: bytes) -> bytes:
    start = PREFIX.pack(magic, VERSION, 0)[: -FOOT.size]
    return start + FOOT.pack(extend(0, start))


def _check_prefix(data: bytes, magic: bytes, name: str) -> bool:
    if len(data) < PREFIX.size:
        return False
    actual, version, crc = PREFIX.unpack_from(data)
    if actual != magic or crc != extend(0, data[: PREFIX.size - FOOT.size]):
        return False
    if version > VERSION:
        raise Refused(
            f"{name} has format {version}, this Magnetar reads formats up to {VERSION}: "
            "start the newer Magnetar that wrote it, or give this one another directory",
            file=name,
            version=version,
        )
    return True


def _swapped(column: array[int]) -> array[int]:
    if NATIVE:
        return column
    swapped = array(column.typecode, column)
    swapped.byteswap()
    return swapped
