"""Messages to be delivered later: which positions are due, and when the next one will be.

Times are rounded up to a step, so that nothing is ever early and late by at most one step; positions of one step and
ledger share one array of 8 bytes each. It holds no message and sets no timer: the caller asks with its own clock, and
arms one timer for `next_due_ms`. It is memory only: after a restart the entries are read again from the cursor, and
their metadata says when they are due.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from heapq import heapify, heappop, heappush

from magnetar.base.ids import AFTER_ALL, Position
from magnetar.base.limits import DELAYED_POSITIONS_MAX, DELAYED_STEP_BYTES, DELAYED_TICK_MS


class Delayed:
    """The index of one subscription."""

    def __init__(self, tick_ms: int = DELAYED_TICK_MS, positions_max: int = DELAYED_POSITIONS_MAX) -> None:
        self._tick_ms = tick_ms
        self._positions_max = positions_max
        self._heap: list[tuple[int, int]] = []  # (step, ledger); may hold keys that are gone
        self._buckets: dict[tuple[int, int], array[int]] = {}  # -> ascending entry ids
        self._length = 0
        self._lowest: Position = AFTER_ALL  # at or before every position held

    def __len__(self) -> int:
        return self._length

    @property
    def bytes(self) -> int:
        """An estimate of the memory."""
        return DELAYED_STEP_BYTES * len(self._buckets) + 8 * self._length

    @property
    def full(self) -> bool:
        """No more entries are read ahead until some are due. `add` still accepts entries that were read before."""
        return self._length >= self._positions_max

    def add(self, deliver_at_ms: int, position: Position) -> None:
        """Hold `position` back until then. The same position at the same time again changes nothing."""
        key = (-(-deliver_at_ms // self._tick_ms), position.ledger)
        entries = self._buckets.get(key)
        if entries is None:
            entries = self._buckets[key] = array("q")
            heappush(self._heap, key)
        if not entries or position.entry > entries[-1]:
            entries.append(position.entry)
        else:
            at = bisect_left(entries, position.entry)
            if entries[at] == position.entry:
                return
            entries.insert(at, position.entry)
        self._length += 1
        if position < self._lowest:
            self._lowest = position

    def due(self, now_ms: int, limit: int) -> list[Position]:
        """Takes up to `limit` due positions, the earliest due first. The result is in the order of positions."""
        step_now = now_ms // self._tick_ms
        taken: list[Position] = []
        while self._drop_gone() and self._heap[0][0] <= step_now and len(taken) < limit:
            key = self._heap[0]
            entries = self._buckets[key]
            part = entries[: limit - len(taken)]
            taken.extend(Position(key[1], entry) for entry in part)
            del entries[: len(part)]
            if not entries:
                del self._buckets[key]
                heappop(self._heap)
        self._length -= len(taken)
        taken.sort()
        return taken

    def next_due_ms(self) -> int | None:
        """When `due` will have something; None if nothing is held."""
        return self._heap[0][0] * self._tick_ms if self._drop_gone() else None

    def discard_upto(self, position: Position) -> int:
        """Everything at or before `position` is acknowledged or skipped: how many that were."""
        if position < self._lowest:
            return 0
        gone = 0
        for key in [key for key in self._buckets if key[1] <= position.ledger]:
            entries = self._buckets[key]
            stop = len(entries) if key[1] < position.ledger else bisect_right(entries, position.entry)
            gone += stop
            if stop == len(entries):
                del self._buckets[key]
            else:
                del entries[:stop]
        self._length -= gone
        self._heap = list(self._buckets)
        heapify(self._heap)
        self._lowest = Position(position.ledger, position.entry + 1) if self._length else AFTER_ALL
        return gone

    def clear(self) -> None:
        self._heap.clear()
        self._buckets.clear()
        self._length = 0
        self._lowest = AFTER_ALL

    def _drop_gone(self) -> bool:
        """Whether the heap's top is a bucket that exists."""
        while self._heap and self._heap[0] not in self._buckets:
            heappop(self._heap)
        return bool(self._heap)
