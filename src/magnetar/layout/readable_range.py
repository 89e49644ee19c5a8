"""How far the segments of a topic can be read, and how much that is: what PLAN answers and a planner of batches takes.

Positions are not dense, so only the owner of a segment can count: it measures from the place that was asked about and
gives marks where a batch may end. Values only; a stretch whose marks do not grow is `Corrupt`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import lt
from typing import NamedTuple

from magnetar.base.errors import Corrupt
from magnetar.base.ids import SegmentId
from magnetar.layout.layout import Layout

NUMBER_MAX = 2**63 - 1


class ReadPosition(NamedTuple):
    """A reader's position in a segment: ledger, entry, index in the batch, all of the next message to read."""

    ledger: int
    entry: int
    row: int = 0

    def __str__(self) -> str:
        if self == DONE:
            return "DONE"
        return f"{self.ledger}:{self.entry}:{self.row}" if self.row else f"{self.ledger}:{self.entry}"


START = ReadPosition(-1, -1)  # before everything, as Pulsar writes "earliest"
DONE = ReadPosition(NUMBER_MAX, NUMBER_MAX, NUMBER_MAX)  # sealed, and read to its end

Places = Mapping[SegmentId, ReadPosition]
Around = Mapping[SegmentId, tuple[int, int]]  # where messages in chunks begin that end at a place or behind it (H-G13)


class CutPoint(NamedTuple):
    """Where a batch may end, not included: what lies between the start of the stretch and here, and when the last of it
    was published (0: not known).
    """

    place: ReadPosition
    messages: int
    bytes: int
    publish_ms: int = 0


class CutColumns(NamedTuple):
    """Marks, by columns: a thousand segments have thousands of them, and most are only passed on."""

    ledgers: list[int]
    entries: list[int]
    messages: list[int]
    bytes: list[int]
    times: list[int]  # of the first ones, as many as are known

    @classmethod
    def of(cls, marks: Sequence[CutPoint]) -> CutColumns:
        return cls(
            [mark.place.ledger for mark in marks],
            [mark.place.entry for mark in marks],
            [mark.messages for mark in marks],
            [mark.bytes for mark in marks],
            [mark.publish_ms for mark in marks],
        )

    def check(self, start: ReadPosition) -> None:
        """Corrupt: they do not grow, or do not agree with each other."""
        if len({len(column) for column in self[:4]}) > 1 or len(self.times) > len(self.ledgers):
            raise Corrupt("the marks of a range must be consecutive entries with equal columns")
        places = [start[:2], *zip(self.ledgers, self.entries, strict=True)]
        grows = all(map(lt, places, places[1:]))
        if not grows or [0, *self.messages] != sorted([0, *self.messages]) or sorted(self.bytes) != self.bytes:
            raise Corrupt("the marks of a range must be in ascending order", start=str(start))


NO_MARKS = CutColumns([], [], [], [], [])


class ReadableRange(NamedTuple):
    """The readable part of one segment. `start` is where reading begins, at or after the requested position; `lost`
    says that messages in between were deleted. `sealed`: the last mark, or the start if there is none, is the final
    end. `end`, `messages` and `bytes` cover everything from the start on; the marks end at the requested limits.
    """

    start: ReadPosition
    columns: CutColumns = NO_MARKS
    sealed: bool = False
    lost: bool = False
    end: ReadPosition = START
    messages: int = 0
    bytes: int = 0

    @property
    def marks(self) -> tuple[CutPoint, ...]:
        """Made at each look."""
        ledgers, entries, messages, sizes, times = self.columns
        unknown = [0] * (len(ledgers) - len(times))
        return tuple(map(CutPoint, map(ReadPosition, ledgers, entries), messages, sizes, [*times, *unknown]))


def released(layout: Layout, places: Places) -> set[SegmentId]:
    """The segments behind a reader at these places: all that came before them. Those that the layout does not list any
    more are left out."""
    segments: set[SegmentId] = set()
    waiting = [parent for id in places if id in layout for parent in layout.segment(id).parents]
    while waiting:
        id = waiting.pop()
        if id not in segments and id not in places:
            segments.add(id)
            waiting.extend(layout.segment(id).parents)
    return segments


def unread(layout: Layout, places: Places) -> list[SegmentId]:
    """The segments ahead of a reader at these places, besides its own, by id."""
    behind = released(layout, places)
    return [one.id for one in layout.segments if one.id not in places and one.id not in behind]


def stands(layout: Layout, places: Places) -> dict[SegmentId, ReadPosition]:
    """Where such a reader stands in every segment that the layout lists: DONE in those behind it, START in those before
    it."""
    behind = released(layout, places)
    return {one.id: places.get(one.id, DONE if one.id in behind else START) for one in layout.segments}


def ahead(layout: Layout, first: Places, second: Places) -> dict[SegmentId, ReadPosition]:
    """The later of two in every segment: places never move back."""
    left, right = stands(layout, first), stands(layout, second)
    return {id: max(place, right[id]) for id, place in left.items()}


def shortened(layout: Layout, everywhere: Places) -> dict[SegmentId, ReadPosition]:
    """The same in few words: without what `stands` says by itself."""
    few: dict[SegmentId, ReadPosition] = {}
    above: set[SegmentId] = set()  # itself, or something that came of it, is named
    for segment in reversed(layout.segments):  # children first: they have higher ids
        place, led = everywhere[segment.id], any(child in above for child in segment.children)
        if place != (DONE if led else START):
            few[segment.id] = place
        if led or segment.id in few:
            above.add(segment.id)
    return {id: few[id] for id in sorted(few)}
