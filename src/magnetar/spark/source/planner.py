"""Computes the end of the next batch from a frontier, the layout and the readable ranges.

A pure function. Order comes first: a segment opens only after all its ancestors are read to the end (chain). With
`barrier`, it does not open in the batch that reads that end, so that no segment is read twice. `relaxed` opens all
segments immediately. Limits are shared by backlog, or used in the order of publish time so that segments advance
evenly. Topics of one query share the limits equally; an unused part goes to the others. The segment that has waited
longest always advances, even if its entries are large: every batch makes progress and no segment starves. If no
messages can be read, the result is the start itself: the same bytes, no batch. It rejects layouts older than the
offset, and deleted data unless the options tolerate it (then it writes the gap).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from heapq import heapify, heappop, heappush

from magnetar.base.errors import Misuse, NotFound, NotReady
from magnetar.base.ids import Epoch, SegmentId
from magnetar.layout.layout import Layout
from magnetar.layout.readable_range import DONE, NUMBER_MAX, START, CutPoint, Places, ReadPosition, released
from magnetar.layout.segment import State
from magnetar.spark.source.batch_limits import UNLIMITED, Budget, Limits, fair_shares
from magnetar.spark.source.offset import Cuts, SourceOffset
from magnetar.spark.source.readable_range import ReadableRange, Stretches

_NOTHING = ReadableRange(START)


class KeyOrder(StrEnum):
    CHAIN = "chain"
    BARRIER = "barrier"
    RELAXED = "relaxed"


class Balance(StrEnum):
    BACKLOG = "backlog"
    TIME = "time"


class DataLost(NotFound):
    """Messages that a query has not read were deleted."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The options of a query that affect its batches."""

    key_order: KeyOrder = KeyOrder.CHAIN
    balance: Balance = Balance.BACKLOG
    fail_on_data_loss: bool = True
    partitions_min: int = 0  # minimum number of tasks of a batch, if its data allows it


DEFAULT = Rules()


def initial(layout: Layout, starts: Places, *, topic: str = "", life: int = 0) -> SourceOffset:
    """The start of a query, from the position in each segment for earliest, latest or a time: DONE if a sealed segment
    is skipped entirely. A segment opens only if all its ancestors are DONE; later segments are read from their start.
    """
    places: dict[SegmentId, ReadPosition] = {}
    for segment in layout.segments:  # parents precede their children: ids increase
        if all(places.get(parent) == DONE for parent in segment.parents):
            place = starts.get(segment.id, START)
            if place == DONE and segment.is_active:
                raise Misuse("the result for an active segment must not be its end", segment=segment.id)
            places[segment.id] = place
    unread = [segment.id for segment in layout.segments if segment.id not in places]
    return SourceOffset(layout.epoch, _kept(places, layout, unread), initial=True, life=life, topic=topic)


def plan(
    start: SourceOffset, layout: Layout, stretches: Stretches, limits: Limits = UNLIMITED, *, rules: Rules = DEFAULT
) -> SourceOffset:
    """The end of the batch that begins at `start`. `stretches` are measured from the positions of `start`, and for
    later segments from their beginning. A segment without a stretch is not read yet.
    """
    return plan_together([Reading(start, layout, stretches, rules)], limits)[0]


@dataclass(frozen=True, slots=True)
class Reading:
    """One topic of a query before a batch."""

    start: SourceOffset
    layout: Layout
    stretches: Stretches
    rules: Rules = DEFAULT


