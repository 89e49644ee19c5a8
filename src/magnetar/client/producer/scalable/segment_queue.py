"""The queue of one segment: the messages of one producer for it, in the order of storing.

A message waits in the queue, becomes part of an entry, is written, and is answered. A message that was written without
an answer may be stored; it records that doubt, so that its sender gets the true result. Messages are kept until they
are answered, so that a split can redistribute them (H-E7) and a chunked message is resent as a whole (H-E8). Pure
decisions; it trusts `SegmentQueues` to decide when it may write.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from magnetar.base.errors import InvalidTransition
from magnetar.base.hashes import masked
from magnetar.base.limits import BUCKET_WINDOW_S, CLIENT_BATCH_BYTES_MAX, CLIENT_BATCH_MESSAGES_MAX
from magnetar.base.ranges import FULL, HashRange
from magnetar.client.producer.router import KeyRoute
from magnetar.client.producer.scalable.entry_buckets import BucketSorter
from magnetar.client.producer.scalable.queued_messages import Columns, QueuedMessage, SendStatus, renumber
from magnetar.layout.segment import Segment


class QueuedEntry:
    """Messages of one entry, in `columns` until one of them must be handled separately. `frames` and `parts` belong to
    the writer: the encoded bytes, made once, and the number of chunks, each of which is answered.
    """

    __slots__ = ("_answers", "_messages", "columns", "frames", "hashes", "parts", "refused", "written")

    def __init__(self, messages: list[QueuedMessage] | None = None, columns: Columns | None = None) -> None:
        self._messages = messages
        self.columns = columns
        self.frames: Any = None
        self.hashes: tuple[int, int] | None = None  # the hash range of a batch, if the segment has entry buckets
        self.parts = 1
        self.written = False  # on the present attachment
        self.refused = False  # refused on the present attachment: the broker did not store it
        self._answers = 0

    @property
    def messages(self) -> list[QueuedMessage]:
        if self.columns is not None:
            self._messages = self.columns.singles()
            self.columns = None
        assert self._messages is not None
        return self._messages

    @messages.setter
    def messages(self, messages: list[QueuedMessage]) -> None:
        self._messages = messages
        self.columns = None

    @property
    def sequence(self) -> int:
        columns = self.columns
        return self.messages[0].sequence if columns is None else columns.sequences[0]

    @property
    def highest(self) -> int:
        columns = self.columns
        return self.messages[-1].highest if columns is None else columns.sequences[-1]

    @property
    def alive(self) -> bool:
        return self.columns is not None or any(message.fate is SendStatus.LIVE for message in self.messages)

    @property
    def deadline(self) -> float | None:
        """The earliest deadline of its live messages."""
        if self.columns is not None:
            return self.columns.deadlines[0]
        return next((message.deadline for message in self.messages if message.fate is SendStatus.LIVE), None)

    def holds(self, sequence: int) -> bool:
        return self.sequence <= sequence <= self.highest

    def answered(self) -> bool:
        """Count one stored part. True if it was the last one."""
        self._answers += 1
        return self._answers >= self.parts

    def detached(self, *, certain: bool) -> None:
        """No more answers will arrive. `certain`: every stored entry was answered."""
        if self.written and not self.refused and not certain:
            for message in self.messages:
                message.doubt = True
        self.written = self.refused = False
        self._answers = 0

    def give_up(self, message: QueuedMessage) -> None:
        message.fate = SendStatus.UNKNOWN if message.doubt or (self.written and not self.refused) else SendStatus.FAILED


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The limits of an entry. A message that must not share an entry is sent alone, regardless of its size."""

    messages_max: int = CLIENT_BATCH_MESSAGES_MAX
    bytes_max: int = CLIENT_BATCH_BYTES_MAX


class State(Enum):
    DETACHED = auto()
    ATTACHED = auto()
    FROZEN = auto()  # the segment is sealed; answers may still arrive
    SETTLED = auto()  # sealed, and no more answers arrive: the remaining messages wait for their next segment


