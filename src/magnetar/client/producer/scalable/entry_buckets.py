"""One batch for each entry bucket (PIP-486): messages that wait in a lane are put in the order of their buckets before
entries are cut.

Only whole keys change places, and only before anything of them was written: places and numbers are given out anew among
the same messages, so that both still grow in the lane and a batch has numbers of its own, which the owner can compare
(H-E4). Numbers that a sender gave stay, and so does what was written before: such a batch may hold several buckets, and
its stamp says so. Messages without a key go into one bucket, the next one each time. Decides only.
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

_SHARE = 0.8  # of an entry, on average: then few buckets overflow into a second, small one
_SPREAD = 40503  # odd: numbers that follow each other land far apart


class BucketSorter:
    """Of one lane. `splits`: the first hashes of its segment's buckets but the first."""

    __slots__ = ("_arranged", "_bounds", "_splits", "_turn")

    def __init__(self, splits: tuple[int, ...]) -> None:
        self._splits = splits
        self._arranged = -1  # the place up to which the lane is in order
        self._bounds: dict[int, tuple[int, int]] = {}  # of what was put in order last: the hashes of each bucket
        self._turn = 0

    @property
    def room(self) -> float:
        """How many entries may be filled before they are cut: less than one for each, as no two get the same share."""
        return max(min(len(self._splits) + 1, BUCKETS_FILLED_MAX) * _SHARE, 1.0)

    def arrange(self, queue: deque[QueuedMessage], *, mark: int, messages_max: int) -> None:
        """Before an entry is cut from the head of the queue."""
        if queue[0].place <= self._arranged or messages_max == 1:
            return
        hashes: dict[int, list[int]] = {}
        buckets: dict[int, list[QueuedMessage]] = {}
        splits, keyless = self._splits, self._turn % (len(self._splits) + 1)
        left = messages_max * (len(splits) + 1)
        latest = queue[0].deadline + BUCKET_WINDOW_S
        window: list[QueuedMessage] = []
        for message in queue:
            fields = message.fields
            if fields is None:
                bucket = keyless
            else:
                # Numbers that were given stay, and nothing waits for a deadline much later than its own.
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
                self._reorder(queue, window, [one for bucket in sorted(buckets) for one in buckets[bucket]])

    def bucket_of(self, fields: MessageFields | None, route: KeyRoute) -> int:
        """Where a message goes that is gathered in columns."""
        hash = place_of(fields, route)
        return bisect_right(self._splits, hash) if hash >= 0 else self._turn % (len(self._splits) + 1)

    def advance(self) -> None:
        """Columns were closed: the next messages without a key go into the next bucket."""
        self._turn += 1

    def stamp_of(self, columns: Columns) -> tuple[int, int]:
        """The lowest and the highest hash of a batch of one bucket."""
        places = zip(columns.fields, columns.routes, strict=True)
        hashes = [hash for fields, route in places if (hash := place_of(fields, route)) >= 0]
        if hashes:
            return min(hashes), max(hashes)
        start = self._splits[columns.bucket - 1] if columns.bucket else 0
        return start, start

    def stamp(self, messages: Sequence[QueuedMessage]) -> tuple[int, int]:
        """The lowest and the highest hash of a batch, or of what was put in order with it."""
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

    def _reorder(self, queue: deque[QueuedMessage], window: list[QueuedMessage], ordered: list[QueuedMessage]) -> None:
        """The head of the queue in another order; places and numbers still grow."""
        numbers = [(message.place, message.sequence) for message in window]
        for message, (place, sequence) in zip(ordered, numbers, strict=True):
            message.place, message.sequence = place, sequence
            queue.popleft()
        queue.extendleft(reversed(ordered))


def anywhere(sequence: int) -> tuple[int, int]:
    """The stamp of a batch without keys, from its first number."""
    spread = sequence * _SPREAD % SLOTS
    return spread, spread


def hash_of(message: QueuedMessage) -> int:
    """A message's place among the buckets of its segment; -1: it has no key."""
    return place_of(message.fields, message.route)


def place_of(fields: MessageFields | None, route: KeyRoute) -> int:
    """As `hash_of`."""
    if fields is None:
        return -1
    if fields.ordering_key is None and not fields.key_base64:
        return -1 if fields.key is None else low16(route.hash)
    key = routing_key(fields)
    return -1 if key is None else low16(murmur3(key))
