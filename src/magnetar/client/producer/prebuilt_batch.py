"""Prebuilt batches: many messages that were encoded together as one entry, without an object for each message.

A sender with whole columns of messages asks a producer for its `BatchingPlan`, splits the columns by it, and passes
prebuilt batches: messages of one destination, with consecutive numbers or numbers of the sender's choice, as the
payload of one batch. A prebuilt batch is valid as long as the layout and the numbers for which it was made are current.
If they are not, or if the batch must be split, it is replaced by `singles`, which its maker provides. Pure decisions;
this module trusts its maker for the bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from magnetar.client.producer.batch import NOTHING, Stamp, single_frame
from magnetar.client.producer.fields import MessageFields
from magnetar.client.producer.pending import PendingSend
from magnetar.client.producer.router import KeyRoute
from magnetar.client.producer.scalable.encode import wire_size
from magnetar.client.producer.scalable.queued_messages import QueuedMessage
from magnetar.client.producer.scalable.segment_queue import BatchLimits
from magnetar.layout.layout import Layout
from magnetar.layout.routing import DEFAULT, Routing
from magnetar.wire import codec
from magnetar.wire.send_frames import batch_metadata, send_frame

Single = tuple[bytes, MessageFields | None, KeyRoute]
NOWHERE = KeyRoute(0, 0)


@dataclass(frozen=True, slots=True)
class BatchingPlan:
    """How to split messages into prebuilt batches now. `sequence` is the number of the first message. `routing` assigns
    a key to the last segment that starts at or before its hash, and within it to the bucket of its `splits`. `epoch`
    -1: all messages have one destination.
    """

    sequence: int
    messages_max: int
    bytes_max: int
    epoch: int = -1
    routing: Routing = DEFAULT
    starts: tuple[int, ...] = (0,)
    splits: tuple[tuple[int, ...], ...] = ((),)

    @property
    def destinations(self) -> int:
        return sum(len(one) + 1 for one in self.splits)


def by_segments(layout: Layout, routing: Routing, cut: BatchLimits, sequence: int) -> BatchingPlan | None:
    """None: some segments are plain topics, where other rules assign keys."""
    if not layout.active or any(one.legacy_topic for one in layout.active):
        return None
    return BatchingPlan(
        sequence,
        cut.messages_max,
        cut.bytes_max,
        layout.epoch,
        routing,
        tuple(one.range.start for one in layout.active),
        tuple(one.bucket_splits for one in layout.active),
    )


class PrebuiltBatch:
    """`payload` is that of a batch of `count` messages, numbered from `sequence` on, or with the increasing `numbers`
    of their sender; `value_bytes` is the size of their values. `key` is the first message's as the wire carries it,
    `hashes` the range of its entry bucket, `route` that of any of its messages. `partition`: of a partitioned topic.
    """

    __slots__ = (
        "count",
        "epoch",
        "hashes",
        "index",
        "key",
        "key_base64",
        "numbers",
        "partition",
        "payload",
        "route",
        "sequence",
        "singles",
        "value_bytes",
    )

    def __init__(
        self,
        payload: bytes,
        count: int,
        sequence: int,
        *,
        value_bytes: int,
        singles: Callable[[], Iterable[Single]],
        numbers: Sequence[int] = (),
        index: bytes = b"",
        key: bytes | None = None,
        key_base64: bool = False,
        hashes: tuple[int, int] | None = None,
        route: KeyRoute = NOWHERE,
        epoch: int = -1,
        partition: int = -1,
    ) -> None:
        self.payload = payload
        self.count = count
        self.sequence = sequence
        self.value_bytes = value_bytes
        self.singles = singles
        self.numbers = numbers or range(sequence, sequence + count)
        self.index = index
        self.key = key
        self.key_base64 = key_base64
        self.hashes = hashes
        self.route = route
        self.epoch = epoch
        self.partition = partition

    def __len__(self) -> int:
        """Its share of a client's memory limit: that of the payloads of its messages."""
        return self.value_bytes

    @property
    def highest(self) -> int:
        return self.numbers[-1]

    def fits(self, epoch: int, sequence: int) -> bool:
        """Whether it was made for this layout and this number."""
        return self.epoch == epoch and self.sequence == sequence

    def op(self, stamp: Stamp, publish_time: int, deadline: float) -> PendingSend:
        """The entry for a plain topic."""
        frame = self.frame(stamp, publish_time)
        return PendingSend(
            frame, self.sequence, self.highest, count=self.count, size=len(self), deadline=deadline, dones=[]
        )

    def frame(self, stamp: Stamp, publish_time: int) -> bytes:
        """`LimitExceeded`: it is a single message that exceeds the broker's limit."""
        if self.count == 1:
            for payload, fields, _ in self.singles():
                return single_frame(stamp, payload, fields or NOTHING, self.sequence, publish_time)
        metadata = batch_metadata(
            stamp.producer,
            self.sequence,
            publish_time,
            count=self.count,
            highest=self.highest,
            key=self.key,
            key_base64=self.key_base64,
            compression=stamp.compression,
            uncompressed_size=len(self.payload),
            schema_version=stamp.schema_version,
            hashes=self.hashes,
            index=self.index,
        )
        packed = codec.compress(stamp.compression, self.payload)
        return send_frame(stamp.producer_id, self.sequence, metadata, packed, count=self.count, highest=self.highest)


def in_order(sheaves: Iterable[PrebuiltBatch]) -> list[tuple[int, bytes, MessageFields | None]]:
    """The messages of all batches, sorted by number: number, payload, fields."""
    ordered = [
        (number, payload, fields)
        for sheaf in sheaves
        for number, (payload, fields, _) in zip(sheaf.numbers, sheaf.singles(), strict=True)
    ]
    return sorted(ordered, key=lambda one: one[0])


class QueuedBatch(QueuedMessage):
    """A prebuilt batch in the queue of a segment: one entry with `count` messages."""

    __slots__ = ("count",)

    def __init__(self, sheaf: PrebuiltBatch, place: int, deadline: float) -> None:
        super().__init__(sheaf, sheaf.route, place, sheaf.sequence, len(sheaf.payload), deadline, alone=True)
        self.count = sheaf.count

    @property
    def highest(self) -> int:
        sheaf: PrebuiltBatch = self.item
        return sheaf.highest

    def apart(self) -> Iterator[QueuedMessage]:
        """Its messages one by one, with their positions in the queue, numbers and doubts. Positions differ by as much
        as numbers: messages of other segments are in between, and a merge brings all of them into one order.
        """
        sheaf: PrebuiltBatch = self.item
        for number, (payload, fields, route) in zip(sheaf.numbers, sheaf.singles(), strict=True):
            size, behind = wire_size(payload, fields), number - self.sequence
            message = QueuedMessage(payload, route, self.place + behind, number, size, self.deadline)
            message.fields, message.turn, message.doubt = fields, self.turn + behind, self.doubt
            yield message
