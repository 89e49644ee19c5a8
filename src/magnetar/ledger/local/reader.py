"""Reads entries: plans on the loop which records contain them, reads and checks those on the lane.

Adjacent records are read with one call, short ranges of other ledgers between them included. Every record is checked
before a byte of it is returned; a record that fails the check is Corrupt, and the error says where it lies. If the
ledger is deleted during a read, the read ends with NoSuchLedger.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import partial

from magnetar.base.errors import Corrupt, Misuse, NoSuchEntry, NoSuchLedger
from magnetar.base.limits import JOURNAL_READ_BYTES_MAX, JOURNAL_READ_GAP_BYTES
from magnetar.ledger.cut_points import CutPoints, CutRequest, chosen
from magnetar.ledger.local.index import LOST, LedgerIndex
from magnetar.ledger.local.journal import LANE
from magnetar.ledger.local.journal_files import JournalFiles
from magnetar.ledger.local.ledger_state import LedgerState
from magnetar.ledger.local.records import ENTRY_BYTES, HEADER_BYTES, decode, size_of, sound, tables
from magnetar.ledger.local.segment import Segment
from magnetar.ledger.run import Run
from magnetar.runtime.runtime import Runtime


class Piece:
    """Records that one call reads: (offset, first entry, entries, body bytes) each."""

    __slots__ = ("end", "records", "segment", "stamp", "start")

    def __init__(self, segment: int, stamp: int, start: int) -> None:
        self.segment = segment
        self.stamp = stamp
        self.start = self.end = start
        self.records: list[tuple[int, int, int, int]] = []


class LocalReader:
    def __init__(self, runtime: Runtime, shelf: JournalFiles, segments: dict[int, Segment], state: LedgerState) -> None:
        self.ledger = state.ledger
        self._runtime = runtime
        self._shelf = shelf
        self._segments = segments
        self._state = state

    @property
    def last_entry(self) -> int:
        return self._state.last

    @property
    def sealed(self) -> bool:
        return self._state.sealed

    async def read(self, first: int, last: int, bytes_max: int) -> Run:
        self._check(first, last)
        last = min(last, self._state.last)
        pieces = plan(self._state.index, self._segments, first, last, bytes_max)
        work = partial(gather, self._shelf, pieces, self.ledger, first, last, bytes_max)
        run = await self._runtime.offload(work, LANE)
        if self._state.deleted:
            raise NoSuchLedger("the ledger was deleted during the read", ledger=self.ledger)
        return run

    async def count(self, first: int, last: int) -> tuple[int, int]:
        self._check(first, last)
        last = min(last, self._state.last)
        index = self._state.index
        start, stop = index.find(first), index.find(last)
        messages, size = index.whole(start, stop + 1)
        for item, low, high in _overhang(index, start, stop, first, last):
            run = await self.read(low, high, index.body(item))
            messages -= run.messages
            size -= run.offsets[-1]
        return messages, size

    async def cuts(self, first: int, last: int, want: CutRequest) -> CutPoints:
        index, end = self._state.index, self._state.last
        if first > end:
            return CutPoints([], [], [])
        self._check(first, last)
        last = min(last, end)
        start, stop = index.find(first), index.find(last)
        end = index.reaching(start, stop, want.messages, want.bytes)
        if end <= stop:  # a whole record reaches the limit
            return index.cuts([start + place for place in chosen(end - start, want.cuts_max)])
        cuts = index.cuts([start + place for place in chosen(stop - start, want.cuts_max)])
        if last == index.first(stop + 1) - 1:
            messages, size = index.whole(0, stop + 1)
        else:
            messages, size = await self.count(0, last)
        return CutPoints([*cuts.entries, last + 1], [*cuts.messages, messages], [*cuts.bytes, size])

    def at_once(self, first: int, last: int, cuts_max: int) -> tuple[tuple[int, int], CutPoints] | None:
        state = self._state
        return None if state.deleted or not 0 <= first <= last else state.index.between(first, last, cuts_max)

    def _check(self, first: int, last: int) -> None:
        if self._state.deleted:
            raise NoSuchLedger("ledger not found", ledger=self.ledger)
        if first < 0 or last < first:
            raise Misuse("the first entry must be 0 or greater, and the last must not be before the first", first=first)
        if first > self._state.last:
            raise NoSuchEntry(
                "the entry is past the last one of the ledger", ledger=self.ledger, entry=first, last=self._state.last
            )


def _overhang(index: LedgerIndex, start: int, stop: int, first: int, last: int) -> list[tuple[int, int, int]]:
    """(item, entries from, to) that the whole records hold beyond first..last."""
    beyond = []
    low = index.first(start)
    if first > low:
        beyond.append((start, low, first - 1))
    end = index.first(stop + 1) - 1
    if last < end:
        beyond.append((stop, last + 1, end))
    return beyond


def plan(index: LedgerIndex, segments: dict[int, Segment], first: int, last: int, bytes_max: int) -> list[Piece]:
    """The records that hold entries from `first`, to `last` or about `bytes_max`, in as few pieces as is sensible."""
    pieces: list[Piece] = []
    total = 0
    for at, entries, body, sequence, offset in index.items(index.find(first)):
        if at > last or (total >= bytes_max and at > first):
            break
        if sequence == LOST:
            if pieces:
                break  # what comes before can be had
            raise Corrupt(
                "acknowledged entries are missing from the journal: restore its files from a copy",
                first=at,
                last=at + entries - 1,
            )
        end = offset + size_of(entries, body)
        piece = pieces[-1] if pieces else None
        if (
            piece is None
            or piece.segment != sequence
            or not 0 <= offset - piece.end <= JOURNAL_READ_GAP_BYTES
            or end - piece.start > JOURNAL_READ_BYTES_MAX
        ):
            piece = Piece(sequence, segments[sequence].stamp, offset)
            pieces.append(piece)
        piece.records.append((offset, at, entries, body))
        piece.end = end
        if at >= first:
            total += body
    return pieces


def gather(shelf: JournalFiles, pieces: list[Piece], ledger: int, first: int, last: int, bytes_max: int) -> Run:
    """On the lane: the entries as one run. A bad record in the first place is an error, later it ends the run."""
    bodies: list[bytes] = []
    offsets = [0]
    counts: list[int] = []
    for piece in pieces:
        data = shelf.file(piece.segment).pread(piece.end - piece.start, piece.start)
        for offset, at_first, entries, body in piece.records:
            at = offset - piece.start
            record = decode(data, at, piece.stamp)
            if (
                record is None
                or (record.ledger, record.first, record.entries, record.body) != (ledger, at_first, entries, body)
                or not sound(data, at, record)
            ):
                if counts:
                    return _run(bodies, offsets, counts, ledger, first)
                raise Corrupt(
                    "acknowledged entries cannot be read: the journal is damaged here; restore the file from a copy",
                    segment=piece.segment,
                    offset=offset,
                    ledger=ledger,
                    first=at_first,
                    last=at_first + entries - 1,
                )
            ends, messages = tables(data, at, record)
            low = max(first - at_first, 0)
            high = min(last - at_first + 1, entries)
            base = ends[low - 1] if low else 0
            room = bytes_max - offsets[-1]
            cut = ends[high - 1] - base > room
            if cut:
                high = bisect_right(ends, base + room, low, high)
                if not counts and high == low:
                    high = low + 1  # at least one entry, however large
            if high > low:
                start = at + HEADER_BYTES + ENTRY_BYTES * entries
                bodies.append(data[start + base : start + ends[high - 1]])
                shift = offsets[-1] - base
                offsets.extend([end + shift for end in ends[low:high]])
                counts.extend(messages[low:high])
            if cut:
                return _run(bodies, offsets, counts, ledger, first)
    return _run(bodies, offsets, counts, ledger, first)


def _run(bodies: list[bytes], offsets: list[int], counts: list[int], ledger: int, first: int) -> Run:
    body = bodies[0] if len(bodies) == 1 else b"".join(bodies)
    return Run(body, offsets, counts, sum(counts), ledger, first)
