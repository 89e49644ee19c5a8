"""How far the next batch goes: from a frontier, the layout and what can be read, to the frontier where the batch ends.

A pure function, about order first: a segment is opened when every segment it came from is read to its end (chain), and
with `barrier` not in the batch that read that end, so that no segment is read twice; `relaxed` opens everything at
once. Limits are shared by backlog, or spent in the order of publish time so that no segment runs ahead. The segment
that has waited longest always moves, whatever its entries weigh: no batch stands still and no segment starves. Where
nothing is read, the start itself is the answer: the same bytes, no batch.
It refuses layouts older than the offset, and data that is gone unless it was told to go on (then the gap is written).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import StrEnum
from heapq import heapify, heappop, heappush

from magnetar.base.errors import Misuse, NotFound, NotReady
from magnetar.base.ids import Epoch, SegmentId
from magnetar.layout.layout import Layout
from magnetar.layout.segment import State
from magnetar.layout.stretch import DONE, NUMBER_MAX, START, Mark, Place, Places, released
from magnetar.spark.frontier import Frontier
from magnetar.spark.stretch import Stretch, Stretches

_NOTHING = Stretch(START)


class KeyOrder(StrEnum):
    CHAIN = "chain"
    BARRIER = "barrier"
    RELAXED = "relaxed"


class Balance(StrEnum):
    BACKLOG = "backlog"
    TIME = "time"


class DataLost(NotFound):
    """Messages that a query has not read are gone."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one batch; None: no limit. With fewer than `messages_min` there is no batch yet."""

    messages: int | None = None
    bytes: int | None = None
    messages_min: int = 0


@dataclass(frozen=True, slots=True)
class Rules:
    """What the options of a query say about its batches."""

    key_order: KeyOrder = KeyOrder.CHAIN
    balance: Balance = Balance.BACKLOG
    fail_on_data_loss: bool = True


DEFAULT = Rules()
UNLIMITED = Limits()


def initial(layout: Layout, found: Places, *, topic: str = "", life: int = 0) -> Frontier:
    """Where a query starts, from the place found in each segment for earliest, latest or a time: DONE where all of a
    sealed one is left out. A segment opens only if all before it are DONE; what comes after is read from its start.
    """
    places: dict[SegmentId, Place] = {}
    for one in layout.segments:  # parents come before their children: ids grow
        if all(places.get(parent) == DONE for parent in one.parents):
            place = found.get(one.id, START)
            if place == DONE and one.is_active:
                raise Misuse("an active segment has no end yet", segment=one.id)
            places[one.id] = place
    unread = [one.id for one in layout.segments if one.id not in places]
    return Frontier(layout.epoch, _kept(places, layout, unread), initial=True, life=life, topic=topic)


