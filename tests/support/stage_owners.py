"""Stages as their entries, and the owners of segments that they are poured into: each with the real deduplication, so
that what is sent twice is judged as a broker does. Every step is a call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from magnetar.base.ids import SegmentId
from magnetar.base.names import topic_name
from magnetar.base.ranges import HashRange
from magnetar.broker.segments.key_routing import slots
from magnetar.broker.staged.rebatch import StageRebatcher, opened
from magnetar.client.consumer.ack.message_copy import copied
from magnetar.client.producer.batch import Stamp
from magnetar.client.producer.fields import MessageFields, fields_of
from magnetar.client.producer.prebuilt_batch import PrebuiltBatch, by_segments, in_order
from magnetar.client.producer.router import SegmentRouter
from magnetar.client.producer.scalable.encode import pack, wire_size
from magnetar.client.producer.scalable.segment_queue import BatchLimits
from magnetar.client.producer.scalable.segment_queues import (
    AttachSegment,
    DrainSegment,
    DropSegment,
    Effect,
    LayoutAdvanced,
    SegmentAttached,
    SegmentDetached,
    SegmentQueues,
)
from magnetar.layout.layout import Layout, initial
from magnetar.layout.routing import Routing
from magnetar.topic.dedup.dedup import Dedup, Verdict
from magnetar.wire.frames import read_send, split
from magnetar.wire.message import open_entry, split_batch
from magnetar.wire.proto import pb
from magnetar.wire.send_frames import batch_payload

PRODUCER = "__sink-x-0"
STAMP = Stamp(7, PRODUCER.encode(), None, 0, 1 << 20)
TOPIC = topic_name("topic://public/default/rows")
FIRST = 16_380  # of the stage: numbers take more bytes than they did in it, and then still more


class Row(NamedTuple):
    key: str | bytes | None
    value: bytes | None
    properties: dict[str, str] | None = None
    event_time_ms: int | None = None

    def fields(self, sequence_id: int | None = None) -> MessageFields:
        return fields_of(
            key=self.key,
            ordering_key=None,
            properties=self.properties,
            event_time_ms=self.event_time_ms,
            deliver_at_ms=None,
            sequence_id=sequence_id,
            replicate_to=None,
            null_value=self.value is None,
        )


def batch_of(rows: Sequence[Row], first: int) -> bytes:
    """The payload of an entry of a stage, as a producer writes it."""
    extras = {place: row.fields().extras() for place, row in enumerate(rows)}
    return batch_payload([row.value or b"" for row in rows], first, None, extras)


class Stored(NamedTuple):
    """A message as a consumer is told of it."""

    number: int
    key: str | None
    base64: bool
    value: bytes
    null: bool
    event_time: int
    properties: tuple[tuple[str, str], ...]


def stored(frame: bytes) -> tuple[pb.MessageMetadata, list[Stored]]:
    """What an entry says when it is read again, checksum and all."""
    frames, _ = split(frame, 0, 1 << 24)
    [(_, middle, end)] = frames
    entry = open_entry(frame[middle:end])
    head = entry.metadata
    told = [_stored(head, entry.payload)]
    if entry.is_batch:
        told = [_stored(single, value) for single, value in split_batch(entry.payload, head.num_messages_in_batch)]
    return head, told


def _stored(head: pb.MessageMetadata | pb.SingleMessageMetadata, value: bytes) -> Stored:
    return Stored(
        head.sequence_id,
        head.partition_key if head.HasField("partition_key") else None,
        head.partition_key_b64_encoded,
        value,
        head.null_value,
        head.event_time,
        tuple((one.key, one.value) for one in head.properties),
    )


def expected(row: Row, number: int) -> Stored:
    fields = row.fields()
    pairs = tuple((row.properties or {}).items())
    time = row.event_time_ms or 0
    return Stored(number, fields.key, fields.key_base64, row.value or b"", row.value is None, time, pairs)


class Owner:
    def __init__(self, range: HashRange, dedup: Dedup) -> None:
        self.range = range
        self.dedup = dedup
        self.log: list[Stored] = []
        self.arriving: deque[bytes] = deque()
        self.answers: deque[int] = deque()


class World:
    """Layouts, their owners, and the queues of the producer that pours; `routing` is the topic's."""

    def __init__(
        self,
        rows: Sequence[Row],
        *,
        segments: int = 1,
        buckets: int = 1,
        cut: BatchLimits | None = None,
        make: Callable[..., SegmentQueues] = SegmentQueues,
    ) -> None:
        self.rows = rows
        self._make = make
        self.routing = Routing.HIGH16
        self.cut = cut or BatchLimits()
        self.layout: Layout = initial(segments, now_ms=0, buckets=buckets)
        self.owners = {one.id: Owner(one.range, Dedup(one.range)) for one in self.layout.active}
        self.gone: list[Owner] = []  # sealed, with what they hold
        self.whole = 0  # groups that were taken as sheaves
        self.begin()

    # The producer

    def begin(self, cut: BatchLimits | None = None) -> int:
        """Attach anew, as after a crash: the highest number that any owner knows."""
        for owner in self.owners.values():
            owner.arriving.clear()
            owner.answers.clear()
        self.queues = self._make(cut=cut or self.cut)
        self.router = SegmentRouter(self.routing, producer=PRODUCER, deduplicated=True)
        self.apply(self.queues.handle(LayoutAdvanced(self.layout)))
        return max(owner.dedup.highest(PRODUCER) for owner in self.owners.values())

    def apply(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case AttachSegment(segment=segment):
                    self.apply(
                        self.queues.handle(SegmentAttached(segment, self.owners[segment].dedup.highest(PRODUCER)))
                    )
                case DrainSegment() | DropSegment():
                    pass  # `reshape` says what came of it

    def decanter(self) -> StageRebatcher:
        cutting = by_segments(self.layout, self.routing, self.queues.cut, self.queues.next_sequence)
        assert cutting is not None
        return StageRebatcher(cutting, PRODUCER, first=FIRST)

    def sheaves(self, first: int, sizes: Sequence[int]) -> list[PrebuiltBatch]:
        """Rows from `first` on, which were entries of these sizes in the stage."""
        decanter = self.decanter()
        for size in sizes:
            rows = self.rows[first : first + size]
            assert decanter.take(batch_of(rows, first), len(rows), FIRST + first)
            first += size
        return decanter.sheaves()

    def pour(self, sheaves: Sequence[PrebuiltBatch]) -> None:
        if self.queues.add_sheaves(sheaves, 10.0):
            self.whole += 1
            return
        for number, payload, fields in in_order(sheaves):
            assert fields is not None
            self._add(payload, fields, number)

    def pour_each(self, first: int, last: int) -> None:
        for place in range(first, last):
            payload = batch_of([self.rows[place]], place)
            [message] = opened(pb.MessageMetadata(), payload, 1)
            data, fields = copied(message, FIRST + place)
            self._add(data, fields, FIRST + place)

    def _add(self, payload: bytes, fields: MessageFields, number: int) -> None:
        self.queues.add(
            payload,
            self.router.route(fields, number, self.layout),
            size=wire_size(payload, fields),
            deadline=10.0,
            sequence=number,
            fields=fields,
        )

    def frames(self) -> Iterator[tuple[SegmentId, bytes]]:
        """All that may be written now."""
        for segment in sorted(self.owners):
            while (entry := self.queues.next_entry(segment)) is not None:
                stamp = replace(STAMP, producer=f"{PRODUCER}-seg-{segment}".encode())
                [frame] = pack(entry, stamp, 1, chunking=False).frames
                yield segment, frame

    def write(self) -> None:
        for segment, frame in self.frames():
            self.owners[segment].arriving.append(frame)

    # The owners

    def arrive(self, segment: SegmentId, entries: int = 1 << 30) -> None:
        owner = self.owners[segment]
        for _ in range(min(entries, len(owner.arriving))):
            frame = owner.arriving.popleft()
            [(start, middle, end)], _ = split(frame, 0, 1 << 24)
            _, sequence, _, highest, *_ = read_send(frame, start, middle)
            highest = max(highest, sequence)
            _, told = stored(frame)
            slot = slots(self.layout.segment(segment).topic(TOPIC), self.routing)
            hashes = [slot(frame, middle, end)] if owner.dedup.ranged(PRODUCER) else None
            verdicts = owner.dedup.check_run(PRODUCER, [sequence], [highest], key_hashes=hashes)
            if verdicts is None:
                owner.log += told
                owner.dedup.persisted(PRODUCER, highest, key_hash=None if hashes is None else hashes[0])
            assert verdicts in (None, [Verdict.DUPLICATE]), "sent so that nobody can tell whether it is stored"
            owner.answers.append(sequence)

    def answer(self, segment: SegmentId, entries: int = 1 << 30) -> None:
        owner = self.owners[segment]
        for _ in range(min(entries, len(owner.answers))):
            self.queues.stored(segment, owner.answers.popleft())

    def calm(self) -> None:
        """Everything gets where it goes."""
        while self.queues.messages:
            self.write()
            before = self.queues.messages
            for segment in sorted(self.owners):
                self.arrive(segment)
                self.answer(segment)
            assert self.queues.messages < before, "nothing moves any more"

    def reshape(self, layout: Layout) -> None:
        """The producer hears of it when all is over: what was not answered before is in doubt."""
        over = sorted(set(self.owners) - {one.id for one in layout.active})
        parents = {id: self.owners.pop(id) for id in over}
        for one in layout.active:
            if one.id not in self.owners:
                first, *others = [parents[id].dedup for id in one.parents]
                self.owners[one.id] = Owner(one.range, first.unite(others).restrict(one.range))
        self.layout = layout
        self.gone += parents.values()
        self.apply(self.queues.handle(LayoutAdvanced(layout)))
        for id, owner in parents.items():
            self.apply(self.queues.handle(SegmentDetached(id, certain=not owner.answers)))

    # What there is

    def all_stored(self) -> list[Stored]:
        return [one for owner in [*self.gone, *self.owners.values()] for one in owner.log]

    def check(self) -> None:
        """Each row once, and a key's in the order of the stage: owners are in the order of their lives."""
        found = self.all_stored()
        wanted = [expected(row, FIRST + place) for place, row in enumerate(self.rows)]
        assert sorted(found, key=lambda one: one.number) == wanted
        last: dict[str | None, int] = {}
        for one in found:
            assert one.key is None or one.number > last.get(one.key, -1)
            last[one.key] = one.number
