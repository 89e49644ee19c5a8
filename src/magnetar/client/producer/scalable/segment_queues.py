"""The segment queues of one producer: assigns each message to a segment and keeps the order across splits and merges.

Each active segment has a queue. When a segment is sealed, its queue freezes. Once no more answers can arrive for it,
the stored messages are known, and the rest moves in order to the segments that now have its keys. Those segments write
no entry before that (H-E2, H-E3); until then later messages of those keys wait behind the rest. Layouts only advance
(H-E6). Each message gets exactly one result: stored, unknown (it may be stored) or failed (it is not). No message is
dropped, and no message that is known to be stored is sent again. Pure decisions: events in, effects out; the path of a
message is plain calls. It trusts a broker to store the sends of one attachment in their order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from magnetar.base import validation
from magnetar.base.errors import InvalidTransition, MagnetarError, Outcome, Retry, Sealed
from magnetar.base.hashes import masked
from magnetar.base.ids import Epoch, SegmentId
from magnetar.base.limits import CLIENT_PENDING_BYTES_MAX
from magnetar.client.producer.fields import Done, MessageFields
from magnetar.client.producer.prebuilt_batch import PrebuiltBatch, QueuedBatch
from magnetar.client.producer.router import KeyRoute, partitions_of
from magnetar.client.producer.scalable.queued_messages import QueuedMessage, SendStatus
from magnetar.client.producer.scalable.segment_queue import BatchLimits, QueuedEntry, SegmentQueue, State
from magnetar.layout.layout import Layout

# Events


@dataclass(frozen=True, slots=True)
class LayoutAdvanced:
    layout: Layout


@dataclass(frozen=True, slots=True)
class SegmentAttached:
    """The segment's owner accepted the producer. `last_sequence` as in PRODUCER_SUCCESS, -1 for none."""

    segment: SegmentId
    last_sequence: int = -1


@dataclass(frozen=True, slots=True)
class SegmentDetached:
    """No more answers arrive from the present attachment. `certain`: every stored entry was answered (the broker
    answered our close, or a Magnetar broker closed the producer). A lost connection or a close by another broker is not
    certain.
    """

    segment: SegmentId
    certain: bool = False


@dataclass(frozen=True, slots=True)
class SegmentSealed:
    """The owner refuses the producer: the segment is terminated or deleted."""

    segment: SegmentId


Event: TypeAlias = LayoutAdvanced | SegmentAttached | SegmentDetached | SegmentSealed

# Effects


@dataclass(frozen=True, slots=True)
class AttachSegment:
    """Attach a producer to the segment, and reattach it after each loss. Answer: SegmentAttached or SegmentSealed."""

    segment: SegmentId


@dataclass(frozen=True, slots=True)
class WriteSegment:
    """Call `next_entry` until it returns None."""

    segment: SegmentId


@dataclass(frozen=True, slots=True)
class DrainSegment:
    """Close the producer on the sealed segment, if attached, and wait for the last answer. Answer: SegmentDetached."""

    segment: SegmentId


@dataclass(frozen=True, slots=True)
class ReattachSegment:
    """The broker's answer to a send leaves the outcome open: reconnect with a new attachment."""

    segment: SegmentId


@dataclass(frozen=True, slots=True)
class DropSegment:
    """The queue no longer exists: stop attaching and drop its state."""

    segment: SegmentId


@dataclass(frozen=True, slots=True)
class RefreshLayout:
    """A segment is sealed and the layout does not show it yet: get a layout above this epoch (H-E1)."""

    above: Epoch


@dataclass(frozen=True, slots=True)
class ReportOutcome:
    """The result of a message without a receipt: its fate is UNKNOWN or FAILED."""

    message: QueuedMessage
    error: MagnetarError | None = None


Effect: TypeAlias = (
    AttachSegment | WriteSegment | DrainSegment | ReattachSegment | DropSegment | RefreshLayout | ReportOutcome
)


