"""One query's way through a topic, between Spark's calls and the server's facts: where it starts, how far the next
batch goes, what its tasks read.

Spark may call again after any crash: the start is remembered and carried by the first batch's end, a batch that was
planned is told from its two offsets alone, and nothing else is kept. It knows neither PySpark nor sockets. It trusts
`facts`, and refuses offsets of another topic or of another life of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from magnetar.base.limits import SPARK_IDLE_ASK_S, SPARK_IDLE_S
from magnetar.layout.layout import Layout
from magnetar.layout.stretch import DONE
from magnetar.spark.facts import Facts, Survey
from magnetar.spark.frontier import Frontier
from magnetar.spark.options import AtTime, CursorAdvance, Extreme, SourceOptions
from magnetar.spark.planner import UNLIMITED, DataLost, KeyOrder, Limits, Rules, Snapshot, initial, plan, snapshot
from magnetar.spark.shape import Shape
from magnetar.spark.tasks import Task, tasks


@dataclass(frozen=True, slots=True)
class Planned:
    """What one task of Spark reads, wherever it runs."""

    url: str
    topic: str
    task: Task
    topics: tuple[str, ...]  # that hold the pieces of the task
    routing: str


class Query:
    """`clock` says seconds that only grow."""

    def __init__(self, asked: SourceOptions, facts: Facts, clock: Callable[[], float]) -> None:
        self._asked = asked
        self._facts = facts
        self._clock = clock
        self._initial: Frontier | None = None
        self._planned = clock()  # when the last batch was
        self._available_now = False
        self._snapshot: Snapshot | None = None
        self._survey: tuple[Frontier, Survey] | None = None  # of all there is

    async def start(self) -> Frontier:
        """Where a new query begins: asked twice by Spark, and the same each time."""
        if self._initial is None:
            self._initial = await self._found(self._asked.starting)
            await self._facts.hold(self._initial)
        return self._initial

    def freeze(self) -> None:
        """No more than there is now, for Trigger.AvailableNow."""
        self._available_now = True
        self._snapshot = None

    async def latest(self, start: Frontier, *, unlimited: bool = False) -> Frontier:
        """Where the batch that begins at `start` ends; `start` itself where there is nothing to read."""
        self._survey = None
        await self._belongs(start)
        if self._asked.cursor_advance is CursorAdvance.EAGER and not start.initial:
            await self._facts.hold(start)
        until = self._clock() + SPARK_IDLE_S
        while True:
            end = await self._end(start, UNLIMITED if unlimited else self._asked.limits)
            if end is not start or self._available_now or self._clock() >= until:
                break
            await asyncio.sleep(SPARK_IDLE_ASK_S)
        if end is not start:
            self._planned = self._clock()
        return end

    async def report(self) -> Frontier | None:
        """The end of all there is: Spark shows it in its progress, beside the end of the batch."""
        if self._survey is None:
            return None
        start, survey = self._survey
        if self._asked.limits != UNLIMITED:
            survey = await self._facts.survey(start, UNLIMITED, self._asked.rules)
        target = snapshot(start, survey.shape.layout, survey.stretches, rules=self._asked.rules).target
        return replace(target, gaps={}, origin=None, initial=False)

    async def tasks(self, start: Frontier, end: Frontier) -> list[Planned]:
        """The tasks of a batch that was planned, the same whenever it is asked."""
        await self._belongs(end)
        shape = await self._facts.shape(end.epoch)
        found = tasks(shape.started(start, end), end, shape.layout, rules=self._asked.rules)
        if self._asked.rules.fail_on_data_loss:
            await self._check(found)
        return _planned(self._asked.url, shape, found)

    async def committed(self, end: Frontier) -> None:
        await self._facts.hold(end)

    async def close(self) -> None:
        await self._facts.close()

    async def whole(self) -> list[Planned]:
        """The tasks of one batch from the starting to the ending offsets."""
        asked = self._asked
        start = await self._found(asked.starting)
        if isinstance(asked.ending, Frontier):  # where its batch began, and what that skipped, is of no concern here
            return await self.tasks(start, replace(asked.ending, origin=None, gaps={}, initial=False))
        if isinstance(asked.ending, AtTime):
            shape, places = await self._facts.find(asked.ending)
            target = initial(shape.layout, places)
            survey = await self._facts.survey(start, UNLIMITED, asked.rules)
            frozen = Snapshot(shape.layout, target)
            end = frozen.plan(shape.adopted(start), survey.stretches, UNLIMITED, rules=asked.rules)
        else:
            survey = await self._facts.survey(start, UNLIMITED, asked.rules)
            shape = survey.shape
            end = snapshot(shape.adopted(start), shape.layout, survey.stretches, rules=asked.rules).target
        return await self.tasks(start, end)

    async def _found(self, where: Extreme | AtTime | Frontier) -> Frontier:
        if isinstance(where, Frontier):
            await self._belongs(where)
            shape = await self._facts.shape(where.epoch)
            return replace(where, initial=True, origin=None, gaps={}, life=shape.life, topic=shape.topic)
        shape, places = await self._facts.find(where)
        return initial(shape.layout, places, topic=shape.topic, life=shape.life)

    async def _belongs(self, offset: Frontier) -> None:
        """Before its epoch is waited for: that of another topic may never come."""
        shape = await self._facts.shape()
        offset.belongs(topic=shape.topic, life=shape.life)

    async def _check(self, found: tuple[Task, ...]) -> None:
        """Is all of a batch that was planned still there? It may have been planned long ago."""
        starts = {piece.segment: piece.start for one in found for piece in one.pieces}
        for id, left in (await self._facts.lost(starts)).items():
            raise DataLost(
                "messages of a batch that was planned are gone, so it cannot be read again: raise the topic's "
                "retention or give the query a subscription; to go on without them set failOnDataLoss to false",
                segment=id,
                position=str(starts[id]),
                next=str(left),
            )

    async def _end(self, given: Frontier, limits: Limits) -> Frontier:
        rules = self._asked.rules
        waited = self._clock() - self._planned >= self._asked.trigger_delay_s
        if self._available_now or waited:
            limits = replace(limits, messages_min=0)
        survey = await self._facts.survey(given, limits, rules)
        shape = survey.shape
        start = shape.adopted(given)
        self._survey = (start, survey)
        rules = _careful(rules, start, shape.layout)
        if self._available_now:
            if self._snapshot is None:
                everything = survey if limits == UNLIMITED else await self._facts.survey(given, UNLIMITED, rules)
                layout = everything.shape.layout
                self._snapshot = snapshot(start, layout, everything.stretches, rules=rules)
            end = self._snapshot.plan(start, survey.stretches, limits, rules=rules)
        else:
            end = plan(start, shape.layout, survey.stretches, limits, rules=rules)
        return given if end is start else end


def _careful(rules: Rules, start: Frontier, layout: Layout) -> Rules:
    """Keys of a topic that was migrated were elsewhere before than their hashes say, so what came of its plain topics
    is not read in one batch with them: a key would be in two tasks.
    """
    open = (layout.segment(id) for id, place in start.places.items() if place != DONE and id in layout)
    if rules.key_order is KeyOrder.CHAIN and any(one.legacy_topic and one.children for one in open):
        return replace(rules, key_order=KeyOrder.BARRIER)
    return rules


def _planned(url: str, shape: Shape, found: tuple[Task, ...]) -> list[Planned]:
    return [
        Planned(url, shape.topic, one, tuple(shape.topics[piece.segment] for piece in one.pieces), str(shape.routing))
        for one in found
    ]
