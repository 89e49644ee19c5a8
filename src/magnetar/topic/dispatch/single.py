"""One consumer at a time gets everything in order: Exclusive, Failover and readers.

Nothing is remembered per message: what is not acknowledged is found again by going back to the cursor. Which consumer
is active is decided in `topic/active.py`; a change waits a moment so that the old one's acknowledgements can still
arrive.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from magnetar.base.errors import Corrupt
from magnetar.base.hashes import key_shared_slot
from magnetar.base.ids import Position
from magnetar.base.limits import DISPATCH_TURN_RUNS_MAX
from magnetar.ledger.run import Run
from magnetar.topic import active
from magnetar.topic.consumer import Consumer
from magnetar.topic.dispatch.push import frame_of, push_stretch
from magnetar.topic.dispatch.source import Source
from magnetar.wire import commands, entry

if TYPE_CHECKING:
    from magnetar.topic.subscription import Subscription


class SingleActive:
    def __init__(self, subscription: Subscription, *, failover: bool) -> None:
        self.subscription = subscription
        self.topic = subscription.topic
        self.cursor = subscription.cursor
        self.failover = failover
        self.consumers: list[Consumer] = []
        self.active: Consumer | None = None
        self.source = Source(self.topic, self.pump)
        self.read_position: Position = subscription.start()
        self._waiting = False  # for the old active one's acknowledgements
        self._change = 0
        self._pumping = False
        self._again = False  # the next turn of the loop goes on

    def join(self, consumer: Consumer) -> None:
        if consumer.key_shared is not None and not consumer.key_shared.ranges:
            consumer.key_shared = None  # of no range at all: it wants everything
        self.consumers.append(consumer)
        self._choose(newcomer=consumer)

    def leave(self, consumer: Consumer) -> None:
        if consumer in self.consumers:
            self.consumers.remove(consumer)
        if consumer is self.active:
            self.active = None
            self._choose(newcomer=None)
        elif self.failover:
            self._choose(newcomer=None)

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
            self._choose(newcomer=None)

    def _choose(self, newcomer: Consumer | None) -> None:
        if not self.consumers:
            self.active = None
            return
        topic = self.topic
        index = active.choose(
            [active.Candidate(consumer.name, consumer.priority, consumer.order) for consumer in self.consumers],
            str(topic.name),
            topic.partition if self.failover else 0,
            topic.settings.failover_consistent_hashing,
        )
        chosen = self.consumers[index if index is not None else 0]
        previous = self.active
        if chosen is previous:
            if newcomer is not None and self.failover:
                newcomer.outlet.write(commands.active_consumer_change(newcomer.id, False))
            return
        self.active = chosen
        self._change += 1
        if previous is not None:
            topic.runtime.mark("failover.switched", topic=str(topic.name), consumer=chosen.name)
        delay_s = topic.settings.failover_delay_ms / 1000
        if self.failover and previous is not None and not previous.closed and delay_s > 0:
            self._waiting = True
            topic.later(delay_s, self._changed, self._change)
        else:
            self._changed(self._change)

    def _changed(self, change: int) -> None:
        if change != self._change:
            return  # chosen anew meanwhile
        self._waiting = False
        self.rewind()
        if self.failover:
            for consumer in self.consumers:
                consumer.outlet.write(commands.active_consumer_change(consumer.id, consumer is self.active))
        self.pump()

    def pump(self) -> None:
        consumer = self.active
        if consumer is None or self._waiting or self._pumping or self._again or self.topic.closed:
            return
        self._pumping = True
        try:
            for _ in range(DISPATCH_TURN_RUNS_MAX):
                if not consumer.ready:
                    return
                taken = self.source.take(self.read_position)
                if taken is None:
                    self.subscription.caught_up(self.read_position)
                    return
                self._push(consumer, taken[0], taken[1])
        finally:
            self._pumping = False
        self._again = True
        asyncio.get_running_loop().call_soon(self._go_on)

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
        if consumer.key_shared is None and self.cursor.untouched(run.position(start)):
            push_stretch(consumer, run, start, stop, self.topic.partition)
            self.read_position = Position(run.ledger, run.first + stop)
            return
        self._push_carefully(consumer, run, start)

    def _push_carefully(self, consumer: Consumer, run: Run, start: int) -> None:
        """Some entries here are acknowledged, wholly or in part, or the consumer wants only some keys."""
        index = start
        frames: list[bytes] = []
        while index < len(run.counts) and consumer.permits > 0:
            position = run.position(index)
            if not self.cursor.is_acked(position):
                if consumer.key_shared is None or self._wanted(consumer, run, index):
                    frames.append(frame_of(consumer, run, index, self.cursor, self.topic.partition)[0])
                else:
                    self.cursor.ack([position])
            index += 1
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
