"""Frees disk space: frees segments that no ledger needs, and copies the live records out of segments with few of them.

A copy goes through the journal like any run and counts only once it is durable; then the index is switched and the
original is garbage. A crash in between leaves two equal records. Compaction never touches the segment being written,
nor a damaged one: an operator must be able to repair it in its present state.
"""

from __future__ import annotations

import asyncio
from functools import partial

from magnetar.base.errors import Corrupt, MagnetarError
from magnetar.base.limits import JOURNAL_COPY_BYTES_MAX, JOURNAL_LIVE_PERCENT_MIN
from magnetar.ledger.local.journal import LANE, Journal, Pending
from magnetar.ledger.local.journal_files import JournalFiles
from magnetar.ledger.local.ledger_state import LedgerState
from magnetar.ledger.local.reader import Piece, gather
from magnetar.ledger.local.records import size_of
from magnetar.ledger.local.segment import Segment, SegmentRecords
from magnetar.ledger.run import Run
from magnetar.runtime.runtime import Owner, Runtime

Living = tuple[LedgerState, int, Piece]  # whose, the item of its index, where to read it


class JournalCompactor:
    def __init__(
        self, runtime: Runtime, shelf: JournalFiles, journal: Journal, states: dict[int, LedgerState], owner: Owner
    ) -> None:
        self.freed = 0  # segments, since the start
        self.copied_bytes = 0
        self._runtime = runtime
        self._shelf = shelf
        self._journal = journal
        self._states = states
        self._owner = owner
        self._sparse: dict[int, Segment] = {}  # to be copied away, oldest request first
        self._task: asyncio.Task[None] | None = None
        journal.on_ended = self.look

    def look(self, segment: Segment) -> None:
        """Something in this segment ended: see whether it can go, or is worth emptying."""
        if not segment.full or segment.stuck or self._journal.failed is not None or self._owner.closed:
            return
        if segment.live == 0:
            self._sparse.pop(segment.sequence, None)
            if self._journal.segments.pop(segment.sequence, None) is not None:
                self.freed += 1
                self._journal.watch(self._runtime.offload(partial(self._shelf.free, segment.sequence), LANE))
        elif segment.live * 100 < segment.used * JOURNAL_LIVE_PERCENT_MIN:
            self._sparse[segment.sequence] = segment
            if self._task is None or self._task.done():
                self._task = self._runtime.spawn(self._owner, self._empty())

    def release(self, state: LedgerState) -> None:
        """A ledger is gone: its bytes live no more."""
        index = state.index
        touched: dict[int, Segment] = {}
        for item in index.items():
            segment = self._journal.segments.get(item.segment)
            if segment is not None:
                segment.live -= size_of(item.entries, item.body)
                touched[segment.sequence] = segment
        for segment in touched.values():
            self.look(segment)

    async def settled(self) -> None:
        """Until nothing is left to copy."""
        while self._task is not None and not self._task.done():
            await asyncio.wait([self._task])

    async def _empty(self) -> None:
        while self._sparse and self._journal.failed is None:
            segment = self._sparse.pop(next(iter(self._sparse)))
            if segment.sequence not in self._journal.segments:
                continue
            try:
                await self._copy(segment)
            except Corrupt:
                segment.stuck = True
            except MagnetarError as error:
                self._journal.stop(error)
            self.look(segment)

    async def _copy(self, segment: Segment) -> None:
        records = await self._runtime.offload(partial(self._shelf.records, segment), LANE)
        chunk: list[Living] = []
        size = 0
        for living in self._living(segment, records):
            chunk.append(living)
            size += living[2].end - living[2].start
            if size >= JOURNAL_COPY_BYTES_MAX:
                await self._move(chunk)
                chunk, size = [], 0
        if chunk:
            await self._move(chunk)

    def _living(self, segment: Segment, records: SegmentRecords) -> list[Living]:
        living: list[Living] = []
        for ledger, first, _, entries, body, offset in records:
            state = self._states.get(ledger)
            if state is None or first > state.last:
                continue
            item = state.index.find(first)
            if state.index.place(item) == (segment.sequence, offset):
                piece = Piece(segment.sequence, segment.stamp, offset)
                piece.end = offset + size_of(entries, body)
                piece.records.append((offset, first, entries, body))
                living.append((state, item, piece))
        return living

    async def _move(self, chunk: list[Living]) -> None:
        chunk = [living for living in chunk if not living[0].deleted]
        runs = await self._runtime.offload(partial(_read, self._shelf, chunk), LANE)
        moved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        left = Countdown(len(chunk), moved)
        if not chunk:
            return
        for (state, item, piece), run in zip(chunk, runs, strict=True):
            self.copied_bytes += piece.end - piece.start
            self._journal.push(Pending(state, run, piece.records[0][1], left.one, moved=item))
        await moved


class Countdown:
    """Completes a future when all copies were answered; a failure ends the journal by itself."""

    __slots__ = ("_future", "_left")

    def __init__(self, count: int, future: asyncio.Future[None]) -> None:
        self._left = count
        self._future = future

    def one(self, first: int, error: MagnetarError | None) -> None:
        self._left -= 1
        if self._left == 0 and not self._future.done():
            self._future.set_result(None)


def _read(shelf: JournalFiles, chunk: list[Living]) -> list[Run]:
    """On the lane: the records of a chunk, each checked as any reader would."""
    runs = []
    for state, _, piece in chunk:
        _, first, entries, body = piece.records[0]
        runs.append(gather(shelf, [piece], state.ledger, first, first + entries - 1, body))
    return runs
