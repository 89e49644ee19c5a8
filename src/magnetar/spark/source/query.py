"""The state of one query, between Spark's calls and the server's facts: its start, the end of the next batch, and the
ranges of its tasks.

Spark may call again after any crash. The end of the first batch contains the start, and the two offsets of a planned
batch determine it completely; no other state is stored. It knows neither PySpark nor sockets. It trusts `facts`, and
rejects offsets of another topic or of another incarnation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from magnetar.base.limits import SPARK_IDLE_ASK_S, SPARK_IDLE_S
from magnetar.base.names import topic_name
from magnetar.layout.layout import Layout
from magnetar.layout.readable_range import DONE
from magnetar.spark.progress.report import Report, behind
from magnetar.spark.source import multi_offset
from magnetar.spark.source.batch_limits import UNLIMITED, Limits
from magnetar.spark.source.multi_offset import Offset
from magnetar.spark.source.offset import SourceOffset, from_document
from magnetar.spark.source.options import AtTime, CursorAdvance, Extreme, SourceOptions, Where
from magnetar.spark.source.planner import DataLost, KeyOrder, Reading, Rules, Snapshot, initial, plan_together, snapshot
from magnetar.spark.source.tasks import Task, tasks
from magnetar.spark.source.topic_info import TopicInfo, TopicSnapshot
from magnetar.spark.source.topic_layout import TopicLayout


@dataclass(frozen=True, slots=True)
class ReadTask:
    """The ranges of one Spark task, on any machine."""

    url: str
    topic: str
    task: Task
    topics: tuple[str, ...]  # the topics of the segments that the task reads
    routing: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """A topic before a batch is planned: `reading` begins at `given`, plus added partitions."""

    given: SourceOffset
    reading: Reading


class AnyQuery(Protocol):
    """The interface for Spark's calls, for one topic or several. Only the query interprets its offsets."""

    def offset(self, document: object) -> Any: ...

    async def start(self) -> Any: ...

    def freeze(self) -> None: ...

    async def latest(self, start: Any, /, *, unlimited: bool = False) -> Any: ...

    async def report(self) -> Any: ...

    async def tasks(self, start: Any, end: Any) -> list[ReadTask]: ...

    async def committed(self, end: Any) -> None: ...

    async def whole(self) -> list[ReadTask]: ...

    async def close(self) -> None: ...


