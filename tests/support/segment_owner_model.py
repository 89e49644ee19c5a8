"""A model of the owners of segments, as queues meet them: they keep or refuse each entry, are sealed at any point, lose
answers, and know (with deduplication) what came before them. Every step is a call, so that a state machine or a seed
can choose them. `Violation` says which promise was broken.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from magnetar.base.errors import Sealed, StorageFailed
from magnetar.base.ids import SegmentId
from magnetar.base.ranges import HashRange
from magnetar.client.producer.fields import keyed
from magnetar.client.producer.router import KeyRoute
from magnetar.client.producer.scalable.queued_messages import QueuedMessage, SendStatus
from magnetar.client.producer.scalable.segment_queue import BatchLimits, QueuedEntry
from magnetar.client.producer.scalable.segment_queues import (
    AttachSegment,
    DrainSegment,
    DropSegment,
    Effect,
    LayoutAdvanced,
    ReattachSegment,
    ReportOutcome,
    SegmentAttached,
    SegmentDetached,
    SegmentQueues,
    SegmentSealed,
)
from magnetar.layout.layout import Child, Layout, initial

SLOTS = {f"k{n}": slot for n, slot in enumerate((0x0000, 0x1800, 0x5000, 0x7FFF, 0x8000, 0xA800, 0xD000, 0xFFFF))}
FAR = 1_000_000.0


class Violation(AssertionError):
    pass


class Value(NamedTuple):
    key: str
    number: int


class Sent(NamedTuple):
    messages: list[tuple[Value, int, int]]  # value, slot, sequence
    part: int
    parts: int


class Owner:
    """The topic of one segment."""

    def __init__(self, range: HashRange, marks: list[tuple[int, int, int]]) -> None:
        self.range = range
        self.sealed = False
        self.log: list[Value] = []
        self.marks = marks  # empty: no deduplication
        self.attached = False
        self.arriving: deque[Sent] = deque()
        self.answers: deque[tuple[str, int]] = deque()
        self._halves: set[Value] = set()

    @property
    def mark(self) -> int:
        return max((mark for _, _, mark in self.marks), default=-1)

    def attach(self) -> None:
        self.attached = True
        self.arriving.clear()
        self.answers.clear()
        self._halves.clear()

    def process(self) -> None:
        sent = self.arriving.popleft()
        sequence = sent.messages[0][2]
        verdict = "sealed" if self.sealed else self._verdict(sent)
        if verdict == "new":
            self._store(sent)
        self.answers.append(("receipt" if verdict in ("new", "duplicate") else verdict, sequence))

    def _verdict(self, sent: Sent) -> str:
        if not self.marks or sent.part < sent.parts - 1:
            return "new"
        first, highest = sent.messages[0][2], sent.messages[-1][2]
        marks = [mark for _, _, mark in self._touched(sent)]
        if first > max(marks):
            return "new"
        return "duplicate" if highest <= min(marks) else "unsure"

    def _touched(self, sent: Sent) -> list[tuple[int, int, int]]:
        """An owner sees the key of a single message; a batch counts for all ranges."""
        if len(sent.messages) > 1:
            return self.marks
        return [one for one in self.marks if one[0] <= sent.messages[0][1] <= one[1]]

    def _store(self, sent: Sent) -> None:
        if sent.part < sent.parts - 1:
            self._halves.add(sent.messages[0][0])
            return
        if sent.parts > 1 and sent.messages[0][0] not in self._halves:
            raise Violation(f"a chunk without its first: {sent}")
        self.log += [value for value, _, _ in sent.messages]
        touched = self._touched(sent)
        highest = sent.messages[-1][2]
        self.marks = [(a, b, max(mark, highest) if (a, b, mark) in touched else mark) for a, b, mark in self.marks]


class World:
    """`queues` is the decider, or a mutant of it."""

    def __init__(
        self,
        *,
        deduplicated: bool,
        segments: int = 1,
        batch: int = 3,
        make: Callable[..., SegmentQueues] = SegmentQueues,
        buckets: int = 1,
    ):
        self.queues = make(cut=BatchLimits(messages_max=batch))
        self.deduplicated = deduplicated
        self.layout: Layout = initial(segments, now_ms=0, buckets=buckets)
        self.layouts = [self.layout]
        self.intent: tuple[list[SegmentId], tuple[Child, ...]] | None = None
        self.owners = {one.id: self._owner(one.range, []) for one in self.layout.active}
        self.wanted: set[SegmentId] = set()  # queues that shall be attached
        self.settling: set[SegmentId] = set()
        self.sent: list[Value] = []
        self.wired: set[Value] = set()
        self.fates: dict[Value, SendStatus] = {}
        self.losses = 0
        self.now = 0.0
        self.last_deadline = 0.0  # deadlines grow with places, as those of one send timeout do
        self.tell(LayoutAdvanced(self.layout))
        for id in sorted(self.wanted):
            self.open(id)

    # What the application does

    def send(self, key: str, *, alone: bool = False, timeout: float = FAR) -> None:
        value = Value(key, len(self.sent))
        self.sent.append(value)
        deadline = self.last_deadline = max(self.now + timeout, self.last_deadline)
        fields, route = keyed(key), KeyRoute(SLOTS[key], SLOTS[key])
        if alone or self.queues.gather(value, fields, None, route, 1, deadline) is None:
            self.queues.add(value, route, size=1, deadline=deadline, alone=alone, fields=fields)

    def wait(self, time: float) -> None:
        self.now += time
        self.apply([*self.queues.expired(self.now)])
        due = self.queues.deadline
        if due is not None and due <= self.now:
            raise Violation("what is due is not given up")

    # What the actor does

    def tell(self, event: Any) -> None:
        self.apply(self.queues.handle(event))

    def apply(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case AttachSegment(segment=segment):
                    self.wanted.add(segment)
                case DrainSegment(segment=segment):
                    self.settling.add(segment)
                case DropSegment(segment=segment):
                    self.wanted.discard(segment)
                    self.settling.discard(segment)
                    self.owners[segment].attached = False
                case ReattachSegment(segment=segment):
                    self.lose(segment, 0)
                case ReportOutcome(message=message):
                    self.fate(message)

    def fate(self, message: QueuedMessage) -> None:
        value: Value = message.item
        if value in self.fates:
            raise Violation(f"told twice: {value}")
        self.fates[value] = message.fate
        stored = any(value in owner.log for owner in self.owners.values())
        if message.fate is SendStatus.STORED and not stored:
            raise Violation(f"told stored, and it is not: {value}")
        if message.fate is SendStatus.FAILED and stored:
            raise Violation(f"told failed, and it is stored: {value}")
        if message.fate is SendStatus.UNKNOWN and value not in self.wired:
            raise Violation(f"told unknown, and it never left: {value}")

    def write(self, id: SegmentId) -> bool:
        entry = self.queues.next_entry(id)
        if entry is None:
            return False
        if not self.owners[id].attached:
            raise Violation("written to nobody")
        columns = entry.columns
        if columns is not None:  # looked at as they are: a look at its messages would take them apart
            told = [
                (item, route.slot, sequence)
                for item, route, sequence in zip(columns.items, columns.routes, columns.sequences, strict=True)
            ]
        else:
            entry.parts = 2 if entry.messages[0].alone else 1
            told = [(m.item, m.route.slot, m.sequence) for m in entry.messages]
        if told != sorted(told, key=lambda one: one[2]):
            raise Violation(f"numbers do not grow: {told}")
        if (
            len(told) > 1
            and entry.hashes is not None
            and not all(entry.hashes[0] <= slot <= entry.hashes[1] for _, slot, _ in told)
        ):
            raise Violation(f"stamped with other hashes: {told}")
        self.wired |= {item for item, _, _ in told}
        if columns is None and any(m.fate is SendStatus.FAILED for m in entry.messages):
            raise Violation("written after it was told failed")
        self.owners[id].arriving.extend(Sent(told, part, entry.parts) for part in range(entry.parts))
        return True

    def open(self, id: SegmentId) -> None:
        owner = self.owners[id]
        if id not in self.wanted or owner.attached:
            return
        if owner.sealed:
            self.tell(SegmentSealed(id))
        else:
            owner.attach()
            self.tell(SegmentAttached(id, owner.mark))

    def settle(self, id: SegmentId) -> None:
        """Our close, answered: all that was on its way was answered before."""
        owner = self.owners[id]
        while owner.attached and (owner.arriving or owner.answers):
            self.process(id)
            self.answer(id)
        self._closed(id, certain=True)

    # What brokers and networks do

    def process(self, id: SegmentId) -> None:
        if self.owners[id].arriving:
            self.owners[id].process()

    def answer(self, id: SegmentId) -> None:
        owner = self.owners[id]
        if not owner.attached or not owner.answers:
            return
        kind, sequence = owner.answers.popleft()
        if kind == "receipt":
            self.stored(self.queues.stored(id, sequence))
        elif kind == "closed":
            self._closed(id, certain=True)
        else:
            self.apply(self.queues.refused(id, sequence, Sealed() if kind == "sealed" else StorageFailed()))

    def stored(self, entry: QueuedEntry | None) -> None:
        for message in [] if entry is None else entry.messages:
            if message.fate is SendStatus.STORED:
                self.fate(message)

    def lose(self, id: SegmentId, processed: int) -> None:
        """The connection is cut; so much of what was on its way still gets there."""
        owner = self.owners[id]
        if not owner.attached:
            return
        self.losses += 1
        for _ in range(min(processed, len(owner.arriving))):
            owner.process()
        self._closed(id, certain=False)

    def _closed(self, id: SegmentId, *, certain: bool) -> None:
        owner = self.owners[id]
        owner.attached = False
        owner.arriving.clear()
        owner.answers.clear()
        self.settling.discard(id)
        self.tell(SegmentDetached(id, certain=certain))

    def plan(self, parents: list[SegmentId], ranges: tuple[HashRange, ...]) -> None:
        if self.intent is None:
            self.layout, children = self.layout.burned(ranges)
            self.intent = parents, children

    def split(self, slot: int) -> None:
        parent = self.layout.route(slot)
        if len(parent.range) > 1:
            self.plan([parent.id], self.layout.split_ranges(parent.id))

    def merge(self, place: int, count: int) -> None:
        ids = [one.id for one in self.layout.active][place : place + count]
        if len(ids) > 1:
            self.plan(ids, (self.layout.merge_range(ids),))

    def seal(self) -> None:
        """The next parent: receipts, refusals, close, in this order."""
        if self.intent is None:
            return
        for id in self.intent[0]:
            owner = self.owners[id]
            if not owner.sealed:
                owner.sealed = True
                if owner.attached:
                    while owner.arriving:
                        owner.process()
                    owner.answers.append(("closed", -1))
                return

    def commit(self) -> None:
        if self.intent is None or not all(self.owners[id].sealed for id in self.intent[0]):
            return
        parents, children = self.intent
        self.layout = self.layout.reshaped(parents, children, now_ms=0)
        self.layouts.append(self.layout)
        self.intent = None
        for child in children:
            marks = [mark for id in parents for mark in self.owners[id].marks]
            self.owners[child.id] = self._owner(child.range, marks)

    def push(self, which: int) -> None:
        self.tell(LayoutAdvanced(self.layouts[which]))

    def _owner(self, range: HashRange, marks: list[tuple[int, int, int]]) -> Owner:
        cut = [(max(a, range.start), min(b, range.end), mark) for a, b, mark in marks]
        kept = sorted(one for one in cut if one[0] <= one[1])
        return Owner(range, (kept or [(range.start, range.end, -1)]) if self.deduplicated else [])

    # What was promised

    def finish(self) -> None:
        """Everything heals: then every message has an outcome, and the logs keep all promises."""
        for _ in range(4):
            self.seal()
        self.commit()
        self.push(-1)
        for _ in range(20 + 4 * len(self.sent)):
            for id in sorted(self.owners):
                if id in self.settling:
                    self.settle(id)
                self.open(id)
                while self.write(id):
                    pass
                self.process(id)
                self.answer(id)
        self.check()
        missing = [value for value in self.sent if value not in self.fates]
        if missing:
            raise Violation(f"never told: {missing}")
        if self.queues.bytes or self.queues.messages or self.queues.deadline is not None:
            raise Violation("room is not given back")

    def check(self) -> None:
        logs = [value for id in sorted(self.owners) for value in self.owners[id].log]
        for value, fate in self.fates.items():
            if fate is SendStatus.FAILED and value in logs:
                raise Violation(f"told failed, and it is stored: {value}")
        if not set(logs) <= set(self.sent):
            raise Violation("invented")
        if (self.deduplicated or not self.losses) and len(set(logs)) < len(logs):
            raise Violation("stored twice")
        for key in SLOTS:
            seen = list(dict.fromkeys(value.number for value in logs if value.key == key))
            if seen != sorted(seen):
                raise Violation(f"out of order: {key} {seen}")
        for id, owner in self.owners.items():
            if any(SLOTS[value.key] not in owner.range for value in owner.log):
                raise Violation(f"in another's range: {id}")
