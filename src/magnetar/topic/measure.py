"""What a topic can give to a reader that stands somewhere: the owner's half of PLAN.

Resolves where the reader begins (a place, the beginning, the end, a publish time), says what is gone before that, and
measures from there. Publish times at marks are read from the entries and remembered, a bounded number of them: they are
facts of the entries and can always be read again. Reads only; a place that is not of this topic is read as a place
between its entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from magnetar.base.errors import Misuse, NoSuchLedger
from magnetar.base.ids import BEFORE_ALL, Position
from magnetar.base.limits import PLAN_SEGMENT_MARKS_MAX, PLAN_STAMPS_MAX
from magnetar.layout.stretch import DONE, NO_MARKS, START, Columns, Place, Stretch
from magnetar.ledger.measuring import Limits, Measured, at_once, measured
from magnetar.ledger.run import Run

if TYPE_CHECKING:
    from magnetar.topic.topic import Topic

FROM_START = "start"  # the first message that was ever there
FROM_EARLIEST = "earliest"  # the first that is still there
FROM_LATEST = "latest"  # behind the last


class Asked(msgspec.Struct, frozen=True, omit_defaults=True):
    """`start`: where the reader stands, one of the words above, or milliseconds of a publish time. `target`: nothing at
    or behind it is measured. 0: no limit."""

    start: Place | str | int
    target: Place | None = None
    messages_max: int = 0
    bytes_max: int = 0
    marks_max: int = PLAN_SEGMENT_MARKS_MAX
    times: bool = False  # of every mark, not only of the first
    settled: bool = False  # after a trim that is under way: what it takes is told as gone
    exact: bool = False  # only whether such a place can be: what is told starts there then, and elsewhere if not


class _Said(NamedTuple):
    """The answer to what was asked last, and what it was told of."""

    asked: Asked
    last: Position
    terminated: Position | None
    floor: Position | None
    told: Stretch


class Meter:
    """One for each topic."""

    __slots__ = ("_said", "_stamps", "_topic")

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self._said: _Said | None = None  # a query that waits asks the same again and again, or with other limits
        self._stamps: dict[tuple[int, int], int] = {}  # in the order they came

    async def measure(self, asked: Asked) -> Stretch:
        if asked.exact:
            return await self._exact(asked.start)
        if asked.settled:
            async with self._topic.trimming:
                pass
        managed = self._topic.managed
        while True:
            said = self._said
            last, terminated, floor = self._topic.readable, managed.terminated, managed.chain.floor
            if said is not None and said[1:4] == (last, terminated, floor) and _serves(said.asked, said.told, asked):
                return said.told
            try:
                told = await self._measure(asked)
            except NoSuchLedger:
                if self._topic.closed or managed.chain.floor == floor:
                    raise  # it is not gone for good: whoever asked tries again
                continue  # trimmed meanwhile: what is left begins later
            self._said = _Said(asked, last, terminated, floor, told)
            return told

    def at_once(self, asked: Asked) -> Stretch | None:
        """The same from memory alone, for a topic of one ledger: a thousand of them are asked in one breath. None:
        `measure` it."""
        if asked.settled or asked.exact:
            return None
        managed = self._topic.managed
        chain, last, terminated = managed.chain, self._topic.readable, managed.terminated
        said, floor = self._said, chain.floor
        if (
            said is not None
            and said.last == last
            and said.terminated == terminated
            and said.floor == floor
            and _serves(said.asked, said.told, asked)
        ):
            return said.told
        start = asked.start
        ledger, end = last
        if (
            len(chain.links) != 1
            or floor is not None
            or end < 0
            or asked.target is not None
            or asked.times
            or isinstance(start, int)
            or start == FROM_LATEST
        ):
            return None
        first = Place(ledger, 0) if isinstance(start, str) or start == START else start
        if first.ledger != ledger or first.row or not 0 <= first.entry <= end:
            return None
        cuts = at_once(managed, first.entry, last, asked.marks_max)
        if cuts is None:
            return None
        entries, messages, sizes = cuts
        time = self._stamps.get((ledger, entries[0] - 1))
        if time is None:
            time = self._cached(Position(ledger, entries[0] - 1))
            if time is None:
                return None
        marks = Columns([ledger] * len(entries), entries, messages, sizes, [time])
        told = Stretch(first, marks, terminated is not None, False, Place(ledger, end + 1), messages[-1], sizes[-1])
        if not _within(asked, told):
            return None
        self._said = _Said(asked, last, terminated, floor, told)
        return told

    async def _exact(self, asked: Place | str | int) -> Stretch:
        """Fenced: another owner was here since, and may know better."""
        if not isinstance(asked, Place):
            raise Misuse("only a place can be looked for", asked=asked)
        if not self._can_be(asked):
            await self._topic.managed.check_current()
            if not self._can_be(asked):
                nearest = Place(*self._topic.managed.clamp(Position(*asked[:2])))
                return Stretch(nearest, end=nearest)
        return Stretch(asked, end=asked)

    def _can_be(self, place: Place) -> bool:
        """How many messages a batch has is not looked at."""
        position, chain = Position(*place[:2]), self._topic.managed.chain
        if place.row and not chain.has(position):
            return chain.floor is not None and position <= chain.floor
        return chain.can_be_next(position)

    async def _measure(self, asked: Asked) -> Stretch:
        topic = self._topic
        chain = topic.managed.chain
        last, sealed = topic.readable, topic.managed.terminated is not None
        end = Place(last.ledger, last.entry + 1) if last.entry >= 0 else START
        start, lost = await self._start(asked.start, end)
        if asked.target is not None and asked.target != DONE:
            target = Position(*asked.target[:2])
            if target <= last:
                last, sealed = chain.before(target), False
                end = Place(*target)
        first = Position(*start[:2])
        if start >= end or first > last:
            at_end = sealed and start >= end
            return Stretch(start, NO_MARKS, at_end, lost, max(start, end))
        limits = Limits(asked.messages_max or None, asked.bytes_max or None, asked.marks_max)
        found = await measured(topic.managed, first, last, limits)
        row = min(start.row, found.before[0]) if start.row and found.before else 0
        if row:
            found.before = [messages - row for messages in found.before]
        times = await self._times(found, len(found.ledgers) if asked.times else 1)
        whole = bool(found.ledgers) and (found.ledgers[-1], found.entries[-1]) == (last.ledger, last.entry + 1)
        marks = Columns(found.ledgers, found.entries, found.before, found.sizes, times)
        return Stretch(start, marks, sealed and whole, lost, end, found.messages - row, found.bytes)

    async def _start(self, asked: Place | str | int, end: Place) -> tuple[Place, bool]:
        """Where reading begins, and whether messages before that are gone which the reader has not had."""
        managed = self._topic.managed
        chain = managed.chain
        if asked == FROM_LATEST:
            return end, False
        if isinstance(asked, int):
            found = await managed.find(asked)
            return (Place(*found) if found.entry >= 0 and found <= end[:2] else end), False
        if asked in (FROM_START, FROM_EARLIEST) or asked == START:
            first = chain.clamp(BEFORE_ALL)
            place = Place(*first) if chain.has(first) else end
            return place, asked != FROM_EARLIEST and chain.floor is not None
        assert isinstance(asked, Place)
        place = asked
        position = Position(*place[:2])
        if chain.has(position) or place >= end:
            return place, False
        return Place(*chain.clamp(position)), chain.floor is not None and position <= chain.floor

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
            return 0  # trimmed meanwhile
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


def _serves(before: Asked, told: Stretch, asked: Asked) -> bool:
    """Whether what was told is the answer to this too: a limit that is not reached changes nothing."""
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


def _within(asked: Asked, told: Stretch) -> bool:
    """Whether all that there is reaches no limit."""
    messages, size = asked.messages_max, asked.bytes_max
    return (not messages or told.messages + told.start.row < messages) and (not size or told.bytes < size)
