"""Negative acknowledgements: when each message is asked for again.

Decides only: takes the time, gives what is due. The unit is the entry, as the broker redelivers entries: a batch of
which several messages are refused is asked for once, at the earliest of their times.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush

from magnetar.base.errors import Misuse
from magnetar.base.limits import NACK_DELAY_S, NACK_PENDING_MAX, NACK_STEP_S
from magnetar.base.public import public

Position = tuple[int, int]


@public("magnetar")
@dataclass(frozen=True, slots=True)
class NackBackoff:
    """The wait before the n-th redelivery: `first_s * factor ** n`, at most `max_s`."""

    first_s: float = NACK_DELAY_S
    max_s: float = NACK_DELAY_S
    factor: float = 2.0

    def __post_init__(self) -> None:
        if not 0 <= self.first_s <= self.max_s or self.factor < 1:
            raise Misuse(
                "a back-off grows: 0 <= first_s <= max_s and factor >= 1",
                first_s=self.first_s,
                max_s=self.max_s,
                factor=self.factor,
            )

    def delay_s(self, redelivery_count: int) -> float:
        delay_s = self.first_s
        for _ in range(redelivery_count):
            if delay_s >= self.max_s or delay_s == 0 or self.factor == 1:
                break
            delay_s *= self.factor
        return min(delay_s, self.max_s)


class Nacks:
    """What waits. Times are in seconds of one clock that only grows."""

    __slots__ = ("_due", "_order", "backoff")

    def __init__(self, backoff: NackBackoff) -> None:
        self.backoff = backoff
        self._due: dict[Position, float] = {}
        self._order: list[tuple[float, Position]] = []  # a heap; what is no longer in `_due` at that time is stale

    def __len__(self) -> int:
        return len(self._due)

    def add(self, position: Position, redelivery_count: int, now: float) -> None:
        due = now + self.backoff.delay_s(redelivery_count)
        known = self._due.get(position)
        if known is not None and known <= due:
            return
        if len(self._due) >= NACK_PENDING_MAX:
            due = now  # nothing more is kept waiting: asked for at once
        self._due[position] = due
        heappush(self._order, (due, position))

    def put_off(self, position: Position, due: float) -> None:
        """One that was due and is not asked for yet."""
        self._due[position] = due
        heappush(self._order, (due, position))

    def remove(self, position: Position) -> None:
        """It was acknowledged after all."""
        self._due.pop(position, None)

    def next_due(self) -> float | None:
        """When to look again."""
        order = self._order
        while order and self._due.get(order[0][1]) != order[0][0]:
            heappop(order)
        return order[0][0] if order else None

    def take_due(self, now: float) -> list[Position]:
        """Those due, and those due within one step, in the order of their positions."""
        found: list[Position] = []
        until = now + NACK_STEP_S
        while (due := self.next_due()) is not None and due <= until:
            position = heappop(self._order)[1]
            del self._due[position]
            found.append(position)
        return sorted(found)

    def forget(self) -> None:
        self._due.clear()
        self._order.clear()