class SegmentQueues:
    """`follows` False: a plain topic, whose queues stay; when it is sealed, the messages that it refused fail."""

    def __init__(
        self,
        *,
        cut: BatchLimits | None = None,
        bytes_max: int = CLIENT_PENDING_BYTES_MAX,
        first_sequence: int = 0,
        follows: bool = True,
    ) -> None:
        self.layout: Layout | None = None
        self.bytes = 0  # of all messages without a result
        self.messages = 0
        self.next_sequence = first_sequence
        self.begun = False  # every owner has reported its last sequence of this producer, so numbers can be assigned
        self.cut = cut if cut is not None else BatchLimits()
        self._bytes_max = bytes_max
        self._follows = follows
        self.places = 0  # the number of messages so far, and the place of the next one
        self._partitions = 0  # of a layout that consists of plain topics
        self._queues: dict[SegmentId, SegmentQueue] = {}
        self._queue_by_slot: dict[int, SegmentQueue] = {}  # valid while the layout and the sealed queues stay
        self._sealed: list[SegmentQueue] = []  # frozen or settled queues, which keep their keys until they have moved

    # The path of a message

    def room(self, size: int) -> bool:
        """Whether there is room for a message. A message larger than the limit is admitted when no other is pending."""
        return not self.messages or self.bytes + size <= self._bytes_max

    def add(
        self,
        item: Any,
        route: KeyRoute,
        *,
        size: int,
        deadline: float,
        sequence: int | None = None,
        alone: bool = False,
        group: object = None,
        fields: MessageFields | None = None,
        done: Done | None = None,
    ) -> SegmentQueue:
        """Take a message and return its segment queue. `sequence` None: the next number."""
        if not self.begun:
            raise InvalidTransition("every segment must report its last sequence before messages are accepted")
        if sequence is None:
            sequence = self.next_sequence
        if sequence >= self.next_sequence:
            self.next_sequence = sequence + 1
        queue = self._queue_by_slot.get(route.slot)
        if queue is None:
            queue = self._queue_of(route)
        place = self.places
        queue.messages.append(QueuedMessage(item, route, place, sequence, size, deadline, alone, group, fields, done))
        self.places = place + 1
        self.bytes += size
        self.messages += 1
        return queue

    def gather(
        self, item: Any, fields: MessageFields | None, done: Done | None, route: KeyRoute, size: int, deadline: float
    ) -> SegmentQueue | None:
        """As `add`, for a message that may share an entry with all others and gets the next number. None: its queue
        does not gather at the moment; use `add`.
        """
        queue = self._queue_by_slot.get(route.slot)
        if queue is None:
            if not self.begun:
                return None
            queue = self._queue_of(route)
        if queue.state is not State.ATTACHED:
            return None
        sequence = self.next_sequence
        place = self.places
        bucket = 0 if queue.buckets is None else queue.buckets.bucket_of(fields, route)
        columns = queue.open.get(bucket)
        if columns is None or columns.offset != sequence - place:
            columns = queue.group(bucket, sequence - place)
        columns.items.append(item)
        columns.fields.append(fields)
        columns.dones.append(done)
        columns.routes.append(route)
        columns.sequences.append(sequence)
        columns.sizes.append(size)
        columns.deadlines.append(deadline)
        queue.gathered += 1
        self.next_sequence = sequence + 1
        self.places = place + 1
        self.bytes += size
        self.messages += 1
        return queue

    def add_sheaf(self, sheaf: PrebuiltBatch, deadline: float) -> SegmentQueue | None:
        """Take a prebuilt batch. None: it was made for another layout, other numbers, or a segment that is sealed."""
        layout = self.layout
        if not self.begun or layout is None or self._sealed or not sheaf.fits(layout.epoch, self.next_sequence):
            return None
        self.next_sequence += sheaf.count
        self.places += sheaf.count
        return self._bind(sheaf, self.places - sheaf.count, deadline)

    def add_sheaves(self, sheaves: Sequence[PrebuiltBatch], deadline: float) -> list[SegmentQueue]:
        """Take all of these batches, numbered by their sender, or none. None are taken if the layout changed, a segment
        is sealed, or an owner may have stored some of the messages: only the owner can decide that, one by one.
        """
        layout = self.layout
        if not self.begun or layout is None or self._sealed or any(one.epoch != layout.epoch for one in sheaves):
            return []
        queues = [self._queue_of(one.route) for one in sheaves]
        if any(not queue.opened or one.sequence <= queue.mark for queue, one in zip(queues, sheaves, strict=True)):
            return []
        first, highest = min(one.sequence for one in sheaves), max(one.highest for one in sheaves)
        for sheaf in sheaves:
            self._bind(sheaf, self.places + sheaf.sequence - first, deadline)
        self.places += highest - first + 1
        self.next_sequence = max(self.next_sequence, highest + 1)
        return queues

    def _bind(self, sheaf: PrebuiltBatch, place: int, deadline: float) -> SegmentQueue:
        queue = self._queue_of(sheaf.route)
        bound = QueuedBatch(sheaf, place, deadline)
        for message in [bound] if sheaf.count > 1 else bound.apart():
            queue.messages.append(message)
            self.bytes += message.size
        self.messages += sheaf.count
        return queue

    def next_entry(self, segment: SegmentId) -> QueuedEntry | None:
        """The next entry to write, if the queue may write: the entry counts as written from here on."""
        queue = self._queues.get(segment)
        if queue is None or queue.state is not State.ATTACHED or self._held(queue):
            return None
        return queue.next_entry(self.cut)

    def stored(self, segment: SegmentId, sequence: int) -> QueuedEntry | None:
        """A receipt. Returns the entry if this completes it; the caller reports its messages of fate STORED now."""
        queue = self._queues.get(segment)
        entry = None if queue is None else queue.receipt(sequence)
        if entry is not None and entry.columns is not None:
            entry.columns.fate = SendStatus.STORED
            self.bytes -= sum(entry.columns.sizes)
            self.messages -= len(entry.columns)
        elif entry is not None:
            live, stored = SendStatus.LIVE, SendStatus.STORED
            for message in entry.messages:
                if message.fate is live:
                    message.fate = stored
                    self.bytes -= message.size
                    self.messages -= message.count
        return entry

    @property
    def deadline(self) -> float | None:
        """The time of the next call of `expired`."""
        return min((at for queue in self._queues.values() if (at := queue.deadline) is not None), default=None)

    def expired(self, now: float) -> list[ReportOutcome]:
        gone = [message for queue in self._queues.values() for message in queue.expired(now)]
        return self._reports(gone, None)

    def refused(self, segment: SegmentId, sequence: int, error: MagnetarError) -> list[Effect]:
        """The broker refused one entry, or this client did before it was written."""
        queue = self._queues.get(segment)
        entry = None if queue is None else queue.found(sequence)
        if queue is None or entry is None:
            return []
        if isinstance(error, Sealed) and self._follows:
            entry.refused = True
            return self._freeze(queue) + self._move()
        if error.outcome is Outcome.DEFINITE and (error.retry is Retry.NEVER or isinstance(error, Sealed)):
            entry.refused = True
            gone = [message for message in entry.messages if message.fate is SendStatus.LIVE]
            for message in gone:
                entry.give_up(message)
            queue.drop(entry)
            return [*self._reports(gone, error)]
        return [ReattachSegment(segment)]

    def ended(self, error: MagnetarError) -> list[Effect]:
        """The producer is closed or fenced: every pending message gets its result."""
        gone = [message for queue in self._queues.values() for message in queue.drained()]
        effects: list[Effect] = [*self._reports(gone, error)]
        effects += [DropSegment(segment) for segment in self._queues]
        self._queues.clear()
        self._sealed.clear()
        self._queue_by_slot.clear()
        self.begun = False
        return effects

    # Events

    def handle(self, event: Event) -> list[Effect]:
        effects = self._handle(event)
        if validation.enabled:
            self.validate()
        return effects

    def validate(self) -> None:
        """Called after every event, and not for each message."""
        queues = list(self._queues.values())
        for queue in queues:
            queue.validate()
        assert self._sealed == [queue for queue in self._sealed if queue.sealed and queue in queues]
        assert len(self._sealed) == sum(queue.sealed for queue in queues), "each sealed queue is known as one"
        live = [queue.live() for queue in queues]
        assert self.messages == sum(messages for messages, _ in live), "every message without an outcome is counted"
        assert self.bytes == sum(size for _, size in live), "and so are its bytes"
        for queue in queues:
            if not queue.partitions and self._held(queue):
                written = any(entry.written for entry in queue.pending)
                assert not written, f"segment {queue.segment} was written before its parents' messages moved (H-E2)"
        if self.layout is not None and queues:
            assert {segment.id for segment in self.layout.active} <= self._queues.keys(), "active segments have a queue"

    def _handle(self, event: Event) -> list[Effect]:
        match event:
            case LayoutAdvanced(layout=layout):
                return self._advance(layout)
            case SegmentAttached(segment=segment, last_sequence=last):
                return self._open(segment, last)
            case SegmentDetached(segment=segment, certain=certain):
                return self._close(segment, certain)
            case SegmentSealed(segment=segment):
                queue = self._queues.get(segment)
                return [] if queue is None or not self._follows else self._freeze(queue) + self._move()

    def queue(self, segment: SegmentId) -> SegmentQueue | None:
        """For debugging and tests."""
        return self._queues.get(segment)

    def _advance(self, layout: Layout) -> list[Effect]:
        if self.layout is not None and layout.epoch <= self.layout.epoch:
            return []  # H-E6: pushes may overtake each other
        self.layout = layout
        self._queue_by_slot.clear()
        self._partitions = partitions_of(layout)
        effects: list[Effect] = []
        for queue in list(self._queues.values()):
            if not self._stands(queue):
                effects += self._freeze(queue)  # freeze all before any message moves: a merge has several parents
        for segment in layout.active:  # attach now: children that are open when the rest arrives keep the gap short
            if segment.id not in self._queues:
                self._queues[segment.id] = SegmentQueue(segment, self._partitions)
                effects.append(AttachSegment(segment.id))
        return effects + self._move()

    def _open(self, segment: SegmentId, last: int) -> list[Effect]:
        queue = self._queues.get(segment)
        if queue is None or queue.sealed:
            return []
        queue.attached(last)
        self.next_sequence = max(self.next_sequence, last + 1)
        if not self.begun:
            self.begun = all(one.opened for one in self._queues.values())
        return [WriteSegment(segment)] if queue.busy and not self._held(queue) else []

    def _close(self, segment: SegmentId, certain: bool) -> list[Effect]:
        queue = self._queues.get(segment)
        if queue is None or queue.state is State.SETTLED:
            return []
        queue.detached(certain=certain)
        if queue.state is not State.FROZEN:
            return []
        queue.settle()
        return self._move()

    def _freeze(self, queue: SegmentQueue) -> list[Effect]:
        if queue.sealed:
            return []
        attached = queue.state is State.ATTACHED
        queue.state = State.FROZEN
        self._sealed.append(queue)
        self._queue_by_slot.clear()
        effects: list[Effect] = []
        if self.layout is not None and self._stands(queue):
            effects.append(RefreshLayout(self.layout.epoch))
        if attached and any(entry.written for entry in queue.pending):
            effects.append(DrainSegment(queue.segment))  # answers may be in flight
        else:
            queue.settle()
        return effects

    def _move(self) -> list[Effect]:
        """Move the messages of settled queues to their next segments, if the layout already shows those."""
        ready = [queue for queue in self._sealed if queue.state is State.SETTLED and not self._stands(queue)]
        if not ready or self.layout is None or not self.layout.active:
            return []  # a deleted topic has no next segment: `ended` follows
        rest: dict[SegmentId, list[QueuedMessage]] = {}
        self._queue_by_slot.clear()
        for queue in ready:
            del self._queues[queue.segment]
            self._sealed.remove(queue)
            for message in self._apart(queue.messages):
                rest.setdefault(self._destination(self.layout, message.route), []).append(message)
        for segment, messages in rest.items():
            self._hand_over(self._queues[segment], messages)
        effects: list[Effect] = [DropSegment(queue.segment) for queue in ready]
        free = [one for one in self._queues.values() if one.state is State.ATTACHED and not self._held(one)]
        return effects + [WriteSegment(queue.segment) for queue in free if queue.busy]

    def _hand_over(self, queue: SegmentQueue, messages: list[QueuedMessage]) -> None:
        """The queue has written no entry yet, because it was held. The parents' messages are merged in sending order,
        so that numbers increase in the queue, whichever of them the owner compares.
        """
        queue.messages = deque(sorted([*queue.messages, *messages], key=_place))

    def _held(self, queue: SegmentQueue) -> bool:
        """Whether a sealed queue still has older messages of its keys. A merge waits for all its parents."""
        return any(sealed.precedes(queue) for sealed in self._sealed)

    def _stands(self, queue: SegmentQueue) -> bool:
        """Whether the segment is active in the present layout."""
        layout = self.layout
        return layout is None or (queue.segment in layout and layout.segment(queue.segment).is_active)

    def _queue_of(self, route: KeyRoute) -> SegmentQueue:
        queue = next((sealed for sealed in self._sealed if sealed.covers(route)), None)  # after its remaining messages
        if queue is None:
            if self.layout is None:
                raise InvalidTransition("a message was added before the first layout")
            queue = self._queues[self._destination(self.layout, route)]
        if not self._partitions and not any(sealed.partitions for sealed in self._sealed):
            self._queue_by_slot[route.slot] = queue  # only the slot decides
        return queue

    def _destination(self, layout: Layout, route: KeyRoute) -> SegmentId:
        if self._partitions:
            return SegmentId(masked(route.hash) % self._partitions)
        return layout.route(route.slot).id

    def _reports(self, gone: list[QueuedMessage], error: MagnetarError | None) -> list[ReportOutcome]:
        for message in gone:
            self._over(message)
        return [ReportOutcome(message, error) for message in sorted(gone, key=_place)]

    def _over(self, message: QueuedMessage) -> None:
        self.bytes -= message.size
        self.messages -= message.count

    def _apart(self, messages: deque[QueuedMessage]) -> Iterator[QueuedMessage]:
        """Split prebuilt batches into messages: they were made for segments that no longer exist."""
        for message in messages:
            if isinstance(message, QueuedBatch):
                self.bytes -= message.size
                for part in message.apart():
                    self.bytes += part.size
                    yield part
            else:
                yield message


def _place(message: QueuedMessage) -> int:
    return message.place
