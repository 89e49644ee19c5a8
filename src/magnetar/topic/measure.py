"""Measures what a reader can read of a topic from its place on: the owner's half of PLAN.

Resolves where the reader begins (a place, the beginning, the end, a publish time), reports the deleted messages before
that, and measures from there. Publish times at marks are read from the entries. A bounded number of them is cached,
because they can always be read again. The module only reads. A place of another topic counts as a place between the
entries of this one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from magnetar.base.errors import Misuse, NoSuchLedger
from magnetar.base.ids import BEFORE_ALL, Position
from magnetar.base.limits import PLAN_SEGMENT_MARKS_MAX, PLAN_STAMPS_MAX
from magnetar.layout.readable_range import DONE, NO_MARKS, START, CutColumns, ReadableRange, ReadPosition
from magnetar.ledger.measure import Limits, Measurement, measured
from magnetar.ledger.run import Run
from magnetar.ledger.store import Reader
from magnetar.wire.scalable.plan_ranges import EncodedRange, counted, encode_range

if TYPE_CHECKING:
    from magnetar.topic.topic import Topic

FROM_START = "start"  # the first message that was ever there
FROM_EARLIEST = "earliest"  # the first that is still there
FROM_LATEST = "latest"  # behind the last


class RangeRequest(msgspec.Struct, frozen=True, omit_defaults=True):
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
        self._last = BEFORE_ALL  # this and the next three: the state of the topic at the last measurement
        self._terminated: Position | None = None
        self._floor: Position | None = None
        self._reader: Reader | None = None  # of all entries, if they are in one ledger
        self._asked: RangeRequest | None = None  # the request that `_told` answers, for the topic as it was then
        self._told = encode_range(ReadableRange(START))
        self._stamps: dict[tuple[int, int], int] = {}  # in the order of their insertion

    async def measure(self, request: RangeRequest) -> EncodedRange:
        self._topic.managed.keep_tail()
        if request.exact:
            return encode_range(await self._exact(request.start))
        if request.settled:
            async with self._topic.trimming:
                pass
        chain = self._topic.managed.chain
        while True:
            last, floor = self._topic.readable, chain.floor
            self._look(last)
            if self._asked is not None and _serves(self._asked, self._told, request):
                return self._told
            try:
                measured_range = encode_range(await self._measure(request))
            except NoSuchLedger:
                if self._topic.closed or chain.floor == floor:
                    raise  # the ledger is only missing for now: the caller tries again
                continue  # trimmed in between: the remaining messages begin later
            if self._last is last:
                self._asked, self._told = request, measured_range
            return measured_range

    def at_once(self, request: RangeRequest) -> EncodedRange | None:
        """The same from memory alone, for a topic of one ledger: a thousand of them are asked in one breath, so calls
        and objects are spared. None: `measure` it."""
        if request.settled or request.exact:
            return None
        start, last = request.start, self._topic.readable
        if last is not self._last or self._reader is None:
            self._look(last)
        before, reader = self._asked, self._reader
        if before is not None and before.start == start and _serves(before, self._told, request):
            return self._told
        if (
            reader is None
            or request.target is not None
            or request.times
            or isinstance(start, int)
            or start == FROM_LATEST
        ):
            return None
        ledger, end = last
        first = 0
        if isinstance(start, ReadPosition) and start != START:
            place, first, row = start
            if place != ledger or row or not 0 <= first <= end:
                return None
        counts = reader.at_once(first, end, request.marks_max)
        if counts is None:
            return None
        skipped, cuts = counts
        behind = cuts.entries[0] - 1  # the last entry before the first mark
        time = self._stamps.get((ledger, behind))
        if time is None:
            time = self._cached(Position(ledger, behind))
            if time is None:
                return None
        measured_range = counted((ledger, first), cuts, skipped, published_ms=time, sealed=self._terminated is not None)
        if not _within(request, measured_range):
            return None
        self._asked, self._told = request, measured_range
        return measured_range

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

    async def _exact(self, target: ReadPosition | str | int) -> ReadableRange:
        """Fenced: another owner was here since, and may know better."""
        if not isinstance(target, ReadPosition):
            raise Misuse("expected a position", asked=target)
        if not self._can_be(target):
            await self._topic.managed.check_current()
            if not self._can_be(target):
                nearest = ReadPosition(*self._topic.managed.clamp(Position(*target[:2])))
                return ReadableRange(nearest, end=nearest)
        return ReadableRange(target, end=target)

    def _can_be(self, place: ReadPosition) -> bool:
        """How many messages a batch has is not looked at."""
        position, chain = Position(*place[:2]), self._topic.managed.chain
        if place.row and not chain.has(position):
            return chain.floor is not None and position <= chain.floor
        return chain.can_be_next(position)

    async def _measure(self, request: RangeRequest) -> ReadableRange:
        topic = self._topic
        chain = topic.managed.chain
        last, sealed = topic.readable, topic.managed.terminated is not None
        end = ReadPosition(last.ledger, last.entry + 1) if last.entry >= 0 else START
        start, lost = await self._start(request.start, end)
        if request.target is not None and request.target != DONE:
            target = Position(*request.target[:2])
            if target <= last:
                last, sealed = chain.before(target), False
                end = ReadPosition(*target)
        first = Position(*start[:2])
        if start >= end or first > last:
            at_end = sealed and start >= end
            return ReadableRange(start, NO_MARKS, at_end, lost, max(start, end))
        limits = Limits(request.messages_max or None, request.bytes_max or None, request.marks_max)
        measurement = await measured(topic.managed, first, last, limits)
        row = min(start.row, measurement.before[0]) if start.row and measurement.before else 0
        if row:
            measurement.before = [messages - row for messages in measurement.before]
        times = await self._times(measurement, len(measurement.ledgers) if request.times else 1)
        whole = bool(measurement.ledgers) and (measurement.ledgers[-1], measurement.entries[-1]) == (
            last.ledger,
            last.entry + 1,
        )
        marks = CutColumns(measurement.ledgers, measurement.entries, measurement.before, measurement.sizes, times)
        return ReadableRange(start, marks, sealed and whole, lost, end, measurement.messages - row, measurement.bytes)

    async def _start(self, target: ReadPosition | str | int, end: ReadPosition) -> tuple[ReadPosition, bool]:
        """Where reading begins, and whether messages before that are gone which the reader has not had."""
        managed = self._topic.managed
        chain = managed.chain
        if target == FROM_LATEST:
            return end, False
        if isinstance(target, int):
            nearest = await managed.find(target)
            return (ReadPosition(*nearest) if nearest.entry >= 0 and nearest <= end[:2] else end), False
        if target in (FROM_START, FROM_EARLIEST) or target == START:
            first = chain.clamp(BEFORE_ALL)
            place = ReadPosition(*first) if chain.has(first) else end
            return place, target != FROM_EARLIEST and chain.floor is not None
        assert isinstance(target, ReadPosition)
        place = target
        position = Position(*place[:2])
        if chain.has(position) or place >= end:
            return place, False
        return ReadPosition(*chain.clamp(position)), chain.floor is not None and position <= chain.floor

    async def _times(self, measurement: Measurement, count: int) -> list[int]:
        """When the last entry before each of the first marks was published."""
        places = zip(measurement.ledgers[:count], measurement.entries[:count], strict=True)
        return [await self._time(Position(ledger, entry - 1)) for ledger, entry in places]

    async def _time(self, position: Position) -> int:
        stamp = self._stamps.get(position)
        if stamp is None:
            stamp = self._cached(position)
        if stamp is not None:
            return stamp
        run = await self._topic.managed.read(position, 1, 1)
        if run is None or run.position(0) != position:
            return 0  # trimmed in between
        return self._stamp(position, run)

    def _cached(self, position: Position) -> int | None:
        """Of an entry that is still in memory: a reader that keeps up asks about new ones each time."""
        run = self._topic.managed.cached(position, 1, 1)
        return None if run is None else self._stamp(position, run)

    def _stamp(self, position: Position, run: Run) -> int:
        stamp = self._stamps[position] = self._topic.managed.config.publish_time_of(run.entry(0))
        while len(self._stamps) > PLAN_STAMPS_MAX:
            del self._stamps[next(iter(self._stamps))]
        return stamp


def _serves(before: RangeRequest, answer: EncodedRange, request: RangeRequest) -> bool:
    """True if the earlier result also answers this request: a limit that was not reached changes nothing."""
    if before is request or before == request:
        return True
    return (
        before.start == request.start
        and before.marks_max == request.marks_max
        and before.times == request.times
        and before.target == request.target
        and _within(before, answer)
        and _within(request, answer)
    )


def _within(request: RangeRequest, answer: EncodedRange) -> bool:
    """Whether all that there is reaches no limit."""
    messages, size = request.messages_max, request.bytes_max
    return (not messages or answer.messages + answer.row < messages) and (not size or answer.bytes < size)
