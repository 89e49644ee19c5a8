"""Group commit: runs of all ledgers queue here, and one batch at a time goes to the disk with one sync.

All of it runs on the event loop; the lane gets whole batches and answers once for each. A batch lies in one segment.
While it is in flight the next one collects runs. When it is durable the next one is sent before the callbacks run, so
that disk and loop work in parallel. A failed batch ends the journal permanently: its runs may or may not be on the
disk, and a sync that failed once must not be trusted again.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, TypeVar

from magnetar.base.errors import MagnetarError, Misuse, NoSuchLedger, StorageFailed, StorageFull
from magnetar.base.limits import (
    ANSWER_COST,
    JOURNAL_AHEAD_BYTES,
    JOURNAL_AHEAD_BYTES_MAX,
    JOURNAL_BATCH_BYTES_MAX,
    JOURNAL_ZEROS_BATCH_BYTES_MAX,
)
from magnetar.ledger.local.journal_files import JournalFiles
from magnetar.ledger.local.ledger_state import LedgerState
from magnetar.ledger.local.records import ENTRY_BYTES, HEADER_BYTES, encode
from magnetar.ledger.local.segment import START, Segment, SegmentRecords, stamp_of
from magnetar.ledger.run import Run
from magnetar.ledger.store import Done
from magnetar.runtime.files import Buffer
from magnetar.runtime.runtime import Runtime

T = TypeVar("T")
LANE = "journal"
Failed = Callable[[MagnetarError], None]


class Pending:
    """A run that is being written. `moved` is the index item that it is a copy of, -1 for a new run."""

    __slots__ = ("done", "first", "moved", "offset", "run", "size", "state")

    def __init__(self, state: LedgerState, run: Run, first: int, done: Done, moved: int = -1) -> None:
        self.state = state
        self.run = run
        self.first = first
        self.done = done
        self.moved = moved
        self.offset = 0
        self.size = HEADER_BYTES + ENTRY_BYTES * len(run.counts) + run.size


class Batch:
    """Items that go to the disk together, in one segment; `ended` is the segment to end before a new one begins.
    `refused` are items that wait behind these and will not be written."""

    __slots__ = ("answered", "at", "buffers", "ended", "items", "new", "refused", "segment", "start")

    def __init__(self, segment: Segment, ended: Segment | None, *, new: bool) -> None:
        self.segment = segment
        self.ended = ended
        self.new = new
        self.start = self.at = segment.end
        self.items: list[Pending] = []
        self.answered = 0  # of the items
        self.refused: list[Pending] = []
        self.buffers: list[Buffer] = []


class Journal:
    def __init__(
        self, runtime: Runtime, shelf: JournalFiles, segments: dict[int, Segment], *, sequence: int, segment_bytes: int
    ) -> None:
        self.segments = segments
        self.failed: MagnetarError | None = None
        self.on_failure: list[Failed] = []
        self.on_ended: Callable[[Segment], None] = _ignore
        self.on_written: Callable[[int], None] = _ignore  # bytes of a batch, after each one
        self.pending_bytes = 0
        # Metrics
        self.batches = 0
        self.syncs = 0
        self.bytes_written = 0
        self.entries_written = 0
        self.sync_s = 0.0
        self._runtime = runtime
        self._shelf = shelf
        self._chance: Random = runtime.rng("journal stamps")
        self._sequence = sequence  # the highest in use
        self._segment_bytes = segment_bytes
        self._current: Segment | None = None
        self._queue: deque[Pending] = deque()
        self._durable: deque[Batch] = deque()  # on the disk, and not answered yet: many entries take several turns
        self._busy = False
        self._kicked = False
        self._preparing = False
        self._idle: list[asyncio.Future[None]] = []

    @property
    def current(self) -> Segment | None:
        return self._current

    def push(self, item: Pending) -> None:
        """Take an item; its `done` is called later, never from here."""
        item.state.pending += 1
        self.pending_bytes += item.size
        self._queue.append(item)
        if not self._busy and not self._kicked:
            # One turn later: what the other connections bring in this turn joins the same sync.
            self._kicked = True
            asyncio.get_running_loop().call_soon(self._kick)

    def stop(self, error: MagnetarError) -> None:
        """The disk cannot be trusted any more: refuse everything from now on. A batch in flight is still answered."""
        first = self.failed is None
        if first:
            self.failed = error
        if not self._busy:
            self._answer_all()
            self._refuse(self._start())
        if first:
            for heard in self.on_failure:
                heard(error)

    def watch(self, future: asyncio.Future[T]) -> asyncio.Future[T]:
        """Work on the files whose failure ends the journal like that of a batch."""
        future.add_done_callback(self._watched)
        return future

    async def drained(self) -> None:
        """Until nothing is queued or in flight."""
        while self._busy or self._queue or self._durable:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(future)
            await future

    def _kick(self) -> None:
        self._kicked = False
        if not self._busy:
            refused = self._start()
            if self._durable:
                self._durable[-1].refused += refused
            else:
                self._refuse(refused)
            self._rest()

    def _start(self) -> list[Pending]:
        """Send the next batch off. The items that may not be written any more are returned, to be refused in turn."""
        queue = self._queue
        refused: list[Pending] = []
        if self.failed is not None:
            refused.extend(queue)
            queue.clear()
            return refused
        batch: Batch | None = None
        stamp = start = end_max = 0  # of the batch
        while queue:
            item = queue[0]
            state = item.state
            if state.deleted or (state.refusal is not None and item.moved < 0):
                refused.append(queue.popleft())
                continue
            size = item.size
            if batch is None:
                batch = self._open(size)
                stamp, start = batch.segment.stamp, batch.start
                end_max = min(start + JOURNAL_BATCH_BYTES_MAX, self._segment_bytes - HEADER_BYTES)
            elif batch.at + size > end_max:
                break
            queue.popleft()
            try:
                coded = encode(stamp, state.ledger, item.first, state.epoch, start, item.run)
            except (OverflowError, TypeError, ValueError, struct.error) as error:  # the caller's run, not our disk
                state.refuse(Misuse(f"invalid run of entries: {error}", ledger=state.ledger))
                refused.append(item)
                continue
            item.offset = batch.at
            batch.items.append(item)
            batch.buffers += coded
            batch.at += size
        if batch is not None:
            self._busy = True
            batch.segment.end = batch.at
            write = partial(self._shelf.write, batch.segment, batch.start, batch.buffers, batch.ended, new=batch.new)
            self._runtime.offload(write, LANE).add_done_callback(partial(self._written, batch))
        return refused

    def _open(self, size: int) -> Batch:
        """A batch at the end of the current segment, or at the start of a new one if the first item does not fit."""
        current = self._current
        if current is not None and (current.end == START or current.end + size + HEADER_BYTES <= self._segment_bytes):
            return Batch(current, None, new=False)
        self._sequence += 1
        segment = Segment(self._sequence, stamp_of(self._sequence, self._chance.getrandbits(32)))
        segment.records = SegmentRecords()
        self.segments[segment.sequence] = segment
        self._current = segment
        return Batch(segment, current, new=True)

    def _written(self, batch: Batch, future: asyncio.Future[float]) -> None:
        self._busy = False
        error = future.exception()
        if error is not None:
            failure = _as_failure(error)
            self._answer_all()
            for item in batch.items:
                self._call(item, -1, failure)
            self.stop(failure)
            self._rest()
            return
        self.batches += 1
        self.syncs += 1
        self.sync_s += future.result()
        self.bytes_written += batch.at - batch.start
        self.on_written(batch.at - batch.start)
        batch.refused = self._start()  # the disk works on while the callbacks run
        self._durable.append(batch)
        if len(self._durable) == 1:
            self._answer_some()
        self._prepare(batch)
        self._rest()

    def _answer_some(self) -> None:
        """In the order of the writes, as many as fit this turn of the loop, and one in any case."""
        turns = self._runtime.turns
        while self._durable:
            batch = self._durable[0]
            self._answer(batch, all=False)
            if batch.answered < len(batch.items):
                turns.soon(self._answer_some)
                return
            self._answered(batch)
            if turns.left <= 0 and self._durable:
                turns.soon(self._answer_some)
                return
        self._rest()

    def _answer_all(self) -> None:
        """What comes next must not overtake them."""
        while self._durable:
            batch = self._durable[0]
            self._answer(batch, all=True)
            self._answered(batch)

    def _answer(self, batch: Batch, *, all: bool) -> None:
        """All items, or as many as fit this turn. One loop for the items of many ledgers: a call for each step would
        cost more than the step. A callback may stop the journal, which answers the rest of the items.
        """
        turns, segment, items = self._runtime.turns, batch.segment, batch.items
        records, sequence, count = segment.records, segment.sequence, len(items)
        assert records is not None
        while batch.answered < count:
            item = items[batch.answered]
            batch.answered += 1
            run, state, first, offset = item.run, item.state, item.first, item.offset
            entries, messages, body = len(run.counts), run.messages, run.size
            records.add(state.ledger, first, messages, entries, body, offset)
            if item.moved < 0:
                state.index.add(entries, messages, body, sequence, offset)
                segment.live += item.size
                run.ledger = state.ledger
                run.first = first
                self.entries_written += entries
            elif not state.deleted:
                self.segments[state.index.place(item.moved)[0]].live -= item.size
                state.index.move(item.moved, sequence, offset)
                segment.live += item.size
            turns.left -= entries * ANSWER_COST
            self._settle(item)
            try:
                item.done(first, None)
            except Exception as raised:
                _report(item, raised)
            if turns.left <= 0 and not all:
                return

    def _answered(self, batch: Batch) -> None:
        if self._durable and self._durable[0] is batch:  # else a callback has answered the rest
            self._durable.popleft()
            self._refuse(batch.refused)
            if batch.ended is not None:
                self._end(batch.ended)

    def _refuse(self, items: list[Pending]) -> None:
        for item in items:
            self._call(item, -1, self.failed or item.state.refusal or NoSuchLedger("deleted", ledger=item.state.ledger))

    def _call(self, item: Pending, first: int, error: MagnetarError | None) -> None:
        self._settle(item)
        try:
            item.done(first, error)
        except Exception as raised:
            _report(item, raised)

    def _settle(self, item: Pending) -> None:
        self.pending_bytes -= item.size
        state = item.state
        state.pending -= 1
        if state.waiting and not state.pending:
            state.wake()

    def _end(self, segment: Segment) -> None:
        """A segment was ended durably: write down what it holds, so that no start has to read it again."""
        records, segment.records = segment.records, None
        assert records is not None
        segment.full = True
        self.watch(self._runtime.offload(partial(self._shelf.write_sidecar, segment, records), LANE))
        self.on_ended(segment)

    def _prepare(self, batch: Batch) -> None:
        """Make blocks ahead of the writes, more of them under load; a write that comes first just makes its own."""
        segment = batch.segment
        if self._preparing or segment is not self._current or self.failed is not None:
            return
        if segment.allocated - segment.end >= JOURNAL_AHEAD_BYTES or segment.allocated >= self._segment_bytes:
            return
        # Zeros pay for small batches, whose sync is what they wait for; large ones would be written twice.
        small = batch.at - batch.start < JOURNAL_ZEROS_BATCH_BYTES_MAX
        step = JOURNAL_AHEAD_BYTES if small else JOURNAL_AHEAD_BYTES_MAX
        size = min(max(segment.allocated, segment.end) + step, self._segment_bytes)
        self._preparing = True
        prepare = partial(self._shelf.prepare, segment.sequence, size, written=small)
        future = self.watch(self._runtime.offload(prepare, LANE))
        future.add_done_callback(partial(self._prepared, segment))

    def _prepared(self, segment: Segment, future: asyncio.Future[int]) -> None:
        self._preparing = False
        if future.exception() is None:
            segment.allocated = future.result()

    def _watched(self, future: asyncio.Future[Any]) -> None:
        if not future.cancelled() and (error := future.exception()) is not None:
            self.stop(_as_failure(error))

    def _rest(self) -> None:
        if self._busy or self._queue or self._durable:
            return
        idle, self._idle = self._idle, []
        for future in idle:
            if not future.done():
                future.set_result(None)


def _ignore(_: object) -> None:
    pass


def _report(item: Pending, raised: Exception) -> None:
    """A caller's bug must not keep the others from their answers; the loop reports it."""
    asyncio.get_running_loop().call_exception_handler(
        {"message": f"the callback of an append to ledger {item.state.ledger} failed", "exception": raised}
    )


def _as_failure(error: BaseException) -> MagnetarError:
    if isinstance(error, StorageFull | StorageFailed):
        return error
    failure = StorageFailed(f"the journal stopped: {error!r}")
    failure.__cause__ = error
    return failure
