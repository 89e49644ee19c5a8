"""Which consumer of a Failover subscription is the active one (PIP-392).

Consumers of the best priority level are ordered by name; a partition of a topic takes the one at its index modulo
their number, any other topic, and every topic once consistent hashing is switched on, asks a ring of 100 points per
name. One topic asks for one place of the ring only, so no ring is built: each consumer is filed by the distance from
the topic's place to its own next point, and a join or leave costs the same for the first consumer and the thousandth.
Pure: it holds no consumer and sends no ACTIVE_CONSUMER_CHANGE, it only answers. It trusts the caller for the
partition index (-1: not a partition; 0 for a non-persistent topic without partitions, which never uses the ring) and
for having named the unnamed consumers.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from magnetar.base.hashes import masked, murmur3, utf8
from magnetar.base.limits import FAILOVER_NAMES_CACHED_MAX

POINTS_PER_CONSUMER = 100

_Rank = tuple[int, bytes, int]


class Candidate(NamedTuple):
    """One connected consumer. A lower `priority` is better; `joined` grows with every SUBSCRIBE and settles equal
    names.
    """

    name: str
    priority: int
    joined: int


class Candidates:
    """The connected consumers of one subscription of a topic, kept in order. `topic` is the full name, partition
    suffix included; `joined` identifies a candidate.
    """

    __slots__ = ("_by_joined", "_near", "_partition", "_place", "_ranked")

    def __init__(self, topic: str, partition: int) -> None:
        self._partition = partition
        self._place = _point(topic)
        self._by_joined: dict[int, Candidate] = {}
        self._ranked: list[_Rank] = []
        self._near: list[tuple[int, int, _Last]] | None = None  # from the first use of the ring on

    def __len__(self) -> int:
        return len(self._by_joined)

    def add(self, candidate: Candidate) -> None:
        self._by_joined[candidate.joined] = candidate
        insort(self._ranked, _rank(candidate))
        if self._near is not None:
            insort(self._near, self._filed(candidate))

    def remove(self, candidate: Candidate) -> None:
        """Removes a candidate; an unknown one changes nothing."""
        if self._by_joined.pop(candidate.joined, None) is None:
            return
        del self._ranked[bisect_left(self._ranked, _rank(candidate))]
        if self._near is not None:
            del self._near[bisect_left(self._near, self._filed(candidate))]

    def active(self, *, consistent: bool) -> Candidate | None:
        """None without consumers. `consistent`: the ring also for a partition."""
        if not self._ranked:
            return None
        if self._partition >= 0 and not consistent:
            leading = bisect_left(self._ranked, (self._ranked[0][0] + 1, b"", -1))
            return self._by_joined[self._ranked[self._partition % leading][2]]
        if self._near is None:
            self._near = sorted(self._filed(candidate) for candidate in self._by_joined.values())
        return self._by_joined[self._near[0][2].rank[2]]

    def ordered(self) -> list[Candidate]:
        """By priority level, name in Java's order of strings, then order of joining."""
        return [self._by_joined[rank[2]] for rank in self._ranked]

    def _filed(self, candidate: Candidate) -> tuple[int, int, _Last]:
        points = _points(candidate.name)
        at = bisect_left(points, self._place)
        next_point = points[at] if at < len(points) else points[0]
        return candidate.priority, (next_point - self._place) & 0x7FFFFFFF, _Last(_rank(candidate))


class _Last:
    """Sorts the last rank first: on equal points the later name wins."""

    __slots__ = ("rank",)

    def __init__(self, rank: _Rank) -> None:
        self.rank = rank

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Last) and self.rank == other.rank

    def __lt__(self, other: _Last) -> bool:
        return self.rank > other.rank

    __hash__ = None  # type: ignore[assignment]


def choose(consumers: Sequence[Candidate], topic: str, partition: int, consistent: bool) -> int | None:
    """The index in `consumers` of the active one; None without consumers."""
    active = _all(consumers, topic, partition).active(consistent=consistent)
    return None if active is None else consumers.index(active)


def ordered(consumers: Sequence[Candidate]) -> list[int]:
    """Indexes of `consumers` in the order of `Candidates.ordered`."""
    return [consumers.index(candidate) for candidate in _all(consumers, "", 0).ordered()]


def _all(consumers: Sequence[Candidate], topic: str, partition: int) -> Candidates:
    candidates = Candidates(topic, partition)
    for consumer in consumers:
        candidates.add(consumer)
    return candidates


def _rank(consumer: Candidate) -> _Rank:
    # Java compares UTF-16 units: big-endian bytes of them compare the same way, code points do not.
    return consumer.priority, consumer.name.encode("utf-16-be", "surrogatepass"), consumer.joined


def _point(text: str) -> int:
    return masked(murmur3(utf8(text)))


@lru_cache(maxsize=FAILOVER_NAMES_CACHED_MAX)
def _points(name: str) -> array[int]:
    return array("I", sorted(_point(f"{name}{point}") for point in range(POINTS_PER_CONSUMER)))
