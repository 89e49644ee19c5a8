"""One consumer at a time gets everything in order: Exclusive, Failover and readers.

The dispatcher remembers nothing per message: it finds unacknowledged messages again by going back to the cursor.
`topic/dispatch/failover.py` decides which consumer is active. A change waits a moment so that the acknowledgements of
the old consumer can still arrive. The first consumer of a Failover subscription waits too, as in Pulsar: after the
answer to its SUBSCRIBE a client may not be ready yet for the notice that it is the active one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING

from magnetar.base.errors import Corrupt
from magnetar.base.hashes import key_shared_slot
from magnetar.base.ids import Position
from magnetar.base.limits import (
    ACK_SET_TURN_WORDS_MAX,
    DISPATCH_TURN_RUNS_MAX,
    PUSH_COST,
    SHARED_PUSH_COST,
    WORDS_PER_COST,
)
from magnetar.ledger.run import Run
from magnetar.topic.dispatch import failover as dispatch_failover
from magnetar.topic.dispatch.entry_source import EntrySource
from magnetar.topic.dispatch.push import frame_of, push_stretch, words_of
from magnetar.topic.subscriptions.consumer import Consumer
from magnetar.wire import commands, entry

if TYPE_CHECKING:
    from magnetar.topic.subscriptions.subscription import Subscription


class SingleActive:
    def __init__(self, subscription: Subscription, *, failover: bool) -> None:
        self.subscription = subscription
        self.topic = subscription.topic
        self.cursor = subscription.cursor
        self.failover = failover
        self.consumers: list[Consumer] = []
        self.active: Consumer | None = None
        self._candidates = dispatch_failover.Candidates(str(self.topic.name), self.topic.partition if failover else 0)
        self._by_order: dict[int, Consumer] = {}
        self._told: Consumer | None = None  # who heard last that it is active
        self._knowing: set[Consumer] | None = None  # who heard in this turn; in the next one all others do
        self.source = EntrySource(self.topic, self.pump)
        self.read_position: Position = subscription.start()
        self._waiting = False  # for the old active one's acknowledgements
        self._change = 0
        self._pumping = False
        self._again = False  # the next turn of the loop goes on

    def join(self, consumer: Consumer) -> None:
        if consumer.key_shared is not None and not consumer.key_shared.ranges:
            consumer.key_shared = None  # of no range at all: it wants everything
        self.consumers.append(consumer)
        self._by_order[consumer.order] = consumer
        self._candidates.add(_candidate(consumer))
        self._choose()

    def answered(self, consumer: Consumer) -> None:
        """Its SUBSCRIBE: it may hear now whether it is the active one."""
        if self.failover and not self._waiting:
            self._announce(consumer)
            if self._knowing is not None:
                self._knowing.add(consumer)

    def leave(self, consumers: Collection[Consumer]) -> None:
        """Together: who is active next is chosen once."""
        for consumer in consumers:
            if self._by_order.pop(consumer.order, None) is not None:
                self._candidates.remove(_candidate(consumer))
        self.consumers = list(self._by_order.values())
        if self.failover or (self.active is not None and self.active.order not in self._by_order):
            self._choose()

    def appended(self, run: Run) -> None:
        self.pump()

    def acked(self, consumer: Consumer | None, positions: list[Position]) -> None:
        """Nothing is held per message; the cursor has it."""

    def acked_to(self, position: Position) -> None:
        if position >= self.read_position:
            self.read_position = self.subscription.start()

    def redeliver(self, consumer: Consumer, positions: list[Position] | None) -> None:
        """Everything unacknowledged again, in order: single ids would break the order (stock clients send none)."""
        if consumer is self.active:
            self.rewind()
            self.pump()

    def rewind(self) -> None:
        self.source.reset()
        self.read_position = self.subscription.start()

    def close(self) -> None:
        self._change += 1
        self.source.reset()

    def reconsider(self) -> None:
        """A setting that takes part in the choice has changed."""
        if self.failover:
            self._choose()

    def _choose(self) -> None:
        if not self.consumers:
            self.active = None
            self.source.reset()
            return
        topic = self.topic
        active = self._candidates.active(consistent=topic.settings.failover_consistent_hashing)
        assert active is not None
        chosen = self._by_order[active.joined]
        previous = self.active
        if chosen is previous:
            return
        self.active = chosen
        self._change += 1
        if previous is not None and not previous.closed:
            topic.runtime.mark("failover.switched", topic=str(topic.name), consumer=chosen.name)
        delay_s = topic.settings.failover_delay_ms / 1000
        if self.failover and delay_s > 0 and (previous is None or not previous.closed):
            self._waiting = True
            topic.later(delay_s, self._changed, self._change)
        else:
            self._changed(self._change)

    def _changed(self, change: int) -> None:
        if change != self._change:
            return  # another consumer was chosen in between
        self._waiting = False
        self.rewind()
        if self.failover:
            self._announce_all()
        self.pump()

    def _announce_all(self) -> None:
        """The old and the new active consumer are notified immediately. The others are notified in the next iteration
        of the event loop, once for all changes of this one. Otherwise a client that closes many consumers makes the
        broker notify all of them each time.
        """
        changed = {one for one in (self._told, self.active) if one is not None and one.order in self._by_order}
        self._told = self.active
        for consumer in sorted(changed, key=lambda one: one.order):
            self._announce(consumer)
        if self._knowing is None:
            self._knowing = set()
            asyncio.get_running_loop().call_soon(self._announce_others)
        self._knowing |= changed

    def _announce_others(self) -> None:
        knowing, self._knowing = self._knowing or set(), None
        for consumer in () if self._waiting else self.consumers:
            if consumer not in knowing:
                self._announce(consumer)

    def _announce(self, consumer: Consumer) -> None:
        """Never before the answer to its SUBSCRIBE: the Go client drops it then."""
        if consumer.answered:
            consumer.outlet.write(commands.active_consumer_change(consumer.id, consumer is self.active))

    def pump(self) -> None:
        consumer = self.active
        if consumer is None or self._waiting or self._pumping or self._again or self.topic.closed:
            return
        turns = self.topic.runtime.turns
        self._pumping = True
        try:
            for _ in range(DISPATCH_TURN_RUNS_MAX):
                if not consumer.ready:
                    return
                if turns.left <= 0:
                    break
                taken = self.source.take(self.read_position)
                if taken is None:
                    self.subscription.caught_up(self.read_position)
                    return
                self._push(consumer, taken[0], taken[1])
        finally:
            self._pumping = False
        self._again = True
        turns.later(self._go_on)

    def _go_on(self) -> None:
        self._again = False
        self.pump()

    def _push(self, consumer: Consumer, run: Run, start: int) -> None:
        counts = run.counts
        stop = len(counts)
        if start or run.messages > consumer.permits:
            permits = consumer.permits
            stop = start
            while stop < len(counts) and permits > 0:
                permits -= counts[stop]
                stop += 1
        if consumer.key_shared is None and self.subscription.untouched(run.position(start)):
            push_stretch(consumer, run, start, stop, self.topic.partition)
            self.topic.runtime.turns.left -= (stop - start) * PUSH_COST
            self.read_position = Position(run.ledger, run.first + stop)
            return
        self._push_carefully(consumer, run, start)

    def _push_carefully(self, consumer: Consumer, run: Run, start: int) -> None:
        """Some entries here are acknowledged, wholly or in part, or the consumer wants only some keys."""
        index = start
        frames: list[bytes] = []
        words = 0
        while index < len(run.counts) and consumer.permits > 0 and words < ACK_SET_TURN_WORDS_MAX:
            position = run.position(index)
            if not self.subscription.is_acked(position):
                if consumer.key_shared is None or self._wanted(consumer, run, index):
                    words += words_of(self.cursor, run, index)
                    frames.append(frame_of(consumer, run, index, self.cursor, self.topic.partition)[0])
                else:
                    self.cursor.ack([position])
            index += 1
        self.topic.runtime.turns.left -= (index - start) * SHARED_PUSH_COST + words // WORDS_PER_COST
        self.read_position = Position(run.ledger, run.first + index)
        consumer.outlet.write(b"".join(frames))

    def _wanted(self, consumer: Consumer, run: Run, index: int) -> bool:
        """Readers of key ranges: an entry of another range counts as consumed."""
        assert consumer.key_shared is not None
        try:
            slot = key_shared_slot(entry.key_hash(run.body, run.offsets[index], run.offsets[index + 1]))
        except Corrupt:
            return True
        return any(low <= slot <= high for low, high in consumer.key_shared.ranges)


def _candidate(consumer: Consumer) -> dispatch_failover.Candidate:
    return dispatch_failover.Candidate(consumer.name, consumer.priority, consumer.order)
