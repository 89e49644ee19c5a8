"""Delivers the result of each message exactly once: to its callback, or to `flush` if it has none. Counts failures.

The counterpart of `producer/results`, which reports whole entries: here each message of an entry has its own result.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from typing import Any

from magnetar.base.errors import ConnectionLost, MagnetarError, NotReady, TimedOut
from magnetar.base.ids import SegmentId
from magnetar.client.producer.config import Counters
from magnetar.client.producer.fields import Done
from magnetar.client.producer.memory_limit import MemoryLimit
from magnetar.client.producer.results import tell
from magnetar.client.producer.scalable.encode import EncodedEntry
from magnetar.client.producer.scalable.queued_messages import Columns, QueuedMessage, SendStatus
from magnetar.client.producer.scalable.segment_queue import QueuedEntry
from magnetar.client.producer.scalable.segment_queues import ReportOutcome
from magnetar.wire.ids import MessageId


class _Flush:
    __slots__ = ("left", "over", "until")

    def __init__(self, until: int, left: int) -> None:
        self.until = until  # waits for messages with a turn below this
        self.left = left
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class MessageResults:
    def __init__(self, topic: str, counters: Counters, budget: MemoryLimit) -> None:
        self._topic = topic
        self._counters = counters
        self._budget = budget
        self._flushes: list[_Flush] = []
        self._unreported: MagnetarError | None = None  # the first failure of a message without a callback

    def stored(self, segment: SegmentId, entry: QueuedEntry, ledger: int, number: int) -> None:
        if entry.columns is not None and len(entry.columns) > 1:
            self._all_stored(segment, entry.columns, ledger, number)
            return
        packed: EncodedEntry = entry.frames
        first = None if packed.first is None else MessageId(*packed.first, segment=segment)
        count = len(entry.messages)
        over = size = 0
        kept = SendStatus.STORED
        for index, message in enumerate(entry.messages):
            if message.fate is not kept:
                continue  # given up and reported before
            done = message.done
            if done is not None and count == 1:
                tell(done, MessageId(ledger, number, first_chunk=first, segment=segment), None)
            elif done is not None:
                tell(done, MessageId(ledger, number, -1, index, count, segment=segment), None)
            over += message.count
            size += len(message.item)
            if self._flushes:
                self._flushed(message)
        self._budget.give(size, over)

    def _all_stored(self, segment: SegmentId, columns: Columns, ledger: int, number: int) -> None:
        count = len(columns)
        for index, done in enumerate(columns.dones):
            if done is not None:
                tell(done, MessageId(ledger, number, -1, index, count, segment=segment), None)
        for flush in list(self._flushes):
            self._less(flush, bisect_left(columns.came, flush.until + columns.offset))
        self._budget.give(sum(map(len, columns.items)), count)

    def given_up(self, report: ReportOutcome) -> None:
        error = self._why(report.message, report.error)
        self.refused(report.message.done, error)
        self._flushed(report.message)
        self._budget.give(len(report.message.item), report.message.count)

    def refused(self, done: Done | None, error: MagnetarError) -> None:
        self._counters.errors += 1
        if done is not None:
            tell(done, None, error)
        elif self._unreported is None:
            self._unreported = error

    async def until_over(self, places: int, messages: int) -> None:
        """Wait until the present messages, all with places below `places`, have a result; raises an unreported
        error."""
        if messages:
            flush = _Flush(places, messages)
            self._flushes.append(flush)
            await flush.over
        error, self._unreported = self._unreported, None
        if error is not None:
            raise error

    def _why(self, message: QueuedMessage, error: MagnetarError | None) -> MagnetarError:
        facts: dict[str, Any] = {"topic": self._topic, "sequence": message.sequence}
        if error is None:
            self._counters.timeouts += 1
            if message.fate is SendStatus.FAILED:
                return NotReady("no segment accepted the message within the send timeout: it is not stored", **facts)
            return TimedOut("no receipt within the send timeout: the message may be stored", **facts)
        if message.fate is SendStatus.FAILED:
            return error
        unknown = ConnectionLost(f"no receipt before the producer gave up, the message may be stored: {error}", **facts)
        unknown.__cause__ = error
        return unknown

    def _flushed(self, message: QueuedMessage) -> None:
        for flush in list(self._flushes):
            if message.turn < flush.until:
                self._less(flush, message.count)

    def _less(self, flush: _Flush, messages: int) -> None:
        flush.left -= messages
        if not flush.left:
            self._flushes.remove(flush)
            if not flush.over.done():
                flush.over.set_result(None)
