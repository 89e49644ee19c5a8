"""One lane: the messages of one producer for one segment, in the order they must be stored.

A message waits in the queue, is cut into an entry, is written, is answered. What was written and not answered may be
stored: each message remembers whether there is such a doubt, so that its sender is told the truth in the end. Originals
are kept until they are answered, so that a split can cut them anew (H-E7) and a message in chunks goes again as a whole
(H-E8). Decides only; it trusts `Lanes` to say when it may write.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from magnetar.base.errors import InvalidTransition
from magnetar.base.hashes import masked
from magnetar.base.limits import CLIENT_BATCH_BYTES_MAX, CLIENT_BATCH_MESSAGES_MAX
from magnetar.base.ranges import FULL, HashRange
from magnetar.client.bucketing import Bucketing
from magnetar.client.outgoing import Done, Fields
from magnetar.client.router import Route
from magnetar.layout.segment import Segment


class Fate(Enum):
    LIVE = auto()  # no outcome yet
    STORED = auto()  # a receipt came
    UNKNOWN = auto()  # given up, and it may be stored
    FAILED = auto()  # given up, and it is not stored, for sure


class Outbound:
    """One message. `item` is the sender's own, with `fields` and `done` where it has them; `turn` says when it came
    among all messages of the producer, `place` when it goes: entry buckets may change that before it is written.
    """

    __slots__ = (
        "alone",
        "deadline",
        "done",
        "doubt",
        "fate",
        "fields",
        "group",
        "item",
        "place",
        "route",
        "sequence",
        "size",
        "turn",
    )

    count = 1  # messages: a sheaf has many, and numbers up to a `highest`

    def __init__(
        self,
        item: Any,
        route: Route,
        place: int,
        sequence: int,
        size: int,
        deadline: float,
        alone: bool = False,
        group: object = None,
        fields: Fields | None = None,
        done: Done | None = None,
    ) -> None:
        self.item = item
        self.fields = fields
        self.done = done
        self.route = route
        self.place = self.turn = place
        self.sequence = sequence
        self.size = size
        self.deadline = deadline
        self.alone = alone  # never in a batch
        self.group = group  # only messages of one group share a batch
        self.doubt = False  # it was written somewhere and nobody said what became of it
        self.fate = Fate.LIVE

    @property
    def highest(self) -> int:
        return self.sequence

    def __repr__(self) -> str:
        return f"Outbound({self.sequence}, {self.fate.name}{', in doubt' if self.doubt else ''})"


class Entry:
    """Messages that go together. `frames` and `parts` are for who writes: the bytes, made once, and in how many chunks
    they go, each of which gets an answer.
    """

    __slots__ = ("_answers", "frames", "hashes", "messages", "parts", "refused", "written")

    def __init__(self, messages: list[Outbound]) -> None:
        self.messages = messages
        self.frames: Any = None
        self.hashes: tuple[int, int] | None = None  # the stamp of a batch, where the segment has entry buckets
        self.parts = 1
        self.written = False  # on the present attachment
        self.refused = False  # there, and the broker said that it is not stored
        self._answers = 0

    @property
    def sequence(self) -> int:
        return self.messages[0].sequence

    @property
    def highest(self) -> int:
        return self.messages[-1].highest

    @property
    def alive(self) -> bool:
        return any(message.fate is Fate.LIVE for message in self.messages)

    def holds(self, sequence: int) -> bool:
        return self.sequence <= sequence <= self.highest

    def answered(self) -> bool:
        """One more part is stored: was it the last?"""
        self._answers += 1
        return self._answers >= self.parts

    def detached(self, *, certain: bool) -> None:
        """No answer will come any more. `certain`: what was stored was answered."""
        if self.written and not self.refused and not certain:
            for message in self.messages:
                message.doubt = True
        self.written = self.refused = False
        self._answers = 0

    def give_up(self, message: Outbound) -> None:
        message.fate = Fate.UNKNOWN if message.doubt or (self.written and not self.refused) else Fate.FAILED


@dataclass(frozen=True, slots=True)
class Cut:
    """How large an entry may grow. A message that may not share one goes alone, however large it is."""

    messages_max: int = CLIENT_BATCH_MESSAGES_MAX
    bytes_max: int = CLIENT_BATCH_BYTES_MAX


class State(Enum):
    DETACHED = auto()
    ATTACHED = auto()
    FROZEN = auto()  # the segment is sealed; answers may still come
    SETTLED = auto()  # sealed, nothing more comes: everything left waits for its next segment


class Lane:
    __slots__ = (
        "_unwritten",
        "buckets",
        "mark",
        "opened",
        "partitions",
        "pending",
        "queue",
        "range",
        "room",
        "segment",
        "state",
    )

    def __init__(self, segment: Segment, partitions: int) -> None:
        self.segment = segment.id
        self.partitions = partitions  # 0: keys come by range; else this is one of so many plain topics
        self.range: HashRange = FULL if partitions or segment.legacy_topic else segment.range
        self.state = State.DETACHED
        self.opened = False  # at least once
        self.mark = -1  # what the owner had of this producer before this lane wrote anything
        self.queue: deque[Outbound] = deque()
        self.pending: deque[Entry] = deque()
        self._unwritten: deque[Entry] = deque()
        self.buckets = Bucketing(segment.bucket_splits) if segment.bucket_splits else None
        self.room = self.buckets.room if self.buckets is not None else 1.0  # entries that are filled side by side

    @property
    def sealed(self) -> bool:
        return self.state in (State.FROZEN, State.SETTLED)

    @property
    def busy(self) -> bool:
        return bool(self.queue or self.pending)

    @property
    def deadline(self) -> float | None:
        """The earliest. Deadlines grow with places."""
        for entry in self.pending:
            for message in entry.messages:
                if message.fate is Fate.LIVE:
                    return message.deadline
        return self.queue[0].deadline if self.queue else None

    def covers(self, route: Route) -> bool:
        if self.partitions:
            return masked(route.hash) % self.partitions == self.segment
        return route.slot in self.range

    def precedes(self, other: Lane) -> bool:
        """May it hold older messages of the other's keys?"""
        return self.segment < other.segment and self.range.overlaps(other.range)

    # Writing

    def attached(self, mark: int) -> None:
        """A new attachment: everything unanswered is to be written again, in order."""
        self.state = State.ATTACHED
        if not self.opened:
            self.opened = True
            self.mark = mark
        self.pending = deque(entry for entry in self.pending if entry.alive)
        self._unwritten = deque(self.pending)

    def next_entry(self, cut: Cut) -> Entry | None:
        while self._unwritten:
            entry = self._unwritten.popleft()
            if entry.alive:
                entry.written = True
                return entry
        if not self.queue:
            return None
        if self.buckets is not None:
            self.buckets.arrange(self.queue, mark=self.mark, messages_max=cut.messages_max)
        entry = Entry(self._cut(cut))
        if self.buckets is not None and len(entry.messages) > 1:
            entry.hashes = self.buckets.stamp(entry.messages)
        entry.written = True
        self.pending.append(entry)
        return entry

    def _cut(self, cut: Cut) -> list[Outbound]:
        queue = self.queue
        first = queue.popleft()
        messages = [first]
        # At or below the mark only the owner knows, by the range of the key, what is stored; of a batch it sees no key.
        if first.alone or first.sequence <= self.mark:
            return messages
        room, last, group = cut.bytes_max - first.size, first.sequence, first.group
        for message in queue:  # looked at in place, taken together: a call less for each
            sequence = message.sequence
            room -= message.size
            if room < 0 or message.alone or sequence <= last or message.group != group:
                break
            if len(messages) >= cut.messages_max:
                break
            messages.append(message)
            last = sequence
        if len(messages) > len(queue):
            queue.clear()
        else:
            for _ in range(len(messages) - 1):
                queue.popleft()
        return messages

    # Answers

    def receipt(self, sequence: int) -> Entry | None:
        """The entry that is stored with this; None if the answer came late or there are more to come. For what is not
        the oldest it is `InvalidTransition`: the broker and we no longer agree.
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
        raise InvalidTransition("a receipt for what is not the oldest", sequence=sequence, oldest=entry.sequence)

    def found(self, sequence: int) -> Entry | None:
        """The entry a refusal is for."""
        return next((entry for entry in self.pending if entry.written and entry.holds(sequence)), None)

    def drop(self, entry: Entry) -> None:
        self.pending.remove(entry)

    # Ends

    def detached(self, *, certain: bool) -> None:
        for entry in self.pending:
            entry.detached(certain=certain)
        self._unwritten.clear()
        if not self.sealed:
            self.state = State.DETACHED

    def settle(self) -> None:
        """Everything left becomes messages again, in order: entries are cut anew where they go."""
        left = [message for entry in self.pending for message in entry.messages if message.fate is Fate.LIVE]
        self.queue = deque([*left, *self.queue])
        self.pending.clear()
        self.state = State.SETTLED

    def expired(self, now: float) -> list[Outbound]:
        """Those whose time is up. An entry that may be stored stays until it is answered; one that is certainly not
        stored must never be written with a message of which that was said.
        """
        gone: list[Outbound] = []
        for entry in list(self.pending):
            if not entry.alive:
                continue
            late = [one for one in entry.messages if one.fate is Fate.LIVE and one.deadline <= now]
            if not late:
                break
            for message in late:
                entry.give_up(message)
            gone += late
            if not entry.written:
                self._cut_down(entry)
        while self.queue and self.queue[0].deadline <= now:
            message = self.queue.popleft()
            message.fate = Fate.UNKNOWN if message.doubt else Fate.FAILED
            gone.append(message)
        return gone

    def _cut_down(self, entry: Entry) -> None:
        kept = [message for message in entry.messages if message.fate is not Fate.FAILED]
        if not entry.alive:
            self.pending.remove(entry)
        elif len(kept) < len(entry.messages):
            entry.messages = kept
            entry.frames = None

    def drained(self) -> list[Outbound]:
        """All of them: nobody will answer any more."""
        gone: list[Outbound] = []
        for entry in self.pending:
            left = [message for message in entry.messages if message.fate is Fate.LIVE]
            for message in left:
                entry.give_up(message)
            gone += left
        for message in self.queue:
            message.fate = Fate.UNKNOWN if message.doubt else Fate.FAILED
        gone += self.queue
        self.pending.clear()
        self.queue.clear()
        self._unwritten.clear()
        return gone
