"""What a topic can give to a reader that stands somewhere: the owner's half of PLAN.

Resolves where the reader begins (a place, the beginning, the end, a publish time), says what is gone before that, and
measures from there. Publish times at marks are read from the entries and remembered, a bounded number of them: they are
facts of the entries and can always be read again. Reads only; a place that is not of this topic is read as a place
between its entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from magnetar.base.errors import Misuse, NoSuchLedger
from magnetar.base.ids import BEFORE_ALL, Position
from magnetar.base.limits import PLAN_SEGMENT_MARKS_MAX, PLAN_STAMPS_MAX
from magnetar.layout.readable_range import DONE, NO_MARKS, START, CutColumns, ReadableRange, ReadPosition
from magnetar.ledger.measure import Limits, Measured, measured
from magnetar.ledger.run import Run
from magnetar.ledger.store import Reader
from magnetar.wire.scalable.plan_ranges import EncodedRange, counted, told

if TYPE_CHECKING:
    from magnetar.topic.topic import Topic

FROM_START = "start"  # the first message that was ever there
FROM_EARLIEST = "earliest"  # the first that is still there
FROM_LATEST = "latest"  # behind the last


class Asked(msgspec.Struct, frozen=True, omit_defaults=True):
    """`start`: where the reader stands, one of the words above, or milliseconds of a publish time. `target`: nothing at
    or behind it is measured. 0: no limit."""

    start: ReadPosition | str | int
    target: ReadPosition | None = None
    messages_max: int = 0
    bytes_max: int = 0
    marks_max: int = PLAN_SEGMENT_MARKS_MAX
    times: bool = False  # of every mark, not only of the first
    settled: bool = False  # after a trim under way: the messages that it removes count as deleted
    exact: bool = False  # only check that such a position exists: the result starts there, or elsewhere if not


class TopicMeter:
    """One for each topic. It remembers its last answer: a query that waits asks the same again and again, or with other
    limits."""

    __slots__ = ("_asked", "_floor", "_last", "_reader", "_stamps", "_terminated", "_told", "_topic")

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self._last = BEFORE_ALL  # what the topic was like, this and the next three
        self._terminated: Position | None = None
        self._floor: Position | None = None
        self._reader: Reader | None = None  # of all there is, where that is one ledger
        self._asked: Asked | None = None  # the request that `_told` answers, for the topic as it was then
        self._told = told(ReadableRange(START))
        self._stamps: dict[tuple[int, int], int] = {}  # in the order they came

    async def measure(self, asked: Asked) -> EncodedRange:
        self._topic.managed.keep_tail()
        if asked.exact:
            return told(await self._exact(asked.start))
        if asked.settled:
            async with self._topic.trimming:
                pass
        chain = self._topic.managed.chain
        while True:
            last, floor = self._topic.readable, chain.floor
            self._look(last)
            if self._asked is not None and _serves(self._asked, self._told, asked):
                return self._told
            try:
                found = told(await self._measure(asked))
            except NoSuchLedger:
                if self._topic.closed or chain.floor == floor:
                    raise  # the ledger is only missing for now: the caller tries again
                continue  # trimmed in between: the remaining messages begin later
            if self._last is last:
                self._asked, self._told = asked, found
            return found

    def at_once(self, asked: Asked) -> EncodedRange | None:
        """The same from memory alone, for a topic of one ledger: a thousand of them are asked in one breath, so calls
        and objects are spared. None: `measure` it."""
        if asked.settled or asked.exact:
            return None
        start, last = asked.start, self._topic.readable
        if last is not self._last or self._reader is None:
            self._look(last)
        before, reader = self._asked, self._reader
        if before is not None and before.start == start and _serves(before, self._told, asked):
            return self._told
        if reader is None or asked.target is not None or asked.times or isinstance(start, int) or start == FROM_LATEST:
            return None
        ledger, end = last
        first = 0
        if isinstance(start, ReadPosition) and start != START:
            place, first, row = start
            if place != ledger or row or not 0 <= first <= end:
                return None
        counts = reader.at_once(first, end, asked.marks_max)
        if counts is None:
            return None
        skipped, cuts = counts
        behind = cuts.entries[0] - 1  # the last entry before the first mark
        time = self._stamps.get((ledger, behind))
        if time is None:
            time = self._cached(Position(ledger, behind))
            if time is None:
                return None
        found = counted((ledger, first), cuts, skipped, published_ms=time, sealed=self._terminated is not None)
        if not _within(asked, found):
            return None
        self._asked, self._told = asked, found
        return found

    def _look(self, last: Position) -> None:
        """A result for an earlier state of the topic is no longer valid. While `last` is the same object, the state is
        unchanged: the chain creates a new one when it grows and whenever the record of the topic is written."""
        managed = self._topic.managed
        terminated, floor, links = managed.terminated, managed.chain.floor, managed.chain.links
        if last != self._last or terminated != self._terminated or floor != self._floor:
            self._asked = None
        self._last, self._terminated, self._floor = last, terminated, floor
        alone = len(links) == 1 and floor is None and last.entry >= 0
        self._reader = managed.known_reader(last.ledger) if alone else None

    async def _exact(self, asked: ReadPosition | str | int) -> ReadableRange:
        """Fenced: another owner was here since, and may know better."""
        if not isinstance(asked, ReadPosition):
            raise Misuse("expected a position", asked=asked)
        if not self._can_be(asked):
            await self._topic.managed.check_current()
            if not self._can_be(asked):
                nearest = ReadPosition(*self._topic.managed.clamp(Position(*asked[:2])))
                return ReadableRange(nearest, end=nearest)
        return ReadableRange(asked, end=asked)

    def _can_be(self, place: ReadPosition) -> bool:
        """How many messages a batch has is not looked at."""
        position, chain = Position(*place[:2]), self._topic.managed.chain
        if place.row and not chain.has(position):
            return chain.floor is not None and position <= chain.floor
        return chain.can_be_next(position)

    async def _measure(self, asked: Asked) -> ReadableRange:
        topic = self._topic
        chain = topic.managed.chain
        last, sealed = topic.readable, topic.managed.terminated is not None
        end = ReadPosition(last.ledger, last.entry + 1) if last.entry >= 0 else START
        start, lost = await self._start(asked.start, end)
        if asked.target is not None and asked.target != DONE:
            target = Position(*asked.target[:2])
            if target <= last:
                last, sealed = chain.before(target), False
                end = ReadPosition(*target)
        first = Position(*start[:2])
        if start >= end or first > last:
            at_end = sealed and start >= end
            return ReadableRange(start, NO_MARKS, at_end, lost, max(start, end))
        limits = Limits(asked.messages_max or None, asked.bytes_max or None, asked.marks_max)
        found = await measured(topic.managed, first, last, limits)
        row = min(start.row, found.before[0]) if start.row and found.before else 0
        if row:
            found.before = [messages - row for messages in found.before]
        times = await self._times(found, len(found.ledgers) if asked.times else 1)
        whole = bool(found.ledgers) and (found.ledgers[-1], found.entries[-1]) == (last.ledger, last.entry + 1)
        marks = CutColumns(found.ledgers, found.entries, found.before, found.sizes, times)
        return ReadableRange(start, marks, sealed and whole, lost, end, found.messages - row, found.bytes)

    async def _start(self, asked: ReadPosition | str | int, end: ReadPosition) -> tuple[ReadPosition, bool]:
        """Where reading begins, and whether messages before that are gone which the reader has not had."""
        managed = self._topic.managed
        chain = managed.chain
        if asked == FROM_LATEST:
            return end, False
        if isinstance(asked, int):
            found = await managed.find(asked)
            return (ReadPosition(*found) if found.entry >= 0 and found <= end[:2] else end), False
        if asked in (FROM_START, FROM_EARLIEST) or asked == START:
            first = chain.clamp(BEFORE_ALL)
            place = ReadPosition(*first) if chain.has(first) else end
            return place, asked != FROM_EARLIEST and chain.floor is not None
        assert isinstance(asked, ReadPosition)
        place = asked
        position = Position(*place[:2])
        if chain.has(position) or place >= end:
            return place, False
        return ReadPosition(*chain.clamp(position)), chain.floor is not None and position <= chain.floor

    async def _times(self, found: Measured, count: int) -> list[int]:
        """When the last entry before each of the first marks was published."""
        places = zip(found.ledgers[:count], found.entries[:count], strict=True)
        return [await self._time(Position(ledger, entry - 1)) for ledger, entry in places]

    async def _time(self, position: Position) -> int:
        known = self._stamps.get(position)
        if known is None:
            known = self._cached(position)
        if known is not None:
            return known
        run = await self._topic.managed.read(position, 1, 1)
        if run is None or run.position(0) != position:
            return 0  # trimmed in between
        return self._stamp(position, run)

    def _cached(self, position: Position) -> int | None:
        """Of an entry that is still in memory: a reader that keeps up asks about new ones each time."""
        run = self._topic.managed.cached(position, 1, 1)
        return None if run is None else self._stamp(position, run)

    def _stamp(self, position: Position, run: Run) -> int:
        found = self._stamps[position] = self._topic.managed.config.publish_time_of(run.entry(0))
        while len(self._stamps) > PLAN_STAMPS_MAX:
            del self._stamps[next(iter(self._stamps))]
        return found


def _serves(before: Asked, told: EncodedRange, asked: Asked) -> bool:
    """True if the earlier result also answers this request: a limit that was not reached changes nothing."""
    if before is asked or before == asked:
        return True
    return (
        before.start == asked.start
        and before.marks_max == asked.marks_max
        and before.times == asked.times
        and before.target == asked.target
        and _within(before, told)
        and _within(asked, told)
    )


def _within(asked: Asked, told: EncodedRange) -> bool:
    """Whether all that there is reaches no limit."""
    messages, size = asked.messages_max, asked.bytes_max
    return (not messages or told.messages + told.row < messages) and (not size or told.bytes < size)
