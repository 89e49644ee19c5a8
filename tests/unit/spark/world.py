"""A scalable topic as a few lists: messages with positions, a layout that is split, merged and pruned, retention.

And a query on it, driven by a script of moves, that checks every promise after every batch. Plan and tasks are
parameters, so that a broken planner can be tried: whoever breaks a promise must be caught here.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hypothesis import strategies as st

from magnetar.base.ids import SegmentId
from magnetar.layout import layout as layouts
from magnetar.layout.layout import Layout
from magnetar.layout.lineage import ancestors, removable
from magnetar.layout.readable_range import DONE, START, CutPoint, ReadPosition
from magnetar.layout.routing import Routing, segment_hash
from magnetar.spark.source import planner
from magnetar.spark.source.batch_limits import Limits
from magnetar.spark.source.offset import SourceOffset, parse
from magnetar.spark.source.planner import KeyOrder, Rules
from magnetar.spark.source.readable_range import ReadableRange
from magnetar.spark.source.tasks import SegmentSlice, Task, tasks

KEYS = [None, *(f"k{number}" for number in range(24))]
SLOTS = {key: segment_hash(key, Routing.HIGH16) for key in KEYS if key is not None}
LOWS = {key: segment_hash(key, Routing.LOW16) for key in KEYS if key is not None}

Move = tuple[str, int]
Plan = Callable[..., SourceOffset]
Tasks = Callable[..., tuple[Task, ...]]


class Row(NamedTuple):
    at: ReadPosition
    key: str | None
    number: int  # in the order of publication
    ms: int


@dataclass
class Log:
    rows: list[Row] = field(default_factory=list)
    next: ReadPosition = START
    kept: int = 0  # rows before this one are gone
    sealed: bool = False


@dataclass
class Topic:
    layout: Layout
    logs: dict[SegmentId, Log] = field(default_factory=lambda: defaultdict(Log))
    published: list[Row] = field(default_factory=list)
    ledger: int = 0
    step: int = 1  # rows between marks

    def publish(self, number: int) -> None:
        """A batch of one or more rows as one entry. Some keys are not where their hash says."""
        key = KEYS[number % len(KEYS)]
        stray = key is None or number % 41 == 0
        active = self.layout.active
        one = active[number % len(active)] if stray else self.layout.route(SLOTS[key])
        log = self.logs[one.id]
        if not log.rows or number % 7 == 0:  # a new ledger
            self.ledger += 1 + number % 3
            log.next = ReadPosition(self.ledger, 0)
        same = [key] if stray else [other for other in SLOTS if SLOTS[other] in one.range][: 1 + number % 3]
        for index, other in enumerate(same):
            count = len(self.published)
            row = Row(log.next._replace(row=index), other, count, 1000 + count + number % 4)  # clocks differ
            log.rows.append(row)
            self.published.append(row)
        log.next = ReadPosition(log.next.ledger, log.next.entry + 1)

    def split(self, number: int) -> None:
        one = self.layout.active[number % len(self.layout.active)]
        if len(one.range) > 8 and len(self.layout.active) < 12:
            self._reshape(self.layout.split(one.id, now_ms=0, into=2 + number % 2))

    def merge(self, number: int) -> None:
        active = self.layout.active
        if len(active) > 1:
            place = number % (len(active) - 1)
            self._reshape(self.layout.merge([active[place].id, active[place + 1].id], now_ms=0))

    def prune(self, finished: Callable[[SegmentId], bool]) -> None:
        """The oldest segments that nobody needs any more."""
        for id in removable(self.layout):
            if finished(id):
                self.layout = self.layout.removed(id)

    def trim(self, number: int) -> None:
        """Retention takes the first rows of a segment, whoever needs them."""
        log = self.logs[SegmentId(number % self.layout.next_segment_id)]
        log.kept = max(log.kept, number % (len(log.rows) + 1))

    def stretch(self, id: SegmentId, place: ReadPosition) -> ReadableRange:
        log = self.logs[id]
        after = [row for row in log.rows[log.kept :] if row.at >= place]
        lost = any(row.at >= place for row in log.rows[: log.kept])
        start = after[0].at if after and lost else log.next if lost else place
        ends = [*(row.at for row in after[1:]), log.next]
        marks = [CutPoint(end, count + 1, 10 * (count + 1), after[count].ms) for count, end in enumerate(ends) if after]
        chosen = [mark for mark in marks if mark.messages % self.step == 0 or mark is marks[-1]]
        return ReadableRange(start, tuple(chosen), sealed=log.sealed, lost=lost)

    def stretches(self, frontier: SourceOffset) -> dict[SegmentId, ReadableRange]:
        ids = {one.id for one in self.layout.segments} | set(frontier.places)
        return {id: self.stretch(id, frontier.places.get(id, START)) for id in ids if frontier.places.get(id) != DONE}

    def read(self, piece: SegmentSlice) -> list[Row]:
        """What a task would read: it fails where retention was quicker."""
        log = self.logs[piece.segment]
        rows = [row for row in log.rows if piece.start <= row.at < piece.end]
        assert not [row for row in rows if row in log.rows[: log.kept]], "a read of what is gone"
        if piece.end == DONE:
            assert log.sealed, "read to an end that is none"
        return [row for row in rows if piece.takes(SLOTS.get(row.key or ""), LOWS.get(row.key or "", 0))]

    def _reshape(self, after: Layout) -> None:
        for one in after.segments:
            if not one.is_active:
                self.logs[one.id].sealed = True
        self.layout = after


@dataclass
class Query:
    """A query from the start of a topic; what it has read, and what it must hold."""

    topic: Topic
    rules: Rules
    limits: Limits
    plan: Plan = planner.plan
    tasks: Tasks = tasks
    at: SourceOffset = field(init=False)
    batches: list[tuple[SourceOffset, SourceOffset, tuple[Task, ...], list[list[Row]]]] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)
    newest: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.at = planner.initial(self.topic.layout, {}, topic="topic://a/b/c", life=1)

    def batch(self) -> bool:
        """Plan, move on, read, check. False where there was nothing to read."""
        facts = self.topic.layout, self.topic.stretches(self.at)
        return self.run(self.plan(self.at, *facts, self.limits, rules=self.rules))

    def run(self, end: SourceOffset) -> bool:
        start = self.at
        assert parse(end.text) == end
        planned = self.tasks(start, end, self.topic.layout, rules=self.rules)
        if end.text == start.text:
            assert not planned
            return False
        found = [[row for piece in task.pieces for row in self.topic.read(piece)] for task in planned]
        self._check(start, end, found)
        self.batches.append((start, end, planned, found))
        self.at = end
        return bool(found) or start.initial

    def drain(self) -> None:
        for _ in range(2000):
            if not self.batch():
                return
        raise AssertionError("the query never comes to an end")

    def replay(self) -> None:
        """Every batch whose segments are still there, again: the same tasks, the same rows."""
        for start, end, planned, found in self.batches:
            if all(piece.segment in self.topic.layout for task in planned for piece in task.pieces):
                again = self.tasks(start, end, self.topic.layout, rules=self.rules)
                assert again == planned, "a replay plans other tasks"
                assert [[row for piece in task.pieces for row in self.topic.read(piece)] for task in again] == found

    def _check(self, start: SourceOffset, end: SourceOffset, found: list[list[Row]]) -> None:
        rows = [row for task in found for row in task]
        numbers = [row.number for row in rows]
        assert len(set(numbers)) == len(numbers), "a row twice in a batch"
        assert not self.seen & set(numbers), "a row twice"
        self.seen.update(numbers)
        assert start.grows_to(end)
        if self.limits.messages is not None and len(rows) > self.limits.messages:
            assert len(rows) <= self.topic.step, "more than the limit, and not for the weight of one step"
        assert set(end.places) <= {one.id for one in self.topic.layout.segments} | set(start.places)
        if self.rules.key_order is not KeyOrder.RELAXED:
            self._check_order(found)
            listed = [id for id in end.places if id in self.topic.layout]
            assert not [id for id in listed if ancestors(self.topic.layout, id) & set(listed)], (
                "kept longer than needed"
            )

    def _check_order(self, found: Sequence[list[Row]]) -> None:
        where: dict[str, int] = {}
        for place, task in enumerate(found):
            for row in task:
                if row.key is None or row.number in self.strays:
                    continue
                assert where.setdefault(row.key, place) == place, "a key in two tasks of a batch"
                assert self.newest.get(row.key, -1) < row.number, "a key out of order"
                self.newest[row.key] = row.number

    @property
    def strays(self) -> set[int]:
        """Rows whose key is not where it belongs: nobody promises their order."""
        return {
            row.number
            for id, log in self.topic.logs.items()
            for row in log.rows
            if row.key is not None
            and id in self.topic.layout
            and SLOTS[row.key] not in self.topic.layout.segment(id).range
        }


def finished(query: Query) -> Callable[[SegmentId], bool]:
    """May a segment be pruned as far as the query goes? What it has not read, and what it waits for, is held."""
    after = set(planner.unread(query.topic.layout, query.at.places))
    origin = query.batches[-1][0].places if query.batches else query.at.places
    held = set(planner.unread(query.topic.layout, origin)) | {id for id, place in origin.items() if place != DONE}
    return lambda id: id not in after | held and query.at.places.get(id, DONE) == DONE


def act(query: Query, moves: Sequence[Move]) -> None:
    """A script: the world moves between a plan and its read, too."""
    topic = query.topic
    for move, number in moves:
        if move == "publish":
            for offset in range(number % 9):
                topic.publish(number * 31 + offset * 17)
        elif move == "split":
            topic.split(number)
        elif move == "merge":
            topic.merge(number)
        elif move == "prune":
            topic.prune(finished(query))
        elif move == "stale":  # a layout from before a reshape, or counts from before it
            stretches, before = topic.stretches(query.at), topic.layout
            for offset in range(6):
                topic.publish(number + offset * 5)
            topic.split(number)
            topic.publish(number)
            known = before if number % 2 else topic.layout
            query.run(query.plan(query.at, known, stretches, query.limits, rules=query.rules))
        else:
            query.batch()


def a_topic(segments: int = 2, step: int = 1, buckets: int = 1) -> Topic:
    return Topic(layouts.initial(segments, now_ms=0, buckets=buckets), step=step)


numbers = st.integers(0, 10_000)
weighted = ["publish"] * 6 + ["batch"] * 4 + ["split", "split", "merge", "merge", "prune", "stale"]
scripts = st.lists(st.tuples(st.sampled_from(weighted), numbers), max_size=40)
ordered = st.sampled_from([KeyOrder.CHAIN, KeyOrder.BARRIER])
limits = st.builds(Limits, st.none() | st.integers(1, 30), st.none() | st.integers(1, 300))


def a_script(seed: int, moves: int = 50) -> list[Move]:
    chance = random.Random(seed)
    return [(chance.choice(weighted), chance.randrange(10_000)) for _ in range(moves)]
