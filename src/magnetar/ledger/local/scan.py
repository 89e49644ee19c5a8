"""Reads a segment back: its records, its end, and its damaged ranges.

A batch is written in one go and acknowledged only after its sync, and every record says below which offset the segment
was durable when it was written. So a bad place that no later record vouches for is a torn tail: nothing there was
acknowledged, and the segment ends before it. A bad place below that mark was acknowledged once: that is damage, which
is reported and never skipped in silence. It trusts no length or name that its checksum does not cover.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from magnetar.base.errors import Corrupt
from magnetar.ledger.local.records import HEADER_BYTES, KIND_END, MAGIC_BYTES, Record, decode, sound
from magnetar.ledger.local.segment import START, SegmentRecords
from magnetar.runtime.files import File

WINDOW_BYTES = 1024 * 1024  # of one read during a scan: large enough for the disk, small compared with a segment


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that were acknowledged once and cannot be read any more. `known`: the header names their ledger."""

    segment: int
    offset: int
    size: int
    known: bool

    def error(self) -> Corrupt:
        return Corrupt(
            "acknowledged entries cannot be read: the journal is damaged here; restore the file from a copy, "
            "or delete the topics concerned",
            segment=self.segment,
            offset=self.offset,
        )


@dataclass(slots=True)
class ScanResult:
    """What was found. `end` is where the segment ends, `durable` how far a later record vouches for it."""

    records: SegmentRecords
    end: int
    durable: int
    ended: bool  # the segment has its end record
    damage: list[Damage] = field(default_factory=list)


def scan(file: File, sequence: int, stamp: int, *, last: bool) -> ScanResult:
    """`last`: no segment follows, so its tail may be torn. In any other every bad place is damage."""
    window = Window(file, stamp)
    result = ScanResult(SegmentRecords(), START, START, False)
    bad: list[Damage] = []
    at = START
    while not result.ended:
        record = window.header(at)
        if record is None:
            beyond = window.search(at + 1)
            upto = max(at, window.size) if beyond is None else beyond
            bad.append(Damage(sequence, at, upto - at, False))
            if beyond is None:
                break
            at = beyond
            continue
        if not window.sound(at, record):
            bad.append(Damage(sequence, at, record.size, True))
        elif record.synced > result.durable:
            result.durable = record.synced
        if record.kind == KIND_END:
            result.ended = True
            break
        result.records.add(record.ledger, record.first, record.messages, record.entries, record.body, at)
        at += record.size
    result.end = at
    _judge(result, bad, vouched=not last)
    return result


def _judge(result: ScanResult, bad: list[Damage], *, vouched: bool) -> None:
    for place in bad:
        if not vouched and place.offset >= result.durable:
            result.end = place.offset
            result.ended = False
            result.records.cut(place.offset)
            return
        result.damage.append(place)


def sniff(file: File, sequence: int) -> int | None:
    """The stamp of a segment whose own header is damaged, from its first record: None when that is gone too."""
    data = file.pread(HEADER_BYTES, START)
    if len(data) < HEADER_BYTES:
        return None
    stamp = int.from_bytes(data[8:16], "little")
    return stamp if stamp >> 32 == sequence & 0xFFFFFFFF and decode(data, 0, stamp) is not None else None


class Window:
    """A sliding view of a file, so that a scan reads it in large pieces, independent of the sizes of records."""

    __slots__ = ("_data", "_file", "_stamp", "_start", "size")

    def __init__(self, file: File, stamp: int) -> None:
        self._file = file
        self._stamp = stamp
        self._start = 0
        self._data = b""
        self.size = file.size()

    def header(self, at: int) -> Record | None:
        self._cover(at, HEADER_BYTES)
        return decode(self._data, at - self._start, self._stamp)

    def sound(self, at: int, record: Record) -> bool:
        if at + record.size > self.size:
            return False
        self._cover(at, record.size)
        return sound(self._data, at - self._start, record)

    def search(self, at: int) -> int | None:
        """The next place with a header of this segment. Its own checksum and the stamp make a chance hit hopeless."""
        while at + HEADER_BYTES <= self.size:
            self._cover(at, HEADER_BYTES)
            hit = self._data.find(MAGIC_BYTES, at - self._start)
            if hit < 0:
                at = self._start + len(self._data) - len(MAGIC_BYTES) + 1
                continue
            at = self._start + hit
            if self.header(at) is not None:
                return at
            at += 1
        return None

    def _cover(self, at: int, size: int) -> None:
        if at < self._start or at + size > self._start + len(self._data):
            self._start = at
            self._data = self._file.pread(max(size, WINDOW_BYTES), at)
