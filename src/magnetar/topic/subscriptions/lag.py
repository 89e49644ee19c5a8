"""Measures the lag of one subscription of a topic: messages that are not acknowledged, and the age of the oldest.

Whole ledgers are counted from their records and parts from the index of the engine, as plans are. Messages that were
acknowledged out of order are subtracted, interval by interval up to a bound; beyond it the average of the interval's
neighbourhood is used. The result is remembered until the cursor or the topic changes. Reads only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import NoSuchLedger
from magnetar.base.ids import BEFORE_ALL, Position
from magnetar.base.limits import LAG_INTERVALS_MAX, LAG_TRIES_MAX
from magnetar.layout.lag import NO_LAG, Lag

if TYPE_CHECKING:
    from magnetar.topic.subscriptions.subscription import Subscription


class LagMeter:
    """One for each subscription. `known` is the last result, whether or not it still holds."""

    __slots__ = ("_changes", "_first", "_last", "_subscription", "_time", "known")

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self._changes = -1  # of the cursor, when `known` was measured
        self._last = BEFORE_ALL  # of the topic
        self._first = BEFORE_ALL  # the entry that `_time` is of
        self._time = 0
        self.known = NO_LAG

    @property
    def fresh(self) -> bool:
        """Whether `known` still holds."""
        subscription = self._subscription
        return self._changes == subscription.cursor.changes and self._last == subscription.topic.readable

    async def measure(self) -> Lag:
        """NoSuchLedger: the topic is being closed, or its ledgers change faster than they can be read."""
        for attempt in range(LAG_TRIES_MAX):
            if self.fresh:
                break
            cursor, topic = self._subscription.cursor, self._subscription.topic
            changes, last, floor = cursor.changes, topic.readable, topic.managed.chain.floor
            try:
                lag = await self._measure()
            except NoSuchLedger:
                if topic.closed or topic.managed.chain.floor == floor or attempt + 1 == LAG_TRIES_MAX:
                    raise
                continue  # trimmed while it was counted
            self.known, self._changes, self._last = lag, changes, last
            break
        return self.known

    async def _measure(self) -> Lag:
        cursor, managed = self._subscription.cursor, self._subscription.topic.managed
        if not cursor.backlog:
            return NO_LAG
        first, last = managed.after(cursor.mark), self._subscription.topic.readable
        entries = managed.entries_between(cursor.mark, last)
        whole = cursor.backlog
        intervals, batches = cursor.acked_after_mark(LAG_INTERVALS_MAX)
        messages, size = await managed.count(first, last)
        if messages == entries:
            messages = whole  # no batches: the cursor has counted already
        else:
            ratio = messages / max(1, entries)
            counted = 0
            for ledger, low, high in intervals:
                messages -= (await managed.count(Position(ledger, low), Position(ledger, high)))[0]
                counted += high - low + 1
            messages -= round((entries - whole - counted) * ratio)
            for position, waiting in batches:
                messages -= (await managed.count(position, position))[0] - waiting
        return Lag(max(1, messages), size, await self._published(first))

    async def _published(self, first: Position) -> int:
        if first != self._first:
            managed = self._subscription.topic.managed
            run = managed.cached(first, 1, 1) or await managed.read(first, 1, 1)
            self._time = 0 if run is None else managed.config.publish_time_of(run.entry(0))
            self._first = first
        return self._time
