"""The guard of order in a Key_Shared subscription: no key at two consumers while an older message of it is
unacknowledged.

Keys are known by their slot. For each slot it remembers who holds unacknowledged entries and which entries wait for
another delivery (nacked, released by a leaving consumer, or read while their slot was blocked). An entry may go out
only to the holder of its slot, or to anyone while nobody holds it, and only if no older entry of its slot waits. It
chooses no consumer (a selector does), reads no entry and counts no permit. Memory grows with unacknowledged and
waiting entries, never with keys seen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator
from heapq import heapify, heappop, heapreplace
from itertools import filterfalse
from typing import Generic, TypeVar

from magnetar.base.errors import InvalidTransition
from magnetar.base.ids import Position
from magnetar.topic.redelivery import Replay

K = TypeVar("K", bound=Hashable)


class KeyOrder(Generic[K]):
    """See the module. A consumer is any hashable key that is not None."""

    def __init__(self) -> None:
        self._holders: dict[int, K] = {}
        self._counts: dict[int, int] = {}  # same slots as _holders
        self._held: dict[K, dict[Position, int]] = {}  # consumer -> position -> slot
        self._waiting: dict[int, Replay] = {}  # slot -> positions to deliver again
        self._taken: set[Position] = set()  # waiting, and being read for delivery by a caller of take()

    def may_send(self, slot: int, consumer: K, position: Position) -> bool:
        """Whether nothing older of the slot is elsewhere: neither with another consumer nor waiting."""
        holder = self._holders.get(slot)
        if holder is not None and holder != consumer:
            return False
        waiting = self._waiting.get(slot)
        if waiting is None:
            return True
        oldest = waiting.peek()
        return oldest is None or oldest >= position

    def sent(self, slot: int, consumer: K, position: Position) -> None:
        """An entry went out. Sending what `may_send` forbids is a bug of the caller."""
        if not self.may_send(slot, consumer, position):
            raise InvalidTransition("an older message of this key is elsewhere", slot=slot, position=position)
        if slot in self._waiting:
            self._stop_waiting(slot, position)
        held = self._held.setdefault(consumer, {})
        if position in held:
            return
        held[position] = slot
        self._holders[slot] = consumer
        self._counts[slot] = self._counts.get(slot, 0) + 1

    def acked(self, slot: int, position: Position) -> bool:
        """Acknowledged or otherwise gone for good. True if that freed the slot: others may now get its entries."""
        self._stop_waiting(slot, position)
        return self._release(slot, position)

    removed = acked

    def waits(self, slot: int, position: Position) -> bool:
        """To be delivered (again) later: nacked by its holder, or read while it could not be sent. True if that freed
        the slot.
        """
        freed = self._release(slot, position)
        line = self._waiting.get(slot)
        if line is None:
            line = self._waiting[slot] = Replay()
        line.add_one(position)
        self._taken.discard(position)
        return freed

    def consumer_left(self, consumer: K) -> list[Position]:
        """What it held now waits; those positions in order."""
        held = self._held.pop(consumer, {})
        by_slot: dict[int, list[Position]] = {}
        for position, slot in held.items():
            by_slot.setdefault(slot, []).append(position)
        for slot, positions in by_slot.items():
            del self._holders[slot], self._counts[slot]
            self._waiting.setdefault(slot, Replay()).add(positions)
        return sorted(held)

    def take(self, select: Callable[[int], K | None], n: int) -> list[Position]:
        """Up to `n` waiting positions, oldest first, whose slot's consumer (by `select`) may have them; they go on
        waiting until `sent`, `acked` or `put_back`, but are not taken twice. Per slot they come in order: send them
        in the order given.
        """
        heads: list[tuple[Position, int, Iterator[Position]]] = []
        for slot, line in self._waiting.items():
            consumer = select(slot)
            if consumer is None or self._holders.get(slot, consumer) != consumer:
                continue
            untaken: Iterator[Position] = filterfalse(self._taken.__contains__, line)
            head = next(untaken, None)
            if head is not None:
                heads.append((head, slot, untaken))
        heapify(heads)
        out: list[Position] = []
        while heads and len(out) < n:
            position, slot, rest = heads[0]
            out.append(position)
            following = next(rest, None)
            if following is None:
                heappop(heads)
            else:
                heapreplace(heads, (following, slot, rest))
        self._taken.update(out)
        return out

    def put_back(self, positions: Collection[Position]) -> None:
        """Taken but not sent (no permits left, a failed read): they may be taken again."""
        self._taken.difference_update(positions)

    def discard_upto(self, position: Position) -> None:
        """Everything at or before `position` is done with: skipped, expired or cleared."""
        for slot in list(self._waiting):
            line = self._waiting[slot]
            line.discard_upto(position)
            if not line:
                del self._waiting[slot]
        self._taken = {p for p in self._taken if p > position}
        for held in list(self._held.values()):
            for old in [p for p in held if p <= position]:
                self._release(held[old], old)

    def clear(self) -> None:
        """A rewind: nothing is held and nothing waits."""
        self._holders.clear()
        self._counts.clear()
        self._held.clear()
        self._waiting.clear()
        self._taken.clear()

    def holder(self, slot: int) -> K | None:
        return self._holders.get(slot)

    def count(self, slot: int) -> int:
        """Unacknowledged entries of the slot with its holder."""
        return self._counts.get(slot, 0)

    def waiting(self) -> int:
        return sum(len(line) for line in self._waiting.values())

    def held(self) -> int:
        return sum(self._counts.values())

    def blocked_slots(self, select: Callable[[int], K | None]) -> list[int]:
        """Slots held by a consumer although the selector gives them to another by now: nothing of them goes out. For
        stats.
        """
        return sorted(slot for slot, holder in self._holders.items() if select(slot) != holder)

    def _release(self, slot: int, position: Position) -> bool:
        holder = self._holders.get(slot)
        if holder is None or self._held[holder].get(position) != slot:
            return False
        del self._held[holder][position]
        if not self._held[holder]:
            del self._held[holder]
        self._counts[slot] -= 1
        if self._counts[slot]:
            return False
        del self._holders[slot], self._counts[slot]
        return True

    def _stop_waiting(self, slot: int, position: Position) -> None:
        line = self._waiting.get(slot)
        if line is not None and line.discard(position):
            self._taken.discard(position)
            if not line:
                del self._waiting[slot]
