"""Keeps order in a Key_Shared subscription: no key is at two consumers while an older message of it is unacknowledged.

Slots identify keys. For each slot the class remembers which consumer holds unacknowledged entries and which entries
wait for another delivery (nacked, released by a leaving consumer, or read while their slot was blocked). An entry may
be sent only to the holder of its slot, or to any consumer if the slot is free, and only if no older entry of its slot
waits. The class chooses no consumer (a selector does), reads no entry and counts no permit. Its memory grows with
unacknowledged and waiting entries, never with keys seen. Waiting entries are filed by consumer, so that a slow consumer
costs the others nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Generic, TypeVar

from magnetar.base import validation
from magnetar.base.errors import InvalidTransition
from magnetar.base.ids import Position
from magnetar.topic.dispatch.redelivery import RedeliveryQueue

K = TypeVar("K", bound=Hashable)

Filed = tuple[Position, int]  # a waiting position and its slot
VALIDATED_MAX = 1_000  # entries: beyond, a check of all at each step would take longer than the test
STALE_FILED_MAX = 64  # filed positions that no longer wait, beyond as many as do, before the files are rebuilt


class KeyOrder(Generic[K]):
    """See the module. A consumer is any hashable key that is not None."""

    def __init__(self) -> None:
        self._holders: dict[int, K] = {}
        self._counts: dict[int, int] = {}  # same slots as _holders
        self._held: dict[K, dict[Position, int]] = {}  # consumer -> position -> slot
        self._waiting: dict[int, RedeliveryQueue] = {}  # slot -> positions to deliver again
        self._slots: dict[Position, int] = {}  # the same by position
        self._taken: set[Position] = set()  # waiting, and being read for delivery by a caller of take()
        # Every waiting position that is not taken is in one of these three; what else they hold is stale and skipped.
        self._fresh: list[Filed] = []  # owner not asked yet
        self._files: dict[K | None, list[Filed]] = {}  # by owner, each a heap
        self._parked: dict[int, list[Filed]] = {}  # the slot is held by another than its owner
        self._stale = 0  # at least as many as there are stale ones

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
            raise InvalidTransition(
                "another consumer still has an older message of this key", slot=slot, position=position
            )
        if slot in self._waiting:
            self._stop_waiting(slot, position)
        held = self._held.setdefault(consumer, {})
        if position in held:
            return
        held[position] = slot
        self._holders[slot] = consumer
        self._counts[slot] = self._counts.get(slot, 0) + 1

    def acked(self, slot: int, position: Position) -> bool:
        """The entry was acknowledged or removed. True if that freed the slot: other consumers may now get entries."""
        self._stop_waiting(slot, position)
        return self._release(slot, position)

    removed = acked

    def waits(self, slot: int, position: Position) -> bool:
        """To be delivered (again) later: nacked by its holder, or read while it could not be sent. True if that freed
        the slot.
        """
        freed = self._release(slot, position)
        if position not in self._slots or position in self._taken:
            self._taken.discard(position)
            self._fresh.append((position, slot))
        self._slots[position] = slot
        line = self._waiting.get(slot)
        if line is None:
            line = self._waiting[slot] = RedeliveryQueue()
        line.add_one(position)
        return freed

    def consumers_left(self, consumers: Collection[K]) -> list[Position]:
        """What they held now waits; those positions in order. Their slots have other owners now, as after `moved`. What
        waits is filed once for all of them."""
        released: list[Position] = []
        by_slot: dict[int, list[Position]] = {}
        for consumer in consumers:
            held = self._held.pop(consumer, {})
            for position, slot in held.items():
                by_slot.setdefault(slot, []).append(position)
            self._slots.update(held)
            released += held
        for slot, positions in by_slot.items():
            del self._holders[slot], self._counts[slot]
            self._waiting.setdefault(slot, RedeliveryQueue()).add(positions)
        self.moved()
        if validation.enabled and len(self._slots) <= VALIDATED_MAX:
            self.validate()
        return sorted(released)

    def moved(self) -> None:
        """A consumer joined: slots have other owners now."""
        self._files.clear()
        self._parked.clear()
        self._stale = 0
        self._fresh = [filed for filed in self._slots.items() if filed[0] not in self._taken]

    def take(self, select: Callable[[int], K | None], n: int, ready: Callable[[K], bool]) -> list[Position]:
        """Up to `n` waiting positions, oldest first, with a slot owner (by `select`) that is ready and may have them.
        They stay in line until `sent`, `acked` or `put_back`, but are not taken twice. Send them in the order given.
        The answers of `select` may change only with `consumers_left` and `moved`, those of `ready` at any time.
        """
        self._file(select)
        if validation.enabled and len(self._slots) <= VALIDATED_MAX:
            self.validate()
        owners = [owner for owner in self._files if owner is not None and ready(owner)]
        heads = [(self._files[owner][0], index) for index, owner in enumerate(owners)]
        heapify(heads)
        out: list[Position] = []
        while heads and len(out) < n:
            (position, slot), index = heads[0]
            owner = owners[index]
            file = self._files[owner]
            heappop(file)
            if self._slots.get(position) == slot and position not in self._taken:
                if self._holders.get(slot, owner) == owner:
                    out.append(position)
                    self._taken.add(position)
                else:
                    self._parked.setdefault(slot, []).append((position, slot))
            if file:
                heapreplace(heads, (file[0], index))
            else:
                del self._files[owner]
                heappop(heads)
        return out

    def put_back(self, positions: Collection[Position]) -> None:
        """Taken but not sent (no permits left, a failed read): they may be taken again."""
        for position in positions:
            if position in self._taken:
                self._taken.discard(position)
                self._fresh.append((position, self._slots[position]))

    def discard_upto(self, position: Position) -> None:
        """Everything at or before `position` is done with: skipped, expired or cleared."""
        for old in [p for p in self._slots if p <= position]:
            self._stop_waiting(self._slots[old], old)
        for held in list(self._held.values()):
            for old in [p for p in held if p <= position]:
                self._release(held[old], old)

    def clear(self) -> None:
        """A rewind: nothing is held and nothing waits."""
        self._holders.clear()
        self._counts.clear()
        self._held.clear()
        self._waiting.clear()
        self._slots.clear()
        self._taken.clear()
        self.moved()

    def validate(self) -> None:
        """Called when consumers come or go and before entries are taken, and not for each entry: it looks at all."""
        assert self._holders.keys() == self._counts.keys()
        held = [(slot, consumer) for consumer, slots in self._held.items() for slot in slots.values()]
        assert all(self._holders.get(slot) == consumer for slot, consumer in held), "a slot has one holder"
        assert len(held) == self.held(), "the entries of a holder are counted"
        positions = {position for slots in self._held.values() for position in slots}
        assert not positions & self._slots.keys(), "an entry that waits is with no consumer"
        assert self._taken <= self._slots.keys(), "a taken entry waits until it is sent"
        waiting = {position: slot for slot, queue in self._waiting.items() for position in queue}
        assert waiting == self._slots, "what waits is known by slot and by position"
        filed = {item for file in (self._fresh, *self._files.values(), *self._parked.values()) for item in file}
        lost = [item for item in self._slots.items() if item[0] not in self._taken and item not in filed]
        assert not lost, f"entries wait and would never be taken: {lost}"

    def holder(self, slot: int) -> K | None:
        return self._holders.get(slot)

    def count(self, slot: int) -> int:
        """Unacknowledged entries of the slot with its holder."""
        return self._counts.get(slot, 0)

    def waiting(self) -> int:
        return len(self._slots)

    def slot_of(self, position: Position) -> int | None:
        """The slot under which a position waits; None if it does not."""
        return self._slots.get(position)

    def held(self) -> int:
        return sum(self._counts.values())

    def _file(self, select: Callable[[int], K | None]) -> None:
        """Asks `select` for the owners of new positions in line."""
        if self._stale > len(self._slots) + STALE_FILED_MAX:
            self.moved()
        for item in self._fresh:
            owner = select(item[1])
            file = self._files.get(owner)
            if file is None:
                self._files[owner] = [item]
            else:
                heappush(file, item)
        self._fresh = []

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
        self._fresh += self._parked.pop(slot, [])
        return True

    def _stop_waiting(self, slot: int, position: Position) -> None:
        line = self._waiting.get(slot)
        if line is not None and line.discard(position):
            del self._slots[position]
            if position in self._taken:
                self._taken.discard(position)
            else:
                self._stale += 1
            if not line:
                del self._waiting[slot]
