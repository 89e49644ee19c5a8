"""Which consumer of a Failover subscription is the active one (PIP-392).

Consumers of the best priority level are ordered by name; a partition of a topic takes the one at its index modulo
their number, any other topic, and every topic once consistent hashing is switched on, asks a ring of 100 points per
name. Pure: it holds no consumer and sends no ACTIVE_CONSUMER_CHANGE, it only answers. It trusts the caller for the
partition index (-1: not a partition; 0 for a non-persistent topic without partitions, which never uses the ring) and
for having named the unnamed consumers.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from magnetar.base.hashes import masked, murmur3, utf8
from magnetar.base.limits import FAILOVER_RINGS_CACHED_MAX

POINTS_PER_CONSUMER = 100


class Candidate(NamedTuple):
    """One connected consumer. A lower `priority` is better; `joined` grows with every SUBSCRIBE and settles equal
    names.
    """

    name: str
    priority: int
    joined: int


class Ring:
    """Points of the names on the circle of 31-bit hashes; an owner is the index of a name in the sequence given."""

    __slots__ = ("_owners", "_points")

    def __init__(self, names: Sequence[str]) -> None:
        placed: dict[int, int] = {}
        for index, name in enumerate(names):
            for point in range(POINTS_PER_CONSUMER):
                placed[_point(f"{name}{point}")] = index  # on equal points the later name wins
        self._points = array("I", sorted(placed))
        self._owners = array("I", (placed[point] for point in self._points))

    def owner(self, topic: str) -> int:
        at = bisect_left(self._points, _point(topic))
        return self._owners[at] if at < len(self._points) else self._owners[0]


def choose(consumers: Sequence[Candidate], topic: str, partition: int, consistent: bool) -> int | None:
    """The index in `consumers` of the active one; None without consumers. `topic` is the full name, partition suffix
    included.
    """
    order = ordered(consumers)
    if not order:
        return None
    best = consumers[order[0]].priority
    leading = [index for index in order if consumers[index].priority == best]
    if partition >= 0 and not consistent:
        return leading[partition % len(leading)]
    return leading[_ring(tuple(consumers[index].name for index in leading)).owner(topic)]


def ordered(consumers: Sequence[Candidate]) -> list[int]:
    """Indexes of `consumers` by priority level, name in Java's order of strings, then order of joining."""
    return sorted(range(len(consumers)), key=lambda index: _rank(consumers[index]))


def _rank(consumer: Candidate) -> tuple[int, bytes, int]:
    # Java compares UTF-16 units: big-endian bytes of them compare the same way, code points do not.
    return consumer.priority, consumer.name.encode("utf-16-be", "surrogatepass"), consumer.joined


def _point(text: str) -> int:
    return masked(murmur3(utf8(text)))


@lru_cache(maxsize=FAILOVER_RINGS_CACHED_MAX)
def _ring(names: tuple[str, ...]) -> Ring:
    return Ring(names)
