"""The positions to deliver again, and the unacknowledged messages of a consumer.

`RedeliveryQueue` is an ordered set of positions: a sorted list with a moving head. So taking from the front costs
nothing, and a hundred thousand positions are cheap. `UnackedMessages` has the entries that one Shared or Key_Shared
consumer was sent and has not acknowledged, with the message counts for its cap. Both ignore positions that they do not
know, because acknowledgements come twice, late, and for entries of another consumer.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Iterable, Iterator

from magnetar.base.ids import Position

COMPACT_AT = 64  # a shorter dead head is not worth copying the list


class RedeliveryQueue:
    """An ordered set of positions."""

    __slots__ = ("_head", "_items")

    def __init__(self, positions: Collection[Position] = ()) -> None:
        self._items: list[Position] = []  # ascending from _head on; before it, positions already taken
        self._head = 0
        self.add(positions)

    def __len__(self) -> int:
        return len(self._items) - self._head

    def __bool__(self) -> bool:
        return len(self._items) > self._head

    def __iter__(self) -> Iterator[Position]:
        items = self._items
        return (items[index] for index in range(self._head, len(items)))

    def __contains__(self, position: Position) -> bool:
        at = bisect_left(self._items, position, self._head)
        return at < len(self._items) and self._items[at] == position

    def add(self, positions: Collection[Position]) -> None:
        """Repeated positions are kept once."""
        items = self._items
        if positions and items and min(positions) > items[-1]:
            items += sorted(set(positions))
            return
        if len(positions) * 16 > len(self):
            self._items = sorted({*items[self._head :], *positions})
            self._head = 0
            return
        for position in positions:
            at = bisect_left(items, position, self._head)
            if at == len(items) or items[at] != position:
                items.insert(at, position)

    def add_one(self, position: Position) -> None:
        items = self._items
        if not items or position > items[-1]:
            items.append(position)
        elif position not in self:
            insort(items, position, self._head)

    def peek(self) -> Position | None:
        return self._items[self._head] if self else None

    def pop_first(self, n: int, accept: Callable[[Position], bool] | None = None) -> list[Position]:
        """Take the first `n`; with `accept`, the first `n` for which it says yes, leaving the others."""
        if accept is not None:
            return self._pop_wanted(n, accept)
        stop = min(self._head + n, len(self._items))
        taken = self._items[self._head : stop]
        self._move_head(stop)
        return taken

    def discard(self, position: Position) -> bool:
        """Whether it was there."""
        at = bisect_left(self._items, position, self._head)
        if at == len(self._items) or self._items[at] != position:
            return False
        if at == self._head:
            self._move_head(at + 1)
        else:
            del self._items[at]
        return True

    def discard_upto(self, position: Position) -> int:
        """Everything at or before `position` goes; how many that were."""
        stop = bisect_right(self._items, position, self._head)
        gone = stop - self._head
        self._move_head(stop)
        return gone

    def clear(self) -> None:
        self._items = []
        self._head = 0

    def _pop_wanted(self, n: int, accept: Callable[[Position], bool]) -> list[Position]:
        taken: list[Position] = []
        left: list[Position] = []
        items = self._items
        at = self._head
        while at < len(items) and len(taken) < n:
            position = items[at]
            (taken if accept(position) else left).append(position)
            at += 1
        if taken:
            self._items = left + items[at:]
            self._head = 0
        return taken

    def _move_head(self, head: int) -> None:
        if head == len(self._items):
            self.clear()
        elif head > COMPACT_AT and head * 2 > len(self._items):
            del self._items[:head]
            self._head = 0
        else:
            self._head = head


class UnackedMessages:
    """Positions one consumer holds: how many messages of each are unacknowledged, and the slot it was routed by (-1:
    none).
    """

    __slots__ = ("_held", "messages")

    def __init__(self) -> None:
        self._held: dict[Position, tuple[int, int]] = {}
        self.messages = 0

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, position: Position) -> bool:
        return position in self._held

    def get(self, position: Position) -> tuple[int, int] | None:
        return self._held.get(position)

    def add(self, position: Position, messages: int, slot: int = -1) -> None:
        before = self._held.get(position)
        self._held[position] = (messages, slot)
        self.messages += messages - (before[0] if before is not None else 0)

    def add_run(self, ledger: int, first: int, counts: list[int], slot: int = -1) -> None:
        """Adds consecutive entries in one call."""
        for entry, messages in enumerate(counts, first):
            self.add(Position(ledger, entry), messages, slot)

    def lower(self, position: Position, messages: int) -> int:
        """`messages` of a batch remain unacknowledged. Returns the number of freed messages; 0 if it is unknown."""
        held = self._held.get(position)
        if held is None or messages >= held[0]:
            return 0
        self._held[position] = (messages, held[1])
        self.messages -= held[0] - messages
        return held[0] - messages

    def remove(self, position: Position) -> tuple[int, int] | None:
        """The count and slot it was held with, or None if it was not."""
        held = self._held.pop(position, None)
        if held is not None:
            self.messages -= held[0]
        return held

    def remove_upto(self, position: Position) -> list[tuple[Position, int, int]]:
        """A cumulative acknowledgement: position, count and slot of each that it covers, in order."""
        return self._take(sorted(p for p in self._held if p <= position))

    def remove_all(self) -> list[tuple[Position, int, int]]:
        """The consumer left, or asked for everything again."""
        return self._take(sorted(self._held))

    def clear(self) -> list[Position]:
        """As `remove_all`, for a caller that does not need counts, slots or order."""
        held, self._held = self._held, {}
        self.messages = 0
        return list(held)

    def positions(self) -> list[Position]:
        return sorted(self._held)

    def _take(self, positions: Iterable[Position]) -> list[tuple[Position, int, int]]:
        taken = [(position, *self._held.pop(position)) for position in positions]
        self.messages -= sum(messages for _, messages, _ in taken)
        return taken
