"""Asking for messages again: after a negative acknowledgement, after the acknowledgement timeout, or at once.

The actor around `nacks` and `timeouts`: it has the one timer. Where one consumer gets everything in order, asking for
one message means asking for everything unacknowledged: what is queued is put away, and the epoch tells what was on its
way before. Elsewhere exactly the entries are asked for.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from magnetar.base.limits import CHUNKED_IDS_MAX, REDELIVER_IDS_MAX
from magnetar.client.acks import Position
from magnetar.client.message import Message
from magnetar.client.nacks import Nacks
from magnetar.client.timeouts import Timeouts
from magnetar.runtime.runtime import Runtime
from magnetar.wire.consuming import redeliver

if TYPE_CHECKING:
    from magnetar.client.part import Part


class Redelivery:
    def __init__(self, part: Part, runtime: Runtime) -> None:
        self._part = part
        self._runtime = runtime
        self._nacks = Nacks(part.asked.nack)
        self._timeouts = Timeouts(part.asked.ack_timeout_s) if part.asked.ack_timeout_s else None
        self._chunks: dict[Position, list[Position]] = {}  # of chunked messages with the application, by last chunk
        self.busy = self._timeouts is not None  # must acknowledgements be told? Once true it stays so
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = 0.0

    def taken(self, message: Message[Any]) -> None:
        if self._timeouts is not None and self._part.persistent:
            delivery = message._delivery
            self._timeouts.add((delivery.ledger, delivery.entry), self._runtime.monotonic())
            self._arm()

    def nack(self, position: Position, redelivery_count: int) -> None:
        self._part.counters.nacks += 1
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

    def forget(self) -> None:
        self._nacks.forget()
        if self._timeouts is not None:
            self._timeouts.forget()
        self._chunks.clear()
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
        due = self._nacks.take_due(now)
        if self._timeouts is not None:
            late = self._timeouts.take_due(now)
            self._part.counters.timeouts += len(late)
            due = sorted({*due, *late})
        if due:
            self._ask(due)
        self._arm()