def plan(
    start: Frontier, layout: Layout, stretches: Stretches, limits: Limits = UNLIMITED, *, rules: Rules = DEFAULT
) -> Frontier:
    """Where the batch that begins at `start` ends. `stretches` are measured from the places of `start`, those of
    segments after them from their own beginning; one that is not there is not read yet.
    """
    if layout.epoch < start.epoch:
        raise NotReady("the layout is older than the offset: read it again", layout=layout.epoch, offset=start.epoch)
    planning = _Planning(start, layout, stretches, limits, rules)
    planning.settle()
    if rules.balance is Balance.TIME:
        planning.by_time()
    else:
        planning.by_backlog()
    return planning.end()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What there was at one moment: layout and end. A query that wants no more than this plans on it to the end,
    whatever is published or reshaped meanwhile.
    """

    layout: Layout
    target: Frontier

    def plan(self, start: Frontier, stretches: Stretches, limits: Limits, *, rules: Rules = DEFAULT) -> Frontier:
        ends = {**dict.fromkeys(unread(self.layout, self.target.places), START), **self.target.places}
        clipped = {id: one.until(ends.get(id, DONE)) for id, one in stretches.items()}
        return plan(start, self.layout, clipped, limits, rules=rules)


def snapshot(start: Frontier, layout: Layout, stretches: Stretches, *, rules: Rules = DEFAULT) -> Snapshot:
    """All that can be read now, for Trigger.AvailableNow. `start` is where the query stands; the barrier is for its
    batches, not for their sum.
    """
    order = KeyOrder.RELAXED if rules.key_order is KeyOrder.RELAXED else KeyOrder.CHAIN
    return Snapshot(layout, plan(start, layout, stretches, rules=replace(rules, key_order=order)))


def unread(layout: Layout, places: Places) -> list[SegmentId]:
    """The segments that come after a frontier, by id: neither in it, nor before anything in it. One without parents
    can be there only because a segment of the frontier is gone from the layout, and its children forgot it.
    """
    behind = released(layout, places)
    after = [one.id for one in layout.segments if one.id not in places and one.id not in behind]
    orphan = next((id for id in after if not layout.segment(id).parents), None)
    if orphan is not None and all(id in layout for id in places):
        raise Misuse(
            "the offset does not fit the topic: was it deleted and made again? Start with a new checkpointLocation",
            segment=orphan,
        )
    return after


class _Planning:
    def __init__(self, start: Frontier, layout: Layout, stretches: Stretches, limits: Limits, rules: Rules) -> None:
        self._start = start
        self._layout = layout
        self._stretches = stretches
        self._limits = limits
        self._rules = rules
        self._places: dict[SegmentId, Place] = {}
        self._gaps: dict[SegmentId, tuple[Place, Place]] = {}
        self._taken: dict[SegmentId, int] = {}  # marks, of segments that can be read
        self._gave: set[SegmentId] = set()  # segments with rows in this batch
        self._unread = dict.fromkeys(unread(layout, start.places))  # by id
        self._messages = 0
        self._bytes = 0
        for id in sorted(start.places):
            self._enter(id, start.places[id])

    def end(self) -> Frontier:
        start = self._start
        if not self._gaps and self._messages < max(1, self._limits.messages_min):
            return replace(start, initial=False, origin=start.places) if start.initial else start
        return Frontier(
            Epoch(max(start.epoch, self._layout.epoch)),
            _kept(self._places, self._layout, self._unread),
            origin=start.places if start.initial else None,
            gaps=self._gaps,
            life=start.life,
            topic=start.topic,
        )

    def settle(self) -> list[SegmentId]:
        """Segments read to their end are done, and what waited for them opens: which ones did."""
        opened: list[SegmentId] = []
        while True:
            for id, taken in self._taken.items():
                if self._stretch(id).sealed and taken == len(self._stretch(id).marks):
                    self._places[id] = DONE
            ready = [id for id in self._unread if self._opens(id)]
            if not ready:
                return opened
            for id in ready:
                del self._unread[id]
                self._enter(id, START)
            opened += ready

    def by_backlog(self) -> None:
        """The oldest first, then shares, then what rounding left over; again for what opens behind what is done."""
        while waiting := self._waiting():
            if not self._messages:
                self._force(min(waiting, key=self._age))
            self._share(waiting)
            for id in sorted(waiting, key=self._age):
                self._take(id, self._room(id, self._left()))
            if not self.settle() and self._messages:
                return

    def by_time(self) -> None:
        """The oldest mark of all, again and again: no segment runs ahead in publish time."""
        queue = [(self._age(id), id) for id in self._waiting()]
        heapify(queue)
        while queue:
            id = heappop(queue)[1]
            if not self._messages:
                self._force(id)
            elif self._room(id, self._left()) > self._taken[id]:
                self._take(id, self._taken[id] + 1)
            else:
                return
            fresh = self.settle() if self._taken[id] == len(self._stretch(id).marks) else [id]
            for one in fresh:
                if self._taken.get(one, 0) < len(self._stretch(one).marks):
                    heappush(queue, (self._age(one), one))

    # What may be read

    def _enter(self, id: SegmentId, place: Place) -> None:
        """A segment of the frontier, or one that has just been opened."""
        self._places[id] = place
        if place == DONE:
            return
        if id not in self._layout or self._layout.segment(id).state is State.PRUNING:
            self._skip(id, place, DONE)
            return
        stretch = self._stretch(id)
        if stretch.lost and stretch.start > place:
            self._skip(id, place, stretch.start)
        self._taken[id] = 0

    def _skip(self, id: SegmentId, place: Place, to: Place) -> None:
        if self._rules.fail_on_data_loss:
            raise DataLost(
                "messages that the query has not read are gone: raise the topic's retention, or set failOnDataLoss to "
                "false to go on without them",
                segment=id,
                position=str(place),
                next=str(to),
            )
        self._gaps[id] = (place, to)
        self._places[id] = to

    def _opens(self, id: SegmentId) -> bool:
        if self._rules.key_order is KeyOrder.RELAXED:
            return True
        parents = self._layout.segment(id).parents
        barred = self._rules.key_order is KeyOrder.BARRIER and any(parent in self._gave for parent in parents)
        return not barred and all(self._over(parent) for parent in parents)

    def _over(self, id: SegmentId) -> bool:
        """Read to its end: in this frontier, or long ago."""
        return self._places[id] == DONE if id in self._places else id not in self._unread

    def _waiting(self) -> list[SegmentId]:
        """Segments of which there is more, by id."""
        return sorted(id for id, taken in self._taken.items() if taken < len(self._stretch(id).marks))

    def _stretch(self, id: SegmentId) -> Stretch:
        return self._stretches.get(id, _NOTHING)

    # How much of it

    def _at(self, id: SegmentId) -> Mark:
        stretch, taken = self._stretch(id), self._taken[id]
        return stretch.marks[taken - 1] if taken else Mark(stretch.start, 0, 0)

    def _age(self, id: SegmentId) -> tuple[int, SegmentId]:
        """When what comes next was published; nothing is younger than all."""
        marks, taken = self._stretch(id).marks, self._taken[id]
        return marks[taken].publish_ms if taken < len(marks) else NUMBER_MAX, id

    def _left(self) -> tuple[int | None, int | None]:
        messages, bytes = self._limits.messages, self._limits.bytes
        return (
            None if messages is None else max(0, messages - self._messages),
            None if bytes is None else max(0, bytes - self._bytes),
        )

    def _room(self, id: SegmentId, left: tuple[int | None, int | None]) -> int:
        """How many marks of a segment fit."""
        marks, at = self._stretch(id).marks, self._at(id)
        count = len(marks)
        if left[0] is not None:
            count = min(count, bisect_right(marks, at.messages + left[0], key=_messages))
        if left[1] is not None:
            count = min(count, bisect_right(marks, at.bytes + left[1], key=_bytes))
        return count

    def _share(self, waiting: list[SegmentId]) -> None:
        messages, bytes = self._left()
        ends = {id: self._stretch(id).marks[-1] for id in waiting}
        at = {id: self._at(id) for id in waiting}
        all_messages = sum(ends[id].messages - at[id].messages for id in waiting) or 1
        all_bytes = sum(ends[id].bytes - at[id].bytes for id in waiting) or 1
        for id in waiting:
            share_messages = (
                None if messages is None else messages * (ends[id].messages - at[id].messages) // all_messages
            )
            share_bytes = None if bytes is None else bytes * (ends[id].bytes - at[id].bytes) // all_bytes
            self._take(id, self._room(id, (share_messages, share_bytes)))

    def _force(self, id: SegmentId) -> None:
        """At least one message of it, whatever the limits say: an entry may be larger than they are."""
        marks = self._stretch(id).marks
        self._take(id, min(bisect_right(marks, self._at(id).messages, key=_messages) + 1, len(marks)))

    def _take(self, id: SegmentId, count: int) -> None:
        if count <= self._taken[id]:
            return
        before, after = self._at(id), self._stretch(id).marks[count - 1]
        self._taken[id] = count
        self._places[id] = after.place
        self._messages += after.messages - before.messages
        self._bytes += after.bytes - before.bytes
        if after.messages > before.messages:
            self._gave.add(id)


def _kept(places: dict[SegmentId, Place], layout: Layout, unread: Collection[SegmentId]) -> Places:
    """Without the segments that are done and that nobody waits for any more: all that came of them is open. Of one
    that is gone from the layout the children are not known: it stays while anything younger is unread.
    """

    def waited_for(id: SegmentId) -> bool:
        if id not in layout:
            return any(one > id for one in unread)
        children = layout.segment(id).children
        return not children or any(child in unread for child in children)

    return {id: place for id, place in places.items() if place != DONE or waited_for(id)}


def _messages(mark: Mark) -> int:
    return mark.messages


def _bytes(mark: Mark) -> int:
    return mark.bytes