class Query:
    """`clock` returns monotonic seconds; `tell` shows a warning to the user."""

    def __init__(
        self,
        options: SourceOptions,
        facts: TopicInfo,
        clock: Callable[[], float],
        tell: Callable[[str], None] = lambda warning: None,
    ) -> None:
        self._options = options
        self._topic_info = facts
        self._clock = clock
        self._tell = tell
        self._initial: SourceOffset | None = None
        self._planned = clock()  # time of the last batch
        self._available_now = False
        self._snapshot: Snapshot | None = None
        self._survey: tuple[SourceOffset, TopicSnapshot] | None = None  # the newest survey of the topic
        self._ends: SourceOffset | None = None  # end of the batch that was planned with it

    async def start(self) -> SourceOffset:
        """The start of a new query. Spark calls this twice and must get the same result."""
        if self._initial is None:
            self._initial = await self._found(self._options.starting)
            await self._topic_info.hold(self._initial)
        return self._initial

    def freeze(self) -> None:
        """Limits the query to the current messages, for Trigger.AvailableNow."""
        self._available_now = True
        self._snapshot = None

    async def latest(self, start: SourceOffset, *, unlimited: bool = False) -> SourceOffset:
        """The end of the batch that begins at `start`; `start` itself if no new messages exist."""
        await self.enter(start)
        until = self._clock() + SPARK_IDLE_S
        while True:
            end = await self._end(start, UNLIMITED if unlimited else self._options.limits)
            if end is not start or self._available_now or self._clock() >= until:
                break
            await asyncio.sleep(SPARK_IDLE_ASK_S)
        if end is not start:
            self._planned = self._clock()
            self.moved(end)
        return end

    async def enter(self, start: SourceOffset) -> None:
        """Begins a batch here: everything before it is finished."""
        self._survey = self._ends = None
        await self._belongs(start)
        if self._options.cursor_advance is CursorAdvance.EAGER and not start.initial:
            await self._topic_info.hold(start)

    def offset(self, document: object) -> SourceOffset:
        """The offset from Spark."""
        return (
            multi_offset.from_document(document).only()
            if multi_offset.is_several(document)
            else from_document(document)
        )

    async def report(self) -> Report | None:
        """The end of the topic, and the lag between the end of the batch and it."""
        if self._survey is None:
            return None
        start, survey = self._survey
        left = behind(survey.stretches)
        if self._ends is not None:
            start = survey.shape.adopted(self._ends)
            survey = await self._topic_info.survey(self._ends, UNLIMITED, self._options.rules)
            left = behind(survey.stretches)
        target = snapshot(start, survey.shape.layout, survey.stretches, rules=self._options.rules).target
        return Report(replace(target, gaps={}, cuts={}, origin=None, initial=False), left)

    def moved(self, end: SourceOffset) -> None:
        """Records that a batch with this end was planned."""
        self._ends = end

    async def tasks(self, start: SourceOffset, end: SourceOffset) -> list[ReadTask]:
        """The tasks of a planned batch; deterministic."""
        await self._belongs(end)
        shape = await self._topic_info.shape(end.epoch)
        planned = tasks(shape.started(start, end), end, shape.layout, rules=self._options.rules)
        if self._options.rules.fail_on_data_loss:
            await self._check(planned)
        return _planned(self._options.url, shape, planned)

    async def committed(self, end: SourceOffset) -> None:
        await self._topic_info.hold(end)

    async def close(self) -> None:
        await self._topic_info.close()

    async def whole(self) -> list[ReadTask]:
        """The tasks of one batch from the starting to the ending offsets."""
        options = self._options
        start = await self._found(options.starting)
        ending = options.ending.only() if isinstance(options.ending, Offset) else options.ending
        if isinstance(ending, SourceOffset):  # ignores the start and the gaps of its own batch
            return await self.tasks(start, replace(ending, origin=None, gaps={}, cuts={}, initial=False))
        if isinstance(options.ending, AtTime):
            shape, places = await self._topic_info.find(options.ending)
            target = initial(shape.layout, places)
            survey = await self._topic_info.survey(start, UNLIMITED, options.rules)
            frozen = Snapshot(shape.layout, target)
            end = frozen.plan(shape.adopted(start), survey.stretches, UNLIMITED, rules=options.rules)
        else:
            survey = await self._topic_info.survey(start, UNLIMITED, options.rules)
            shape = survey.shape
            end = snapshot(shape.adopted(start), shape.layout, survey.stretches, rules=options.rules).target
        return await self.tasks(start, end)

    async def _found(self, where: Where) -> SourceOffset:
        if isinstance(where, Offset):
            where = where.only()
        if isinstance(where, SourceOffset):
            await self._belongs(where)
            shape = await self._topic_info.shape(where.epoch)
            return replace(where, initial=True, origin=None, gaps={}, cuts={}, life=shape.life, topic=shape.topic)
        shape, places = await self._topic_info.find(where)
        if where is Extreme.EARLIEST and await self._topic_info.deleted():
            self._tell(deleted(shape.topic))
        return initial(shape.layout, places, topic=shape.topic, life=shape.life)

    async def _belongs(self, offset: SourceOffset) -> None:
        """Checked before waiting for its epoch: the epoch of another topic may never come."""
        shape = await self._topic_info.shape()
        offset.belongs(topic=shape.topic, life=shape.life)

    async def _check(self, planned: tuple[Task, ...]) -> None:
        """Checks that all messages of a planned batch still exist: it may have been planned long ago."""
        starts = {piece.segment: piece.start for one in planned for piece in one.pieces}
        for id, left in (await self._topic_info.lost(starts)).items():
            raise DataLost(
                "messages of a planned batch were deleted, so it cannot be read again. Increase the topic's "
                "retention or set option subscription. To continue without them, set failOnDataLoss to false",
                segment=id,
                position=str(starts[id]),
                next=str(left),
            )

    async def _end(self, start: SourceOffset, limits: Limits) -> SourceOffset:
        waited = self._clock() - self._planned >= self._options.trigger_delay_s
        if self._available_now or waited:
            limits = replace(limits, messages_min=0)
        prepared = await self.prepare(start, limits)
        (end,) = plan_together([prepared.reading], limits)
        return start if end is prepared.reading.start else end

    async def prepare(self, batch_start: SourceOffset, limits: Limits) -> Prepared:
        """The planning input for a batch from here."""
        rules = self._options.rules
        survey = await self._topic_info.survey(batch_start, limits, rules)
        shape = survey.shape
        start = shape.adopted(batch_start)
        self._survey = (start, survey)
        rules = _careful(rules, start, shape.layout)
        if not self._available_now:
            return Prepared(batch_start, Reading(start, shape.layout, survey.stretches, rules))
        if self._snapshot is None:
            everything = survey if limits == UNLIMITED else await self._topic_info.survey(batch_start, UNLIMITED, rules)
            self._snapshot = snapshot(start, everything.shape.layout, everything.stretches, rules=rules)
        return Prepared(batch_start, self._snapshot.reading(start, survey.stretches, rules))


def deleted(topic: str) -> str:
    """The error for a query that starts at the earliest message after earlier ones were deleted."""
    namespace = topic_name(topic).namespace
    return (
        f"option startingOffsets: earliest of {topic} begins after messages that were already deleted. The "
        "broker keeps messages while a subscription needs them, then for the retention of the namespace. To "
        f"keep later ones: magnetar namespace set {namespace} --retention-minutes 1440 --retention-mb -1, or "
        "set option subscription"
    )


def _careful(rules: Rules, start: SourceOffset, layout: Layout) -> Rules:
    """In a migrated topic, keys of the plain topics were not placed by hash. Their successors are therefore not read in
    the same batch: a key would be in two tasks.
    """
    open = (layout.segment(id) for id, place in start.places.items() if place != DONE and id in layout)
    if rules.key_order is KeyOrder.CHAIN and any(one.legacy_topic and one.children for one in open):
        return replace(rules, key_order=KeyOrder.BARRIER)
    return rules


def _planned(url: str, shape: TopicLayout, segment_tasks: tuple[Task, ...]) -> list[ReadTask]:
    return [
        ReadTask(url, shape.topic, one, tuple(shape.topics[piece.segment] for piece in one.pieces), str(shape.routing))
        for one in segment_tasks
    ]
