"""Which consumer of a Key_Shared subscription owns a slot of the hash range.

Three ways to share the 65536 slots, each exactly as Pulsar computes it, so that a fleet moving between brokers sees
the same spread: ranges halved for each newcomer, a ring of points per consumer name, and ranges that the consumers
bring themselves. Pure: it knows consumers by an opaque key, keeps no message and no permit, and does not guard the
order of a key while ownership moves (`key_order` does). A slot is computed from the unsigned murmur3 hash of the sticky
key, by the selector, because the ring counts from 1.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

from magnetar.base.errors import ConsumerAssignError
from magnetar.base.hashes import SLOTS, key_shared_slot, key_shared_slot_consistent, murmur3, utf8
from magnetar.base.limits import STICKY_RANGES_MAX

K = TypeVar("K", bound=Hashable)


class AutoSplit(Generic[K]):
    """A newcomer takes the lower half of the widest range; a leaver's range falls to the next higher one."""

    def __init__(self, slots: int = SLOTS) -> None:
        self._slots = slots
        self._ends: list[int] = []  # ascending; the last is `slots` whenever there is a consumer
        self._owners: list[K] = []

    def add(self, consumer: K, name: str = "") -> None:
        if consumer in self._owners:
            raise ConsumerAssignError("the consumer is already in this subscription")
        if not self._ends:
            self._ends.append(self._slots)
            self._owners.append(consumer)
            return
        widths = [end - start for start, end in zip([0, *self._ends], self._ends, strict=False)]
        widest = max(range(len(widths)), key=widths.__getitem__)  # the first of equals
        half = widths[widest] >> 1
        if half == 0:
            raise ConsumerAssignError(
                "each slot of the hash range already has its own consumer", consumers=len(self._owners)
            )
        self._ends.insert(widest, self._ends[widest] - half)
        self._owners.insert(widest, consumer)

    def remove(self, consumer: K) -> None:
        if consumer not in self._owners:
            return
        at = self._owners.index(consumer)
        if at == len(self._owners) - 1 and at > 0:
            del self._ends[at - 1]  # the neighbour below inherits the end of the whole range
        else:
            del self._ends[at]
        del self._owners[at]

    def slot(self, key_hash: int) -> int:
        return key_shared_slot(key_hash)

    def select(self, slot: int) -> K | None:
        return self._owners[bisect_left(self._ends, slot)] if self._ends else None

    def ranges(self) -> list[tuple[int, int, K]]:
        starts = [0, *(end + 1 for end in self._ends)]
        return list(zip(starts, self._ends, self._owners, strict=False))


class ConsistentRing(Generic[K]):
    """Points by consumer name on a circle of slots 1..65535; the owner of a slot is the owner of the next point at or
    above it.
    """

    def __init__(self, points: int = 100) -> None:
        self._points_per_consumer = points
        self._at: dict[int, list[K]] = {}  # the first at a point owns it, the others wait for its leaving in order
        self._names: dict[K, tuple[str, int]] = {}
        self._taken: dict[str, set[int]] = {}  # name -> indexes in use: distinguishes consumers of one name
        self._points: list[int] = []  # of `_at`, ascending

    def add(self, consumer: K, name: str) -> None:
        if consumer in self._names:
            raise ConsumerAssignError("the consumer is already in this subscription")
        taken = self._taken.setdefault(name, set())
        index = next(i for i in range(len(taken) + 1) if i not in taken)
        taken.add(index)
        self._names[consumer] = (name, index)
        for point in self._places(name, index):
            there = self._at.get(point)
            if there is None:
                self._at[point] = [consumer]
                insort(self._points, point)
            elif consumer not in there:
                there.append(consumer)

    def remove(self, consumer: K) -> None:
        if consumer not in self._names:
            return
        name, index = self._names.pop(consumer)
        self._taken[name].discard(index)
        if not self._taken[name]:
            del self._taken[name]
        for point in self._places(name, index):
            there = self._at.get(point, [])
            if consumer in there:
                there.remove(consumer)
                if not there:
                    del self._at[point]
                    del self._points[bisect_left(self._points, point)]

    def slot(self, key_hash: int) -> int:
        return key_shared_slot_consistent(key_hash)

    def select(self, slot: int) -> K | None:
        if not self._points:
            return None
        return self._at[self._next(slot)][0]

    def ranges(self) -> list[tuple[int, int, K]]:
        if not self._points:
            return []
        ends = [*self._points, SLOTS - 1]
        starts = [1, *(end + 1 for end in ends)]
        return joined([(s, e, self._at[self._next(e)][0]) for s, e in zip(starts, ends, strict=False) if s <= e])

    def _places(self, name: str, index: int) -> list[int]:
        return [self.slot(murmur3(utf8(f"{name}\0{index}\0{i}"))) for i in range(self._points_per_consumer)]

    def _next(self, slot: int) -> int:
        points = self._points
        at = bisect_left(points, slot)
        return points[at] if at < len(points) else points[0]  # above the last point the circle closes


class Sticky(Generic[K]):
    """Consumers declare their ranges, ends included; a slot outside all ranges has no owner and is not delivered."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ranges: list[tuple[int, int, K]] = []

    def add(self, consumer: K, ranges: Sequence[tuple[int, int]]) -> None:
        """All of `ranges` or none: ConsumerAssignError says which one is wrong."""
        self._check(ranges)
        kept = sorted([*self._ranges, *((start, end, consumer) for start, end in ranges)], key=lambda r: r[0])
        self._keep(kept)

    def remove(self, consumer: K) -> None:
        self._keep([r for r in self._ranges if r[2] != consumer])

    def slot(self, key_hash: int) -> int:
        return key_shared_slot(key_hash)

    def select(self, slot: int) -> K | None:
        at = bisect_right(self._starts, slot) - 1
        if at < 0:
            return None
        _, end, consumer = self._ranges[at]
        return consumer if slot <= end else None

    def ranges(self) -> list[tuple[int, int, K]]:
        return joined(self._ranges)

    def _check(self, ranges: Sequence[tuple[int, int]]) -> None:
        if not ranges:
            raise ConsumerAssignError("a consumer with sticky ranges must have at least one range")
        if len(ranges) + len(self._ranges) > STICKY_RANGES_MAX:
            raise ConsumerAssignError("too many sticky ranges in this subscription", ranges_max=STICKY_RANGES_MAX)
        previous: tuple[int, int] | None = None
        for start, end in sorted(ranges):
            if start > end:
                raise ConsumerAssignError("a sticky range must not start after its end", start=start, end=end)
            if previous is not None and start <= previous[1]:
                raise ConsumerAssignError(
                    "the sticky ranges of a consumer must not overlap", first=previous, second=(start, end)
                )
            previous = (start, end)
            at = bisect_right(self._starts, end) - 1
            if at >= 0 and self._ranges[at][1] >= start:
                raise ConsumerAssignError("the range belongs to another consumer", start=start, end=end)

    def _keep(self, ranges: list[tuple[int, int, K]]) -> None:
        self._ranges = ranges
        self._starts = [start for start, _, _ in ranges]


def joined(ranges: Sequence[tuple[int, int, K]]) -> list[tuple[int, int, K]]:
    """Ranges in order, touching ones of one consumer made one: the form in which stats report them."""
    out: list[tuple[int, int, K]] = []
    for start, end, consumer in ranges:
        if out and out[-1][2] == consumer and out[-1][1] + 1 == start:
            out[-1] = (out[-1][0], end, consumer)
        else:
            out.append((start, end, consumer))
    return out
