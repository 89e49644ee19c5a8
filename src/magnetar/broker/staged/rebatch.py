"""Rebatching of a stage for its topic: whole entries in, whole entries out, with the numbers that were fixed when the
stage was committed. It creates no object per message.

Messages of one segment or partition share an entry; their numbers increase in it and may have gaps, which are the
numbers of other segments. The content of a message stays byte for byte (`wire.batch_renumber`), and it goes where a
producer of that name would send it alone. A batch in another format is refused and published message by message. This
module decides only.
"""

from __future__ import annotations

from base64 import b64decode
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate

from magnetar.base.hashes import java_string_hash, low16, masked, murmur3, utf8
from magnetar.base.limits import CACHED_KEY_CHARS_MAX, ROUTES_CACHED_MAX
from magnetar.client.consumer.ack.acks import all_bits
from magnetar.client.consumer.ack.message_copy import copied
from magnetar.client.consumer.receive.decode import open_batch
from magnetar.client.message import Delivery, Message
from magnetar.client.producer.fields import MessageFields
from magnetar.client.producer.prebuilt_batch import BatchingPlan, PrebuiltBatch, Single
from magnetar.client.producer.router import KeyRoute, routing_key
from magnetar.client.producer.scalable.entry_buckets import anywhere
from magnetar.client.schema import BYTES
from magnetar.layout.routing import segment_hash
from magnetar.wire.batch_renumber import Row, renumbered, rows
from magnetar.wire.proto import pb
from magnetar.wire.send_frames import size_index

_INDEXED_MIN = 16  # minimum number of messages for an index of their sizes, as in the client
_Way = tuple[int, int]  # the place of a segment or partition; the hash among entry buckets, -1: no key


