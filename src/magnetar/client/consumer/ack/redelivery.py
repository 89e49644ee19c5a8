"""Requests redelivery: after a negative acknowledgement, after the acknowledgement timeout, or on request.

This is the actor around `nacks` and `ack_timeouts`; it owns their one timer. If one consumer receives everything in
order, a request for one message must request everything unacknowledged: queued messages are discarded, and the epoch
identifies messages that were sent before. For other subscriptions it requests exactly the entries.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from magnetar.base.limits import (
    CHUNKED_IDS_MAX,
    LAST_CHANCES_MAX,
    NACK_QUEUED_S_MAX,
    NACK_QUEUED_STEP_S,
    REDELIVER_IDS_MAX,
)
from magnetar.client.consumer.ack.ack_timeouts import AckTimeouts
from magnetar.client.consumer.ack.acks import Position
from magnetar.client.consumer.ack.nacks import Nacks
from magnetar.client.message import Message
from magnetar.runtime.runtime import Runtime
from magnetar.wire.client_commands import redeliver

if TYPE_CHECKING:
    from magnetar.client.consumer.receive.delivery import DeadLetterSink
    from magnetar.client.consumer.topic_consumer import TopicConsumer


class Redelivery:
    def __init__(self, part: TopicConsumer, runtime: Runtime, graveyard: DeadLetterSink | None = None) -> None:
        self._part = part
        self._graveyard = graveyard
        self.chances: dict[Position, dict[int, Message[Any]]] = {}  # last deliveries before burial, by batch index
        self._taken_at = 0.0
        self._runtime = runtime
        self._nacks = Nacks(part.asked.nack)
        self._timeouts = AckTimeouts(part.asked.ack_timeout_s) if part.asked.ack_timeout_s else None
        self._chunks: dict[Position, list[Position]] = {}  # of delivered chunked messages, by the last chunk
        self.busy = self._timeouts is not None  # whether `acked` must be called; once true it stays true
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = 0.0

    def taken(self, message: Message[Any]) -> None:
        """The application took the message."""
        if self._graveyard is not None and message._delivery.redelivery_count >= self._graveyard.redeliveries_max:
            self._remember_chance(message)
        if len(self._nacks):
            self._taken_at = self._runtime.monotonic()
        if self._timeouts is not None and self._part.persistent:
            delivery = message._delivery
            self._timeouts.add((delivery.ledger, delivery.entry), self._runtime.monotonic())
            self._arm()

    def refuse(self, message: Message[Any]) -> None:
        """The application refused the message: redeliver it later, or bury it after its last redelivery (H-K4)."""
        graveyard, delivery = self._graveyard, message._delivery
        position = (delivery.ledger, delivery.entry)
        if graveyard is None or delivery.redelivery_count < graveyard.redeliveries_max or not self._part.persistent:
            self.nack(position, delivery.redelivery_count)
            return
        self._part.counters.nacks += 1
        self.settled(position, message.batch_index)
        graveyard.bury([message])

    def refuse_id(self, position: Position, batch_index: int) -> None:
        """As `refuse`, by id: a message in its last delivery is known."""
        message = self.chances.get(position, {}).get(batch_index)
        if message is None:
            self.nack(position, 0)
        else:
            self.refuse(message)

    def settled(self, position: Position, batch_index: int) -> None:
        """A message in its last delivery was acknowledged or buried."""
        left = self.chances.get(position)
        if left is not None:
            left.pop(batch_index, None)
            if not left:
                del self.chances[position]

    def _remember_chance(self, message: Message[Any]) -> None:
        delivery = message._delivery
        self.chances.setdefault((delivery.ledger, delivery.entry), {})[message.batch_index] = message
        while len(self.chances) > LAST_CHANCES_MAX:  # a dropped one is redelivered once more before it is buried
            del self.chances[next(iter(self.chances))]

    def nack(self, position: Position, redelivery_count: int) -> None:
        self._part.counters.nacks += 1
        self._taken_at = self._runtime.monotonic()
        if not self._part.persistent:
            return  # no broker has the message any more
        self.busy = True
        if self._timeouts is not None:
            self._timeouts.remove(position)
        self._nacks.add(position, redelivery_count, self._runtime.monotonic())
        self._arm()

    def later(self, positions: list[Position]) -> None:
        self.busy = True
        for position in positions:
            self._nacks.add(position, 0, self._runtime.monotonic())
        self._arm()

    def acked(self, position: Position) -> None:
        if self._timeouts is not None:
            self._timeouts.remove(position)
        if len(self._nacks):
            self._nacks.remove(position)
        if self._chunks:
            self._chunks.pop(position, None)
        if self.chances:
            self.chances.pop(position, None)

    def acked_until(self, position: Position) -> None:
        if self._timeouts is not None:
            self._timeouts.remove_until(position)

    def remember_chunks(self, chunks: list[Position]) -> None:
        self.busy = True
        self._chunks[chunks[-1]] = chunks
        if len(self._chunks) > CHUNKED_IDS_MAX:
            del self._chunks[next(iter(self._chunks))]

    def chunks_of(self, position: Position) -> list[Position]:
        return self._chunks.get(position, [])

    def all(self) -> None:
        """Request everything unacknowledged now."""
        part = self._part
        if part.asked.type.single:
            part.epoch += 1  # messages that the broker sent before it reads this request are dropped
        self.forget()
        part.intake.forget()
        if part.connection is not None:
            part.counters.redeliveries_asked += 1
            part.connection.write(redeliver(part.id, [], part.epoch if part.asked.type.single else -1))
        part.queue.clear()
        part.put_away()
        part.queue.refill()

    def again(self, positions: list[Position]) -> None:
        """Request deferred chunks now. A consumer that receives everything gets all unacknowledged messages; `intake`
        leaves out those that it has shown, so queued messages stay."""
        part = self._part
        if not part.asked.type.single:
            self._ask(positions)
        elif part.connection is not None:
            part.epoch += 1
            part.counters.redeliveries_asked += 1
            part.connection.write(redeliver(part.id, [], part.epoch))

    def forget(self) -> None:
        self._nacks.forget()
        if self._timeouts is not None:
            self._timeouts.forget()
        self._chunks.clear()
        self.chances.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ask(self, positions: list[Position]) -> None:
        part = self._part
        if part.asked.type.single:
            self.all()
            return
        chunks = [chunk for position in positions for chunk in self._chunks.pop(position, [position])]
        again = set(chunks)
        part.queue.remove(again)  # the rest of a batch is redelivered with it
        part.put_away(again)
        part.counters.redeliveries_asked += len(chunks)
        if part.connection is not None:
            for start in range(0, len(chunks), REDELIVER_IDS_MAX):
                part.connection.write(redeliver(part.id, chunks[start : start + REDELIVER_IDS_MAX]))

    def _ripe(self, due: list[Position], now: float) -> list[Position]:
        """Returns the due entries, without one of which the application has not taken all messages yet. A batch is
        redelivered as a whole, and messages that were not taken must not count as refused. Such an entry waits while
        the application keeps taking messages."""
        if self._part.asked.type.single or now - self._taken_at > NACK_QUEUED_S_MAX:
            return due
        head = self._part.queue.head
        if head not in due:
            return due
        self._nacks.put_off(head, now + NACK_QUEUED_STEP_S)
        return [position for position in due if position != head]

    def _bury_late(self, position: Position) -> bool:
        """A message in its last delivery was not acknowledged in time: treat it as refused. The other messages of its
        batch are acknowledged, or not taken yet."""
        chance = self.chances.pop(position, None)
        if chance is None or self._graveyard is None:
            return False
        self._graveyard.bury(list(chance.values()))
        return True

    def _arm(self) -> None:
        due = self._nacks.next_due()
        if self._timeouts is not None:
            other = self._timeouts.next_due()
            if other is not None and (due is None or other < due):
                due = other
        if due is None:
            return
        if self._timer is not None:
            if self._rings_at <= due:
                return
            self._timer.cancel()
        self._rings_at = due
        wait_s = max(0.0, due - self._runtime.monotonic())
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = self._runtime.monotonic()
        due = self._ripe(self._nacks.take_due(now), now)
        if self._timeouts is not None:
            late = self._timeouts.take_due(now)
            self._part.counters.timeouts += len(late)
            due = sorted({*due, *(position for position in late if not self._bury_late(position))})
        if due:
            self._ask(due)
        self._arm()