class SegmentQueue:
    """Waiting messages are in `messages`. Newer ones may be in columns: `SegmentQueues` gathers them in `open`, one
    group per bucket, and entries are taken from the groups directly. Reading `messages` first moves all into it.
    """

    __slots__ = (
        "_messages",
        "_ready",
        "_unwritten",
        "buckets",
        "gathered",
        "mark",
        "offset",
        "open",
        "opened",
        "partitions",
        "pending",
        "range",
        "room",
        "segment",
        "state",
    )

    def __init__(self, segment: Segment, partitions: int) -> None:
        self.segment = segment.id
        self.partitions = partitions  # 0: keys are assigned by range; else the number of plain topics of the layout
        self.range: HashRange = FULL if partitions or segment.legacy_topic else segment.range
        self.state = State.DETACHED
        self.opened = False  # attached at least once
        self.mark = -1  # the owner's last sequence of this producer before this queue wrote its first entry
        self._messages: deque[QueuedMessage] = deque()
        self._ready: deque[Columns] = deque()  # sorted groups, the next to become entries
        self.open: dict[int, Columns] = {}  # by bucket
        self.offset = 0  # of the open groups
        self.gathered = 0  # messages in columns that are not part of an entry yet
        self.pending: deque[QueuedEntry] = deque()
        self._unwritten: deque[QueuedEntry] = deque()
        self.buckets = BucketSorter(segment.bucket_splits) if segment.bucket_splits else None
        self.room = self.buckets.room if self.buckets is not None else 1.0  # number of entries that fill in parallel

    @property
    def sealed(self) -> bool:
        return self.state in (State.FROZEN, State.SETTLED)

    @property
    def messages(self) -> deque[QueuedMessage]:
        if self.gathered:
            self._come_apart()
        return self._messages

    @messages.setter
    def messages(self, messages: deque[QueuedMessage]) -> None:
        self._messages = messages

    @property
    def waiting(self) -> int:
        """The number of messages that are not part of an entry yet."""
        return len(self._messages) + self.gathered

    @property
    def busy(self) -> bool:
        return bool(self._messages or self.gathered or self.pending)

    @property
    def deadline(self) -> float | None:
        """The earliest deadline. Deadlines increase with places."""
        for entry in self.pending:
            deadline = entry.deadline
            if deadline is not None:
                return deadline
        return self._waiting_deadline

    @property
    def _waiting_deadline(self) -> float | None:
        if self._messages:
            return self._messages[0].deadline
        return min((one.deadlines[0] for one in (*self._ready, *self.open.values())), default=None)

    def covers(self, route: KeyRoute) -> bool:
        if self.partitions:
            return masked(route.hash) % self.partitions == self.segment
        return route.slot in self.range

    def precedes(self, other: SegmentQueue) -> bool:
        """Whether this queue may contain older messages of the other queue's keys."""
        return self.segment < other.segment and self.range.overlaps(other.range)

    def live(self) -> tuple[int, int]:
        """Messages without an outcome and their bytes, counted one by one: for `validate` and tests."""
        columns = [*self._ready, *self.open.values()]
        messages: list[QueuedMessage] = list(self._messages)
        for entry in self.pending:
            if entry.columns is not None:
                columns.append(entry.columns)
            else:
                messages += [message for message in entry.messages if message.fate is SendStatus.LIVE]
        count = sum(len(one) for one in columns) + sum(message.count for message in messages)
        return count, sum(sum(one.sizes) for one in columns) + sum(message.size for message in messages)

    def validate(self) -> None:
        gathered = sum(len(group) for group in (*self._ready, *self.open.values()))
        assert self.gathered == gathered, f"segment {self.segment}: {self.gathered} messages in {gathered} columns"
        if self.state is State.SETTLED:
            assert not self.pending, f"segment {self.segment}: an entry is pending after the last answer"
        if self.state is State.DETACHED:
            assert not any(entry.written for entry in self.pending), f"segment {self.segment}: written, not attached"

    # Writing

    def attached(self, mark: int) -> None:
        """A new attachment: every entry without an answer is written again, in order."""
        self.state = State.ATTACHED
        if not self.opened:
            self.opened = True
            self.mark = mark
        self.pending = deque(entry for entry in self.pending if entry.alive)
        self._unwritten = deque(self.pending)

    def group(self, bucket: int, offset: int) -> Columns:
        """Open the columns of a bucket. If numbers also went to another queue, the earlier columns are closed first."""
        if self.open and self.offset != offset:
            self._put_in_order()
        self.offset = offset
        columns = self.open[bucket] = Columns(bucket, offset)
        return columns

    def next_entry(self, cut: BatchLimits) -> QueuedEntry | None:
        while self._unwritten:
            entry = self._unwritten.popleft()
            if entry.alive:
                entry.written = True
                return entry
        if self.gathered and not self._messages:
            if not self._ready:
                self._put_in_order()
            if self._ready:
                return self._from_columns(cut)
        if not self._messages:
            return None
        if self.buckets is not None:
            self.buckets.arrange(self._messages, mark=self.mark, messages_max=cut.messages_max)
        entry = QueuedEntry(self._cut(cut))
        if self.buckets is not None and len(entry.messages) > 1:
            entry.hashes = self.buckets.stamp(entry.messages)
        entry.written = True
        self.pending.append(entry)
        return entry

    def _put_in_order(self) -> None:
        """Close the open columns. Bucket order moves only messages that arrived at about the same time."""
        groups = [self.open[bucket] for bucket in sorted(self.open)]
        if len(groups) > 1:
            first = min(group.deadlines[0] for group in groups)
            if max(group.deadlines[-1] for group in groups) > first + BUCKET_WINDOW_S:
                self._come_apart()
                return
            renumber(groups)
        if self.buckets is not None:
            self.buckets.advance()
        self._ready.extend(groups)
        self.open = {}

    def _from_columns(self, cut: BatchLimits) -> QueuedEntry:
        first, *rest = self._ready.popleft().pieces(cut.messages_max, cut.bytes_max)
        self._ready.extendleft(reversed(rest))
        self.gathered -= len(first)
        entry = QueuedEntry(columns=first)
        if self.buckets is not None and len(first) > 1:
            entry.hashes = self.buckets.stamp_of(first)
        entry.written = True
        self.pending.append(entry)
        return entry

    def _come_apart(self) -> None:
        """Convert all gathered columns to message objects, in the order of their places."""
        self._messages.extend(one for group in self._ready for one in group.singles())
        opened = [one for group in self.open.values() for one in group.singles()]
        self._messages.extend(sorted(opened, key=_place))
        self._ready.clear()
        self.open = {}
        self.gathered = 0

    def _cut(self, cut: BatchLimits) -> list[QueuedMessage]:
        waiting = self._messages
        first = waiting.popleft()
        messages = [first]
        # At or below the mark only the owner knows, by the key's range, what is stored; in a batch it sees no key.
        if first.alone or first.sequence <= self.mark:
            return messages
        room, last, group = cut.bytes_max - first.size, first.sequence, first.group
        for message in waiting:  # inspect in place and remove together, which saves a call per message
            sequence = message.sequence
            room -= message.size
            if room < 0 or message.alone or sequence <= last or message.group != group:
                break
            if len(messages) >= cut.messages_max:
                break
            messages.append(message)
            last = sequence
        if len(messages) > len(waiting):
            waiting.clear()
        else:
            for _ in range(len(messages) - 1):
                waiting.popleft()
        return messages

    # Answers

    def receipt(self, sequence: int) -> QueuedEntry | None:
        """The entry that this receipt completes; None for a late receipt or one of several chunks. A receipt that skips
        the oldest entry raises `InvalidTransition`: client and broker disagree.
        """
        if not self.pending:
            return None
        entry = self.pending[0]
        if entry.written and entry.holds(sequence):
            if not entry.answered():
                return None
            self.pending.popleft()
            return entry
        if sequence < entry.sequence:
            return None
        raise InvalidTransition(
            "the receipt is not for the oldest pending entry", sequence=sequence, oldest=entry.sequence
        )

    def found(self, sequence: int) -> QueuedEntry | None:
        """The entry that a refusal addresses."""
        return next((entry for entry in self.pending if entry.written and entry.holds(sequence)), None)

    def drop(self, entry: QueuedEntry) -> None:
        self.pending.remove(entry)

    # Ends

    def detached(self, *, certain: bool) -> None:
        for entry in self.pending:
            entry.detached(certain=certain)
        if self.gathered:
            self._come_apart()
        self._unwritten.clear()
        if not self.sealed:
            self.state = State.DETACHED

    def settle(self) -> None:
        """Convert all remaining entries to messages, in order: their next segments form new entries."""
        left = [message for entry in self.pending for message in entry.messages if message.fate is SendStatus.LIVE]
        self.messages = deque([*left, *self.messages])
        self.pending.clear()
        self.state = State.SETTLED

    def expired(self, now: float) -> list[QueuedMessage]:
        """The messages past their deadline. An entry that may be stored stays until it is answered. A message that was
        reported as not stored must never be written, so it is removed from an unwritten entry.
        """
        gone: list[QueuedMessage] = []
        for entry in list(self.pending):
            if not entry.alive:
                continue
            if entry.columns is not None and entry.columns.deadlines[0] > now:
                break
            late = [one for one in entry.messages if one.fate is SendStatus.LIVE and one.deadline <= now]
            if not late:
                break
            for message in late:
                entry.give_up(message)
            gone += late
            if not entry.written:
                self._cut_down(entry)
        waiting = self._waiting_deadline
        if waiting is None or waiting > now:
            return gone
        while self.messages and self.messages[0].deadline <= now:
            message = self.messages.popleft()
            message.fate = SendStatus.UNKNOWN if message.doubt else SendStatus.FAILED
            gone.append(message)
        return gone

    def _cut_down(self, entry: QueuedEntry) -> None:
        kept = [message for message in entry.messages if message.fate is not SendStatus.FAILED]
        if not entry.alive:
            self.pending.remove(entry)
        elif len(kept) < len(entry.messages):
            entry.messages = kept
            entry.frames = None

    def drained(self) -> list[QueuedMessage]:
        """All messages: no answer will arrive for them."""
        gone: list[QueuedMessage] = []
        for entry in self.pending:
            left = [message for message in entry.messages if message.fate is SendStatus.LIVE]
            for message in left:
                entry.give_up(message)
            gone += left
        for message in self.messages:
            message.fate = SendStatus.UNKNOWN if message.doubt else SendStatus.FAILED
        gone += self.messages
        self.pending.clear()
        self.messages.clear()
        self._unwritten.clear()
        return gone


def _place(message: QueuedMessage) -> int:
    return message.place
