"""Entry buckets: how the consumers of one segment share it (PIP-486), and which buckets an entry belongs to.

A second ring of 16 bits inside a segment, cut at boundaries that the layout holds. Consumers bring the whole list, the
same one; who owns which bucket follows from their names, so that it does not depend on who came first. An entry says by
its stamp which hashes it holds, and may span several buckets; what hides its keys spans all of them, so that no key of
it can be overtaken. Pure: the order of a bucket while it changes hands is `bucket_order`'s.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

from magnetar.base.errors import ConsumerAssignError, Corrupt
from magnetar.base.hashes import SLOTS, low16, murmur3
from magnetar.wire import entry
from magnetar.wire.metadata import key_of

K = TypeVar("K", bound=Hashable)

SPAN_BITS = 17  # of a slot: the first bucket below, the last one above
_MASK = (1 << SPAN_BITS) - 1


def check_boundaries(ranges: Sequence[tuple[int, int]]) -> None:
    """ConsumerAssignError: not all of the ring, each hash once, in order."""
    expected = 0
    for first, last in ranges:
        if first != expected or last < first:
            raise ConsumerAssignError(
                "entry buckets must cover the ring in order and without gaps", start=first, end=last
            )
        expected = last + 1
    if expected != SLOTS or ranges[0][1] < 1:
        raise ConsumerAssignError(
            "the first entry bucket must contain hashes 0 and 1, and the last must end with 65535", buckets=len(ranges)
        )


def slot_of(first: int, last: int) -> int:
    """A stretch of buckets as one number."""
    return first | last << SPAN_BITS


def span(slot: int) -> range:
    """The buckets of a slot."""
    return range(slot & _MASK, (slot >> SPAN_BITS) + 1)


class EntryBuckets(Generic[K]):
    """`select` takes the first bucket of a slot: its owner gets the entry, even if the entry spans more buckets."""

    def __init__(self, boundaries: Sequence[tuple[int, int]]) -> None:
        check_boundaries(boundaries)
        self.boundaries = tuple(boundaries)
        self._starts = [first for first, _ in boundaries]
        self._consumers: list[tuple[str, int, K]] = []  # by name, then number
        self._owners: list[K] = []  # by bucket

    def __len__(self) -> int:
        return len(self.boundaries)

    def add(self, consumer: K, name: str, number: int, boundaries: Sequence[tuple[int, int]]) -> None:
        """ConsumerAssignError: its boundaries are others than those of who is here."""
        if tuple(boundaries) != self.boundaries:
            raise ConsumerAssignError(
                "the entry buckets must equal those of the other consumers of this segment",
                buckets=len(self),
                asked=len(boundaries),
            )
        self._consumers.append((name, number, consumer))
        self._settle()

    def remove(self, consumer: K) -> None:
        self._consumers = [one for one in self._consumers if one[2] != consumer]
        self._settle()

    def select(self, bucket: int) -> K | None:
        """`bucket` may be the slot of a key: what it spans above its first bucket does not matter."""
        return self._owners[bucket & _MASK] if self._owners else None

    def ranges(self) -> list[tuple[int, int, K]]:
        return [(first, last, owner) for (first, last), owner in zip(self.boundaries, self._owners, strict=False)]

    def bucket(self, hash: int) -> int:
        return bisect_right(self._starts, hash) - 1

    def slot(self, key_hash: int) -> int:
        """Of a key, by its murmur3 hash."""
        bucket = self.bucket(low16(key_hash))
        return slot_of(bucket, bucket)

    def entry_slot(self, buffer: bytes, start: int, end: int) -> int:
        """Of an entry. One without a key goes by its producer and number: that spreads it and keeps chunks together."""
        every = slot_of(0, len(self) - 1)
        try:
            metadata = entry.read(buffer, start, end)
            if 0 <= metadata.hash_min <= metadata.hash_max < SLOTS:
                return slot_of(self.bucket(metadata.hash_min), self.bucket(metadata.hash_max))
            if metadata.messages >= 0:
                return every  # a batch without a stamp: any key may be in it
            key = key_of(metadata)
        except Corrupt:
            return every
        return self.slot(murmur3(entry.NO_KEY if key is None else key))

    def _settle(self) -> None:
        """Consumer j of k has the buckets from j*N//k on, as Pulsar shares them: of more than N some have none."""
        self._consumers.sort(key=lambda one: one[:2])
        count, buckets = len(self._consumers), len(self)
        self._owners = [
            self._consumers[index][2]
            for index in range(count)
            for _ in range(index * buckets // count, (index + 1) * buckets // count)
        ]