class StageRebatcher:
    """Rebatches one stage, whose first message has the number `first`. `producer` is the producer name of its messages.
    `partitions`: those of a partitioned topic at the time of the commit, 0: it is not partitioned."""

    def __init__(self, cutting: BatchingPlan, producer: str, *, first: int, partitions: int = 0) -> None:
        self.cutting = cutting
        self._producer = producer.encode()
        self._first = first
        self._partitions = partitions
        places = partitions or len(cutting.starts)
        self._cached: dict[bytes, _Way] = {}  # of keys of text that came before
        self._rows: list[Row] = []
        self._next = -1  # the number behind the last message
        self._pieces: list[list[bytes]] = [[] for _ in range(places)]
        self._numbers: list[list[int]] = [[] for _ in range(places)]

    def renew(self, cutting: BatchingPlan) -> None:
        """Sets the batch limits; called while no message waits."""
        before, self.cutting = self.cutting, cutting
        if (cutting.epoch, cutting.routing) != (before.epoch, before.routing):
            self._cached.clear()
            if not self._partitions:
                self._pieces = [[] for _ in cutting.starts]
                self._numbers = [[] for _ in cutting.starts]

    def take(self, payload: bytes, count: int, number: int, *, skip: int = 0) -> bool:
        """Takes the messages of a batch, without the first `skip`; the first of the rest has the number `number`.
        False: the batch has another format, and nothing was taken."""
        new_rows = rows(payload, count)
        if new_rows is None:
            return False
        if skip:
            new_rows = new_rows[skip:]
        ways = self._ways(new_rows, number)
        if ways is None:
            return False
        pieces = renumbered(payload, new_rows, number)
        after = number + len(new_rows)
        if len(self._pieces) == 1:
            self._pieces[0] += pieces
            self._numbers[0] += range(number, after)
        else:
            shares, numbers = self._pieces, self._numbers
            for place, piece in zip(ways, pieces, strict=True):
                shares[place].append(piece)
                numbers[place].append(number)
                number += 1
        self._rows += new_rows
        self._next = after
        return True

    def sheaves(self) -> list[PrebuiltBatch]:
        """All complete entries since the last call."""
        batches = [
            self._sheaf(index, first, last)
            for index, pieces in enumerate(self._pieces)
            for first, last in _runs(pieces, self.cutting)
        ]
        for pieces, numbers in zip(self._pieces, self._numbers, strict=True):
            pieces.clear()
            numbers.clear()
        self._rows.clear()
        return batches

    def _sheaf(self, place: int, first: int, last: int) -> PrebuiltBatch:
        cutting = self.cutting
        pieces, numbers = self._pieces[place][first:last], self._numbers[place][first:last]
        base = self._next - len(self._rows)
        rows = [self._rows[number - base] for number in numbers]
        payload, (*_, key, base64) = b"".join(pieces), rows[0]
        segments = cutting.epoch >= 0
        return PrebuiltBatch(
            payload,
            len(pieces),
            numbers[0],
            numbers=numbers,
            value_bytes=sum(row[4] for row in rows),
            singles=partial(self._singles, payload, numbers),
            index=size_index(list(map(len, pieces))) if len(pieces) >= _INDEXED_MIN else b"",
            key=key,
            key_base64=base64,
            hashes=self._stamp(rows, numbers[0]) if segments and cutting.splits[place] else None,
            route=KeyRoute(cutting.starts[place], 0) if segments else KeyRoute(0, 0),
            epoch=cutting.epoch,
            partition=place if self._partitions else -1,
        )

    def _stamp(self, rows: list[Row], number: int) -> tuple[int, int]:
        """The lowest and highest key hash, as for any batch with given numbers."""
        hashes = [self._way(key, base64, number)[1] for *_, key, base64 in rows if key is not None]
        return (min(hashes), max(hashes)) if hashes else anywhere(number)

    # Where messages go

    def _ways(self, rows: list[Row], number: int) -> list[int] | None:
        """None: a message has an invalid key."""
        if self.cutting.epoch < 0 and not self._partitions:
            return []
        cached, ways = self._cached, []
        try:
            for at, row in enumerate(rows, number):
                key = row[5]
                way = None if key is None or row[6] else cached.get(key)
                ways.append((way or self._way(key, row[6], at))[0])
        except ValueError:  # not text, or not base64
            return None
        return ways

    def _way(self, key: bytes | None, base64: bool, number: int) -> _Way:
        if key is None:
            return self._loose(number), -1
        way = None if base64 else self._cached.get(key)
        if way is None:
            text = key.decode()
            raw = b64decode(text) if base64 else key
            way = self._place(text, raw), low16(murmur3(raw))
            if not base64 and len(key) <= CACHED_KEY_CHARS_MAX:
                if len(self._cached) >= ROUTES_CACHED_MAX:
                    self._cached.clear()
                self._cached[key] = way
        return way

    def _place(self, text: str, raw: bytes) -> int:
        if self._partitions:
            return masked(java_string_hash(text)) % self._partitions
        return bisect_right(self.cutting.starts, segment_hash(raw, self.cutting.routing)) - 1

    def _loose(self, number: int) -> int:
        if self._partitions:
            return (number - self._first) % self._partitions
        return self._place("", b"%b-%d" % (self._producer, number))

    # One by one

    def _singles(self, payload: bytes, numbers: Sequence[int]) -> Iterable[Single]:
        for number, message in zip(numbers, opened(pb.MessageMetadata(), payload, len(numbers)), strict=True):
            data, fields = copied(message, number)
            yield data, fields, self._route(fields, number)

    def _route(self, fields: MessageFields, number: int) -> KeyRoute:
        """The same choice as `client.router`."""
        raw = routing_key(fields)
        if raw is None:
            raw = b"%b-%d" % (self._producer, number)
        return KeyRoute(
            segment_hash(raw, self.cutting.routing), murmur3(raw if fields.key is None else utf8(fields.key))
        )


def opened(metadata: pb.MessageMetadata, payload: bytes, count: int) -> list[Message[bytes]]:
    """The messages of a batch in any format. `Corrupt`: it cannot be read."""
    delivery = Delivery(metadata, "", BYTES, ledger=-1, entry=-1)
    delivery.size, delivery.unacked = count, all_bits(count)
    return open_batch(payload, delivery)


def _runs(pieces: list[bytes], cutting: BatchingPlan) -> Iterator[tuple[int, int]]:
    """The start and end of each entry: of similar size, within the limits."""
    offsets = [0, *accumulate(map(len, pieces))]
    first = 0
    while first < len(pieces):
        entries = -(-(len(pieces) - first) // cutting.messages_max)
        most = first + -(-(len(pieces) - first) // entries)
        fits = bisect_right(offsets, offsets[first] + cutting.bytes_max) - 1
        last = min(most, max(fits, first + 1))
        yield first, last
        first = last
