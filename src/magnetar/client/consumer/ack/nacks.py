"""Negative acknowledgements: decides when to request the redelivery of each message.

Pure decisions: takes the time and returns the due entries. The unit is the entry, because brokers redeliver entries. A
batch with several refused messages is requested once, at the earliest of their times.
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
    """The delay of the n-th redelivery: `first_s * factor ** n`, at most `max_s`."""

    first_s: float = NACK_DELAY_S
    max_s: float = NACK_DELAY_S
    factor: float = 2.0

    def __post_init__(self) -> None:
        if not 0 <= self.first_s <= self.max_s or self.factor < 1:
            raise Misuse(
                "NackBackoff must satisfy 0 <= first_s <= max_s and factor >= 1",
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
    """The waiting entries. Times are in seconds of one monotonic clock."""

    __slots__ = ("_due", "_order", "backoff")

    def __init__(self, backoff: NackBackoff) -> None:
        self.backoff = backoff
        self._due: dict[Position, float] = {}
        self._order: list[tuple[float, Position]] = []  # a heap; an item that differs from `_due` is stale

    def __len__(self) -> int:
        return len(self._due)

    def add(self, position: Position, redelivery_count: int, now: float) -> None:
        due = now + self.backoff.delay_s(redelivery_count)
        earlier = self._due.get(position)
        if earlier is not None and earlier <= due:
            return
        if len(self._due) >= NACK_PENDING_MAX:
            due = now  # the bound is reached: request it immediately
        self._due[position] = due
        heappush(self._order, (due, position))

    def put_off(self, position: Position, due: float) -> None:
        """Postpone an entry that was due."""
        self._due[position] = due
        heappush(self._order, (due, position))

    def remove(self, position: Position) -> None:
        """The entry was acknowledged after the negative acknowledgement."""
        self._due.pop(position, None)

    def next_due(self) -> float | None:
        """The next time to call `take_due`."""
        order = self._order
        while order and self._due.get(order[0][1]) != order[0][0]:
            heappop(order)
        return order[0][0] if order else None

    def take_due(self, now: float) -> list[Position]:
        """The entries that are due now or within one step, in the order of their positions."""
        expired: list[Position] = []
        until = now + NACK_STEP_S
        while (due := self.next_due()) is not None and due <= until:
            position = heappop(self._order)[1]
            del self._due[position]
            expired.append(position)
        return sorted(expired)

    def forget(self) -> None:
        self._due.clear()
        self._order.clear()
