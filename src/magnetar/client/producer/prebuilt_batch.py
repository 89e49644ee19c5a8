"""Many messages that were made together, as the entry that they become: no object for any of them on its way.

Who has whole columns of messages asks a producer for its `BatchingPlan`, cuts them by it and hands over sheaves:
messages of one destination, numbered one after the other or as their sender wants, as the payload of one batch. A sheaf
holds good as long as the layout and the numbers are those that it was cut for. Where they are not any more, and where a
batch has to be cut anew, it comes apart into `singles`: what each of them is then is its maker's to say. Decides only;
it trusts its maker for the bytes.
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
    """How messages are cut into sheaves now. `sequence` is the number of the first. Keys go by `routing` to the last
    segment that starts at or before them; within it to the bucket of its `splits`. `epoch` -1: one destination for all.
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
    """None: some segments are plain topics, where keys go by other rules."""
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
    """`payload` is that of a batch whose `count` messages have the numbers from `sequence` on, or growing `numbers`
    that their sender gave; `value_bytes` what their values take. `key` is the first message's, as the wire carries it,
    `hashes` the stamp of its entry bucket, `route` that of any of its messages. `partition`: of a partitioned topic.
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
        """What it takes of a client's budget, as the payloads of its messages would."""
        return self.value_bytes

    @property
    def highest(self) -> int:
        return self.numbers[-1]

    def fits(self, epoch: int, sequence: int) -> bool:
        """Was it cut for this layout, and for this number?"""
        return self.epoch == epoch and self.sequence == sequence

    def op(self, stamp: Stamp, publish_time: int, deadline: float) -> PendingSend:
        """The entry of a plain topic."""
        frame = self.frame(stamp, publish_time)
        return PendingSend(
            frame, self.sequence, self.highest, count=self.count, size=len(self), deadline=deadline, dones=[]
        )

    def frame(self, stamp: Stamp, publish_time: int) -> bytes:
        """`LimitExceeded`: it is a single message, and larger than the broker takes."""
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
    """Their messages by their numbers: number, payload, fields."""
    found = [
        (number, payload, fields)
        for sheaf in sheaves
        for number, (payload, fields, _) in zip(sheaf.numbers, sheaf.singles(), strict=True)
    ]
    return sorted(found, key=lambda one: one[0])


class QueuedBatch(QueuedMessage):
    """A sheaf in a lane: one entry, and as many messages as it has."""

    __slots__ = ("count",)

    def __init__(self, sheaf: PrebuiltBatch, place: int, deadline: float) -> None:
        super().__init__(sheaf, sheaf.route, place, sheaf.sequence, len(sheaf.payload), deadline, alone=True)
        self.count = sheaf.count

    @property
    def highest(self) -> int:
        sheaf: PrebuiltBatch = self.item
        return sheaf.highest

    def apart(self) -> Iterator[QueuedMessage]:
        """Its messages one by one, with the places, numbers and doubts that they have. Places are as far apart as
        numbers are: between them are those of other segments, and a merge puts all in one order.
        """
        sheaf: PrebuiltBatch = self.item
        for number, (payload, fields, route) in zip(sheaf.numbers, sheaf.singles(), strict=True):
            size, behind = wire_size(payload, fields), number - self.sequence
            one = QueuedMessage(payload, route, self.place + behind, number, size, self.deadline)
            one.fields, one.turn, one.doubt = fields, self.turn + behind, self.doubt
            yield one
