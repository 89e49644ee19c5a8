"""Asking for messages again: after a negative acknowledgement, after the acknowledgement timeout, or at once.

The actor around `nacks` and `timeouts`: it has the one timer. Where one consumer gets everything in order, asking for
one message means asking for everything unacknowledged: what is queued is put away, and the epoch tells what was on its
way before. Elsewhere exactly the entries are asked for.
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
        self.chances: dict[Position, dict[int, Message[Any]]] = {}  # handed out for the last time, by batch index
        self._taken_at = 0.0
        self._runtime = runtime
        self._nacks = Nacks(part.asked.nack)
        self._timeouts = AckTimeouts(part.asked.ack_timeout_s) if part.asked.ack_timeout_s else None
        self._chunks: dict[Position, list[Position]] = {}  # of chunked messages with the application, by last chunk
        self.busy = self._timeouts is not None  # must acknowledgements be told? Once true it stays so
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = 0.0

    def taken(self, message: Message[Any]) -> None:
        """Handed out to the application."""
        if self._graveyard is not None and message._delivery.redelivery_count >= self._graveyard.redeliveries_max:
            self._remember_chance(message)
        if len(self._nacks):
            self._taken_at = self._runtime.monotonic()
        if self._timeouts is not None and self._part.persistent:
            delivery = message._delivery
            self._timeouts.add((delivery.ledger, delivery.entry), self._runtime.monotonic())
            self._arm()

    def refuse(self, message: Message[Any]) -> None:
        """The application does not take it. Again later; to the dead letters if it came often enough (H-K4)."""
        graveyard, delivery = self._graveyard, message._delivery
        position = (delivery.ledger, delivery.entry)
        if graveyard is None or delivery.redelivery_count < graveyard.redeliveries_max or not self._part.persistent:
            self.nack(position, delivery.redelivery_count)
            return
        self._part.counters.nacks += 1
        self.settled(position, message.batch_index)
        graveyard.bury([message])

    def refuse_id(self, position: Position, batch_index: int) -> None:
        """The same by the id alone: one that was handed out for the last time is known."""
        message = self.chances.get(position, {}).get(batch_index)
        if message is None:
            self.nack(position, 0)
        else:
            self.refuse(message)

    def settled(self, position: Position, batch_index: int) -> None:
        """One of those that were handed out for the last time is acknowledged, or buried."""
        left = self.chances.get(position)
        if left is not None:
            left.pop(batch_index, None)
            if not left:
                del self.chances[position]

    def _remember_chance(self, message: Message[Any]) -> None:
        delivery = message._delivery
        self.chances.setdefault((delivery.ledger, delivery.entry), {})[message.batch_index] = message
        while len(self.chances) > LAST_CHANCES_MAX:  # one that is forgotten comes again before it is buried
            del self.chances[next(iter(self.chances))]

    def nack(self, position: Position, redelivery_count: int) -> None:
        self._part.counters.nacks += 1
        self._taken_at = self._runtime.monotonic()
        if not self._part.persistent:
            return  # nobody has it any more
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
        """Everything not acknowledged, at once."""
        part = self._part
        if part.asked.type.single:
            part.epoch += 1  # what the broker sent before it hears of this is dropped
        self.forget()
        part.intake.forget()
        if part.connection is not None:
            part.counters.redeliveries_asked += 1
            part.connection.write(redeliver(part.id, [], part.epoch if part.asked.type.single else -1))
        part.lane.clear()
        part.put_away()
        part.lane.refill()

    def again(self, positions: list[Position]) -> None:
        """Deferred chunks, at once. Where one consumer gets everything, all that is unacknowledged comes, and `intake`
        leaves out what it has shown; so what is queued stays."""
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
        wanted = [chunk for position in positions for chunk in self._chunks.pop(position, [position])]
        again = set(wanted)
        part.lane.remove(again)  # the rest of a batch comes again with it
        part.put_away(again)
        part.counters.redeliveries_asked += len(wanted)
        if part.connection is not None:
            for start in range(0, len(wanted), REDELIVER_IDS_MAX):
                part.connection.write(redeliver(part.id, wanted[start : start + REDELIVER_IDS_MAX]))

    def _ripe(self, due: list[Position], now: float) -> list[Position]:
        """Without those of which the application has still to take something: a batch comes again as a whole, and what
        was not handed out must not count as refused. They wait while the application goes on."""
        if self._part.asked.type.single or now - self._taken_at > NACK_QUEUED_S_MAX:
            return due
        head = self._part.lane.head
        if head not in due:
            return due
        self._nacks.put_off(head, now + NACK_QUEUED_STEP_S)
        return [position for position in due if position != head]

    def _bury_late(self, position: Position) -> bool:
        """Handed out for the last time and not acknowledged in time: as if it were refused. The rest of its batch is
        acknowledged, or still to be taken."""
        found = self.chances.pop(position, None)
        if found is None or self._graveyard is None:
            return False
        self._graveyard.bury(list(found.values()))
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
