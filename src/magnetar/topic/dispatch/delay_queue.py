"""Delayed entries, ordered by due time, with one timer for the earliest of them.

The index is `topic/dispatch/delayed.py`; this module adds the clock. Its state is lost with the process and rebuilt,
because a delayed entry stays unacknowledged and is read again from the cursor. Its memory is charged to the account of
all subscriptions, in steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from magnetar.base.errors import Corrupt
from magnetar.base.ids import Position
from magnetar.base.limits import DELAY_ALARM_S_MAX, DELAYED_DUE_MAX
from magnetar.ledger.run import Run
from magnetar.topic.dispatch.delayed import Delayed
from magnetar.topic.dispatch.state_gate import StateGate
from magnetar.wire import entry

if TYPE_CHECKING:
    from magnetar.topic.topic import Topic


class DelayQueue:
    __slots__ = ("_alarm_ms", "_cancel", "_gate", "_position_bytes", "_ripe", "_topic", "index")

    def __init__(self, topic: Topic, ripe: Callable[[list[Position]], None], position_bytes: int = 0) -> None:
        """`position_bytes` is the memory that the dispatcher uses for each delayed position, beside the index."""
        self._topic = topic
        self._ripe = ripe
        self._position_bytes = position_bytes
        self._alarm_ms: int | None = None
        self._cancel: Callable[[], None] | None = None
        self._gate = StateGate(topic, topic.managed.config.state, lambda: ripe([]))
        self.index = Delayed()

    @property
    def full(self) -> bool:
        """No more is to be read ahead: this subscription has too many, or all subscriptions together have."""
        return self.index.full or self._gate.full

    def discard_upto(self, position: Position) -> None:
        self.index.discard_upto(position)
        self._settle()

    def holds(self, run: Run, index: int) -> bool:
        """Whether this entry is for later, in which case it is kept here until then."""
        try:
            deliver_at = entry.deliver_at(run.body, run.offsets[index], run.offsets[index + 1])
        except Corrupt:
            return False  # a client's broken metadata is for its reader to refuse
        if deliver_at <= 0 or not self._topic.settings.delayed_delivery or deliver_at <= self._topic.runtime.wall():
            return False
        self.index.add(deliver_at, run.position(index))
        self._settle()
        self._set_alarm()
        return True

    def _settle(self) -> None:
        self._gate.settle(self.index.bytes + self._position_bytes * len(self.index))

    def clear(self) -> None:
        self.index = Delayed()
        self._gate.settle(0)
        self._silence()

    def _silence(self) -> None:
        self._alarm_ms = None
        if self._cancel is not None:
            self._cancel()
            self._cancel = None

    def _set_alarm(self) -> None:
        due = self.index.next_due_ms()
        if due is None or (self._alarm_ms is not None and self._alarm_ms <= due):
            return
        self._silence()
        self._alarm_ms = due
        delay_s = min(DELAY_ALARM_S_MAX, max(0.0, (due - self._topic.runtime.wall()) / 1000))
        self._cancel = self._topic.later(delay_s, self._rang)

    def _rang(self) -> None:
        self._alarm_ms = None
        self._cancel = None
        positions = self.index.due(self._topic.runtime.wall(), DELAYED_DUE_MAX)
        self._settle()
        self._set_alarm()
        if positions:
            self._ripe(positions)