def plan_together(readings: Sequence[Reading], limits: Limits = UNLIMITED) -> list[SourceOffset]:
    """The end of one batch in each of several topics; the limits apply to the whole batch."""
    for reading in readings:
        if reading.layout.epoch < reading.start.epoch:
            raise NotReady(
                "the layout is older than the offset: read it again",
                layout=reading.layout.epoch,
                offset=reading.start.epoch,
            )
    budget = Budget(limits)
    planned = [_Planning(reading, budget) for reading in readings]
    for part in planned:
        part.settle()
    if any(reading.rules.balance is Balance.TIME for reading in readings):
        _by_time(planned, budget)
    else:
        _by_backlog(planned, budget)
    return [part.end() for part in planned]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Layout and end of a topic at one moment. A query with a fixed end plans all batches on it, and ignores later
    messages and reshapes.
    """

    layout: Layout
    target: SourceOffset

    def plan(
        self, start: SourceOffset, stretches: Stretches, limits: Limits, *, rules: Rules = DEFAULT
    ) -> SourceOffset:
        return plan_together([self.reading(start, stretches, rules)], limits)[0]

    def reading(self, start: SourceOffset, stretches: Stretches, rules: Rules = DEFAULT) -> Reading:
        """The planning input for a batch of the remaining messages."""
        ends = {**dict.fromkeys(unread(self.layout, self.target.places), START), **self.target.places}
        clipped = {id: one.until(ends.get(id, DONE)) for id, one in stretches.items()}
        return Reading(start, self.layout, clipped, rules)


def snapshot(start: SourceOffset, layout: Layout, stretches: Stretches, *, rules: Rules = DEFAULT) -> Snapshot:
    """All currently readable messages, for Trigger.AvailableNow. `start` is the position of the query. The barrier
    applies to its batches, not to their sum.
    """
    order = KeyOrder.RELAXED if rules.key_order is KeyOrder.RELAXED else KeyOrder.CHAIN
    return Snapshot(layout, plan(start, layout, stretches, rules=replace(rules, key_order=order)))


def unread(layout: Layout, places: Places) -> list[SegmentId]:
    """The segments after a frontier, by id: neither in it nor ancestors of it. A segment without parents belongs to
    them only if a segment of the frontier was removed from the layout, and its children lost their parent.
    """
    behind = released(layout, places)
    after = [one.id for one in layout.segments if one.id not in places and one.id not in behind]
    orphan = next((id for id in after if not layout.segment(id).parents), None)
    if orphan is not None and all(id in layout for id in places):
        raise Misuse(
            "the offset does not fit the topic: it was probably deleted and recreated. Set a new checkpointLocation",
            segment=orphan,
        )
    return after


def _by_backlog(planned: Sequence[_Planning], budget: Budget) -> None:
    """First the oldest segment, then equal shares, then the rounding rest; repeated for segments that open."""
    while waiting := [(part, id) for part in planned for id in part.waiting()]:
        if not budget.messages:
            part, id = min(waiting, key=_age)
            part.force(id)
        _share(planned, budget)
        for part, id in sorted(waiting, key=_age):
            part.take(id, part.room(id, budget.left()))
        opened = [part.settle() for part in planned]
        if not any(opened) and budget.messages:
            return


def _by_time(planned: Sequence[_Planning], budget: Budget) -> None:
    """Takes the oldest mark of all segments repeatedly: segments advance evenly in publish time."""
    queue = [(part.age(id), number, id) for number, part in enumerate(planned) for id in part.waiting()]
    heapify(queue)
    while queue:
        _, number, id = heappop(queue)
        part = planned[number]
        if not budget.messages:
            part.force(id)
        elif not part.take_one(id):
            return
        for child in part.next(id):
            heappush(queue, (part.age(child), number, child))


def _share(planned: Sequence[_Planning], budget: Budget) -> None:
    """Divides the remaining limits among topics, and within a topic among segments by backlog."""
    waits = [part.backlog() for part in planned]
    messages, bytes = budget.left()
    quotas = zip(
        fair_shares([one[0] for one in waits], messages), fair_shares([one[1] for one in waits], bytes), strict=True
    )
    for part, quota in zip(planned, quotas, strict=True):
        part.share(quota)


def _age(waiting: tuple[_Planning, SegmentId]) -> tuple[int, SegmentId]:
    return waiting[0].age(waiting[1])


class _Planning:
    """One topic of the batch."""

    def __init__(self, reading: Reading, budget: Budget) -> None:
        self._start = start = reading.start
        self._layout = reading.layout
        self._stretches = reading.stretches
        self._rules = reading.rules
        self._budget = budget
        self._places: dict[SegmentId, ReadPosition] = {}
        self._gaps: dict[SegmentId, tuple[ReadPosition, ReadPosition]] = {}
        self._taken: dict[SegmentId, int] = {}  # marks taken from readable segments
        self._gave: set[SegmentId] = set()  # segments with rows in this batch
        self._unread = dict.fromkeys(unread(self._layout, start.places))  # by id
        self._messages = 0
        for id in sorted(start.places):
            self._enter(id, start.places[id])

    def end(self) -> SourceOffset:
        start = self._start
        due = self._messages and self._budget.messages >= self._budget.limits.messages_min
        if not self._gaps and not due:
            return replace(start, initial=False, origin=start.places) if start.initial else start
        return SourceOffset(
            Epoch(max(start.epoch, self._layout.epoch)),
            _kept(self._places, self._layout, self._unread),
            origin=start.places if start.initial else None,
            gaps=self._gaps,
            life=start.life,
            topic=start.topic,
            cuts=self._cuts(),
        )

    def settle(self) -> list[SegmentId]:
        """Marks segments that are read to the end as done and opens their successors; returns the opened ones."""
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

    def next(self, id: SegmentId) -> list[SegmentId]:
        """The segments that are readable after a step: the rest of this one, or those that it opened."""
        fresh = self.settle() if self._taken[id] == len(self._stretch(id).marks) else [id]
        return [one for one in fresh if self._taken.get(one, 0) < len(self._stretch(one).marks)]

    def waiting(self) -> list[SegmentId]:
        """Segments with more messages, by id."""
        return sorted(id for id, taken in self._taken.items() if taken < len(self._stretch(id).marks))

    def backlog(self) -> tuple[int, int]:
        """Messages and bytes that remain in open segments."""
        ends = [(self._stretch(id).marks[-1], self._at(id)) for id in self.waiting()]
        return sum(end.messages - at.messages for end, at in ends), sum(end.bytes - at.bytes for end, at in ends)

    def _cuts(self) -> Cuts:
        """Task boundaries inside segments, so that the batch has enough tasks with about equal numbers of messages."""
        partitions, most = self._rules.partitions_min, self._budget.messages
        if not partitions or self._rules.key_order is not KeyOrder.RELAXED:
            return {}
        by_segment: dict[SegmentId, tuple[ReadPosition, ...]] = {}
        for id in sorted(self._gave):
            marks, taken = self._stretch(id).marks, self._taken[id]
            count = marks[taken - 1].messages
            parts = -(-partitions * count // most)
            places = [bisect_left(marks, count * part // parts, hi=taken, key=_messages) for part in range(1, parts)]
            cuts = tuple(marks[at].place for at in dict.fromkeys(places) if at < taken - 1)
            if cuts:
                by_segment[id] = cuts
        return by_segment

    # What may be read

    def _enter(self, id: SegmentId, place: ReadPosition) -> None:
        """Opens a segment of the frontier, or a successor."""
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

    def _skip(self, id: SegmentId, place: ReadPosition, to: ReadPosition) -> None:
        if self._rules.fail_on_data_loss:
            raise DataLost(
                "messages that the query has not read were deleted: increase the topic's retention, or set "
                "failOnDataLoss to false to continue without them",
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
        """Whether the segment is read to its end, in this frontier or earlier."""
        return self._places[id] == DONE if id in self._places else id not in self._unread

    def _stretch(self, id: SegmentId) -> ReadableRange:
        return self._stretches.get(id, _NOTHING)

    # How much of it

    def _at(self, id: SegmentId) -> CutPoint:
        stretch, taken = self._stretch(id), self._taken[id]
        return stretch.marks[taken - 1] if taken else CutPoint(stretch.start, 0, 0)

    def age(self, id: SegmentId) -> tuple[int, SegmentId]:
        """The publish time of the next message; a segment without messages sorts last."""
        marks, taken = self._stretch(id).marks, self._taken[id]
        return marks[taken].publish_ms if taken < len(marks) else NUMBER_MAX, id

    def room(self, id: SegmentId, left: tuple[int | None, int | None]) -> int:
        """The number of marks of a segment within the limits."""
        marks, at = self._stretch(id).marks, self._at(id)
        count = len(marks)
        if left[0] is not None:
            count = min(count, bisect_right(marks, at.messages + left[0], key=_messages))
        if left[1] is not None:
            count = min(count, bisect_right(marks, at.bytes + left[1], key=_bytes))
        return count

    def share(self, quota: tuple[int | None, int | None]) -> None:
        """Distributes this topic's share to its segments by their backlog."""
        messages, bytes = quota
        waiting = self.waiting()
        all_messages, all_bytes = self.backlog()
        ends = {id: self._stretch(id).marks[-1] for id in waiting}
        at = {id: self._at(id) for id in waiting}
        for id in waiting:
            share_messages = (
                None if messages is None else messages * (ends[id].messages - at[id].messages) // (all_messages or 1)
            )
            share_bytes = None if bytes is None else bytes * (ends[id].bytes - at[id].bytes) // (all_bytes or 1)
            self.take(id, self.room(id, (share_messages, share_bytes)))

    def force(self, id: SegmentId) -> None:
        """Takes at least one message, regardless of the limits: an entry may exceed them."""
        marks = self._stretch(id).marks
        self.take(id, min(bisect_right(marks, self._at(id).messages, key=_messages) + 1, len(marks)))

    def take_one(self, id: SegmentId) -> bool:
        """Takes the next mark if it is within the limits."""
        if self.room(id, self._budget.left()) <= self._taken[id]:
            return False
        self.take(id, self._taken[id] + 1)
        return True

    def take(self, id: SegmentId, count: int) -> None:
        if count <= self._taken[id]:
            return
        before, after = self._at(id), self._stretch(id).marks[count - 1]
        self._taken[id] = count
        self._places[id] = after.place
        self._messages += after.messages - before.messages
        self._budget.messages += after.messages - before.messages
        self._budget.bytes += after.bytes - before.bytes
        if after.messages > before.messages:
            self._gave.add(id)


def _kept(places: dict[SegmentId, ReadPosition], layout: Layout, unread: Collection[SegmentId]) -> Places:
    """Without done segments that no other segment waits for: all their children are open. If a segment was removed from
    the layout, its children are unknown: it stays while any newer segment is unread.
    """

    def waited_for(id: SegmentId) -> bool:
        if id not in layout:
            return any(one > id for one in unread)
        children = layout.segment(id).children
        return not children or any(child in unread for child in children)

    return {id: place for id, place in places.items() if place != DONE or waited_for(id)}


def _messages(mark: CutPoint) -> int:
    return mark.messages


def _bytes(mark: CutPoint) -> int:
    return mark.bytes
