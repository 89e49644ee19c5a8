"""Keeps the order of keys if consumers share a segment by entry buckets: `key_order` for entries of several buckets.

A consumer holds a bucket while it has unacknowledged entries of it; at most one consumer does. An entry may be sent
only if each of its buckets is held by its consumer or is free, and no older entry waits in any of them. So an entry
that spans two buckets blocks both until it is acknowledged, and waits for both. Slots are ranges of buckets
(`buckets.slot_of`). This class chooses no consumer, reads no entry and counts no permit; its memory grows with
unacknowledged and waiting entries.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Hashable
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from magnetar.base.errors import InvalidTransition
from magnetar.base.ids import Position
from magnetar.topic.dispatch.entry_buckets import span

K = TypeVar("K", bound=Hashable)


class BucketOrder(Generic[K]):
    """The methods are those of `KeyOrder`. A consumer is any hashable key that is not None."""

    def __init__(self) -> None:
        self._holders: dict[int, K] = {}  # by bucket
        self._counts: dict[int, int] = {}  # same buckets
        self._held: dict[K, dict[Position, int]] = {}  # consumer -> position -> slot
        self._lines: dict[int, list[Position]] = {}  # bucket -> what waits there, in order
        self._slots: dict[Position, int] = {}  # the same by position
        self._taken: set[Position] = set()  # waiting, and being read for delivery by a caller of take()

    def may_send(self, slot: int, consumer: K, position: Position) -> bool:
        for bucket in span(slot):
            if self._holders.get(bucket, consumer) != consumer:
                return False
            line = self._lines.get(bucket)
            if line and line[0] < position:
                return False
        return True

    def sent(self, slot: int, consumer: K, position: Position) -> None:
        """An entry went out. Sending what `may_send` forbids is a bug of the caller."""
        if not self.may_send(slot, consumer, position):
            raise InvalidTransition(
                "another consumer still has an older message of these buckets", slot=slot, position=position
            )
        self._stop_waiting(position)
        held = self._held.setdefault(consumer, {})
        if position in held:
            return
        held[position] = slot
        for bucket in span(slot):
            self._holders[bucket] = consumer
            self._counts[bucket] = self._counts.get(bucket, 0) + 1

    def acked(self, slot: int, position: Position) -> bool:
        """The entry was acknowledged or removed. True if a waiting entry may be sent now; others may still have to
        wait."""
        waited = self._stop_waiting(position)
        return self._release(slot, position) or waited

    def waits(self, slot: int, position: Position) -> bool:
        """To be delivered (again) later. True if that freed a bucket."""
        freed = self._release(slot, position)
        self._taken.discard(position)
        if position not in self._slots:
            self._wait(slot, position)
        return freed

    def consumers_left(self, consumers: Collection[K]) -> list[Position]:
        """What they held now waits; those positions in order."""
        gone = set(consumers)
        held: dict[Position, int] = {}
        for consumer in consumers:
            held.update(self._held.pop(consumer, {}))
        for bucket in [bucket for bucket, holder in self._holders.items() if holder in gone]:
            del self._holders[bucket], self._counts[bucket]
        for position in sorted(held):
            self._wait(held[position], position)
        return sorted(held)

    def moved(self) -> None:
        """Buckets have other owners now. Nothing here depends on who owns them."""

    def take(self, select: Callable[[int], K | None], n: int, ready: Callable[[K], bool]) -> list[Position]:
        """Up to `n` waiting positions, oldest first, with an owner (by `select`) that is ready and may have them. They
        stay in line until `sent`, `acked` or `put_back`, but are not taken twice. Send them in the order given.
        """
        heads = [(line[0], bucket, 0) for bucket, line in self._lines.items()]
        heapify(heads)
        stopped: set[int] = set()  # buckets where something older stays
        claimed: dict[int, K] = {}  # buckets that the consumers of the taken entries will hold
        out: list[Position] = []
        while heads and len(out) < n:
            position, bucket, place = heappop(heads)
            if bucket in stopped:
                continue
            slot = self._slots[position]
            owner = select(slot)
            if position not in self._taken:
                # All older entries were considered before: those that stay have stopped their buckets.
                free = owner is not None and ready(owner) and self._free(slot, owner, stopped, claimed)
                if not free:
                    stopped.update(span(slot))
                    continue
                out.append(position)
                self._taken.add(position)
            if owner is not None:
                claimed.update(dict.fromkeys(span(slot), owner))
            line = self._lines[bucket]
            if place + 1 < len(line):
                heappush(heads, (line[place + 1], bucket, place + 1))
        return out

    def put_back(self, positions: Collection[Position]) -> None:
        """Taken but not sent (no permits left, a failed read): they may be taken again."""
        self._taken.difference_update(positions)

    def discard_upto(self, position: Position) -> None:
        """Everything at or before `position` is done with: skipped, expired or cleared."""
        for old in [one for one in self._slots if one <= position]:
            self._stop_waiting(old)
        for held in list(self._held.values()):
            for old in [one for one in held if one <= position]:
                self._release(held[old], old)

    def clear(self) -> None:
        """A rewind: nothing is held and nothing waits."""
        for state in (self._holders, self._counts, self._held, self._lines, self._slots, self._taken):
            state.clear()

    def waiting(self) -> int:
        return len(self._slots)

    def slot_of(self, position: Position) -> int | None:
        """The slot under which a position waits; None if it does not."""
        return self._slots.get(position)

    def holder(self, bucket: int) -> K | None:
        return self._holders.get(bucket)

    def held(self) -> int:
        return sum(len(held) for held in self._held.values())

    def _free(self, slot: int, owner: K, stopped: set[int], claimed: dict[int, K]) -> bool:
        return all(
            bucket not in stopped and self._holders.get(bucket, owner) == owner and claimed.get(bucket, owner) == owner
            for bucket in span(slot)
        )

    def _wait(self, slot: int, position: Position) -> None:
        self._slots[position] = slot
        for bucket in span(slot):
            line = self._lines.setdefault(bucket, [])
            if not line or line[-1] < position:
                line.append(position)
            else:
                line.insert(bisect_left(line, position), position)

    def _stop_waiting(self, position: Position) -> bool:
        """True if something waits behind it."""
        slot = self._slots.pop(position, None)
        if slot is None:
            return False
        self._taken.discard(position)
        more = False
        for bucket in span(slot):
            line = self._lines[bucket]
            del line[bisect_left(line, position)]
            if line:
                more = True
            else:
                del self._lines[bucket]
        return more

    def _release(self, slot: int, position: Position) -> bool:
        """True if that freed a bucket."""
        holder = self._holders.get(span(slot)[0])
        held = None if holder is None else self._held.get(holder)
        if held is None or held.get(position) != slot:
            return False
        del held[position]
        if not held and holder is not None:
            del self._held[holder]
        freed = False
        for bucket in span(slot):
            self._counts[bucket] -= 1
            if not self._counts[bucket]:
                del self._holders[bucket], self._counts[bucket]
                freed = True
        return freed
