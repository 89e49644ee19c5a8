"""Sorts the waiting messages of a segment queue by entry bucket before they are split into entries, so that each batch
has messages of one bucket (PIP-486).

All messages of a key move together, and only before any of them was written. Places and numbers are reassigned among
the same messages, so that both still increase in the queue and the owner can compare the numbers of a batch (H-E4).
Numbers given by a sender do not change, nor do messages that were written before. Such a batch may contain several
buckets; its hash range covers them. Messages without a key go into one bucket, a different one each time. Pure
decisions.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from magnetar.base.hashes import SLOTS, low16, murmur3
from magnetar.base.limits import BUCKET_WINDOW_S, BUCKETS_FILLED_MAX
from magnetar.client.producer.fields import MessageFields
from magnetar.client.producer.router import KeyRoute, routing_key

if TYPE_CHECKING:
    from magnetar.client.producer.scalable.queued_messages import Columns, QueuedMessage

_SHARE = 0.8  # average fill of an entry, so that few buckets overflow into a second, small entry
_SPREAD = 40503  # odd: consecutive numbers land far apart


class BucketSorter:
    """Sorts one segment queue. `splits`: the first hash of each bucket of the segment except the first."""

    __slots__ = ("_arranged", "_bounds", "_splits", "_turn")

    def __init__(self, splits: tuple[int, ...]) -> None:
        self._splits = splits
        self._arranged = -1  # the queue is sorted up to this place
        self._bounds: dict[int, tuple[int, int]] = {}  # hash range of each bucket in the last sorted part
        self._turn = 0

    @property
    def room(self) -> float:
        """The number of entries to fill before writing: less than one per bucket, because buckets fill unevenly."""
        return max(min(len(self._splits) + 1, BUCKETS_FILLED_MAX) * _SHARE, 1.0)

    def arrange(self, messages: deque[QueuedMessage], *, mark: int, messages_max: int) -> None:
        """Sort the head of the queue, before an entry is taken from it."""
        if messages[0].place <= self._arranged or messages_max == 1:
            return
        hashes: dict[int, list[int]] = {}
        buckets: dict[int, list[QueuedMessage]] = {}
        splits, keyless = self._splits, self._turn % (len(self._splits) + 1)
        left = messages_max * (len(splits) + 1)
        latest = messages[0].deadline + BUCKET_WINDOW_S
        window: list[QueuedMessage] = []
        for message in messages:
            fields = message.fields
            if fields is None:
                bucket = keyless
            else:
                # Numbers given by the sender do not move, and no message waits for one with a much later deadline.
                hash = hash_of(message)
                bucket = bisect_right(splits, hash) if hash >= 0 else keyless
                if fields.sequence >= 0:
                    break
                if hash >= 0:
                    hashes.setdefault(bucket, []).append(hash)
            if message.alone or message.doubt or message.sequence <= mark or message.deadline > latest or not left:
                break
            left -= 1
            window.append(message)
            if message.group is None or type(message.group) is int:
                message.group = bucket
            buckets.setdefault(bucket, []).append(message)
        if window:
            self._turn += 1
            self._arranged = window[-1].place
            self._bounds = {bucket: (min(found), max(found)) for bucket, found in hashes.items()}
            if len(buckets) > 1:
                self._reorder(messages, window, [one for bucket in sorted(buckets) for one in buckets[bucket]])

    def bucket_of(self, fields: MessageFields | None, route: KeyRoute) -> int:
        """The bucket of a message that is gathered in columns."""
        hash = place_of(fields, route)
        return bisect_right(self._splits, hash) if hash >= 0 else self._turn % (len(self._splits) + 1)

    def advance(self) -> None:
        """Columns were closed: the next messages without a key go into the next bucket."""
        self._turn += 1

    def stamp_of(self, columns: Columns) -> tuple[int, int]:
        """The lowest and highest hash of a batch of one bucket."""
        places = zip(columns.fields, columns.routes, strict=True)
        hashes = [hash for fields, route in places if (hash := place_of(fields, route)) >= 0]
        if hashes:
            return min(hashes), max(hashes)
        start = self._splits[columns.bucket - 1] if columns.bucket else 0
        return start, start

    def stamp(self, messages: Sequence[QueuedMessage]) -> tuple[int, int]:
        """The lowest and highest hash of a batch, or of the bucket that was sorted with it."""
        first = messages[0]
        bucket = first.group if type(first.group) is int else -1
        if messages[-1].place <= self._arranged and bucket in self._bounds:
            return self._bounds[bucket]
        hashes = [hash for message in messages if (hash := hash_of(message)) >= 0]
        if hashes:
            return min(hashes), max(hashes)
        if 0 < bucket <= len(self._splits):
            return self._splits[bucket - 1], self._splits[bucket - 1]
        return (0, 0) if bucket == 0 else anywhere(first.sequence)

    def _reorder(
        self, messages: deque[QueuedMessage], window: list[QueuedMessage], ordered: list[QueuedMessage]
    ) -> None:
        """Replace the head of the queue by the same messages in another order; places and numbers still increase."""
        numbers = [(message.place, message.sequence) for message in window]
        for message, (place, sequence) in zip(ordered, numbers, strict=True):
            message.place, message.sequence = place, sequence
            messages.popleft()
        messages.extendleft(reversed(ordered))


def anywhere(sequence: int) -> tuple[int, int]:
    """The hash range of a batch without keys, derived from its first number."""
    spread = sequence * _SPREAD % SLOTS
    return spread, spread


def hash_of(message: QueuedMessage) -> int:
    """The hash of a message for the buckets of its segment; -1: it has no key."""
    return place_of(message.fields, message.route)


def place_of(fields: MessageFields | None, route: KeyRoute) -> int:
    """As `hash_of`."""
    if fields is None:
        return -1
    if fields.ordering_key is None and not fields.key_base64:
        return -1 if fields.key is None else low16(route.hash)
    key = routing_key(fields)
    return -1 if key is None else low16(murmur3(key))
