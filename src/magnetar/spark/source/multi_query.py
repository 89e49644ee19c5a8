"""One query over several topics, or over all topics of a namespace: one `Query` per topic, and one plan and one offset
for all.

A batch is planned for all topics together, so that they share its limits. Later topics join at their earliest message,
with the first batch that has their rows. If no topic has new messages, the offset is identical. A deleted topic counts
as data loss, unless an option tolerates it. It knows neither PySpark nor sockets, and trusts `Query` for each topic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from magnetar.base.errors import LimitExceeded, Misuse, NotFound, TopicNotFound
from magnetar.base.limits import SPARK_ASKED_AT_ONCE_MAX, SPARK_IDLE_ASK_S, SPARK_IDLE_S, SPARK_TOPICS_MAX
from magnetar.spark.progress.report import Report, total
from magnetar.spark.source import multi_offset
from magnetar.spark.source.batch_limits import UNLIMITED, Limits
from magnetar.spark.source.multi_offset import Offset
from magnetar.spark.source.offset import SourceOffset
from magnetar.spark.source.options import Extreme, SourceOptions, Where
from magnetar.spark.source.planner import DataLost, Reading, plan_together
from magnetar.spark.source.query import Prepared, Query, ReadTask

T = TypeVar("T")


class Topics(Protocol):
    async def names(self) -> list[str]:
        """The current topics, sorted."""
        ...

    async def close(self) -> None: ...


class Fixed:
    """The topics from the options; they never change."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = sorted(names)

    async def names(self) -> list[str]:
        return self._names

    async def close(self) -> None:
        """Closes no resource."""


Open = Callable[[SourceOptions], Awaitable[Query]]


class MultiQuery:
    """`open` creates the query of one topic. `clock` returns monotonic seconds; `tell` shows a warning to the user."""

    def __init__(
        self,
        options: SourceOptions,
        topics: Topics,
        open: Open,
        clock: Callable[[], float],
        tell: Callable[[str], None] = lambda warning: None,
    ) -> None:
        self._options = options
        self._topics = topics
        self._open = open
        self._clock = clock
        self._tell = tell
        self._parts: dict[str, Query] = {}
        self._initial: Offset | None = None
        self._joined: dict[str, SourceOffset] = {}  # start of topics without rows in any batch yet
        self._dropped: set[str] = set()
        self._frozen: list[str] | None = None
        self._available_now = False
        self._planned = clock()  # time of the last batch

    def offset(self, document: object) -> Offset:
        """The offset from Spark: of this query, or of a query of one topic."""
        return multi_offset.from_document(document)

    async def start(self) -> Offset:
        """The start of a new query. Spark calls this twice and must get the same result."""
        if self._initial is None:
            names = await self._names()
            offsets = await _each(names, self._begun)
            self._initial = Offset(offsets)
        return self._initial

    def freeze(self) -> None:
        """Limits the query to the current messages, for Trigger.AvailableNow."""
        self._available_now = True
        self._frozen = None
        for part in self._parts.values():
            part.freeze()

    async def latest(self, start: Offset, *, unlimited: bool = False) -> Offset:
        """The end of the batch that begins at `start`; `start` itself if no new messages exist."""
        starts = await self._starts(start)
        await _each(starts, lambda name: self._enter(name, starts[name], start))
        limits = UNLIMITED if unlimited else self._options.limits
        until = self._clock() + SPARK_IDLE_S
        pause_s = min(SPARK_IDLE_ASK_S * max(1, len(starts)), SPARK_IDLE_S)
        while True:
            waited = self._clock() - self._planned >= self._options.trigger_delay_s
            due = replace(limits, messages_min=0) if self._available_now or waited else limits
            prepared = await _each(starts, lambda name, due=due: self._parts[name].prepare(starts[name], due))  # type: ignore[misc]
            ends = self.plan([one.reading for one in prepared.values()], due)
            end = self.ended(start, prepared, ends)
            if end is not start or self._available_now or self._clock() >= until:
                break
            await asyncio.sleep(pause_s)
        if end is not start:
            self._planned = self._clock()
            for name, part in end.parts.items():
                self._joined.pop(name, None)
                self._parts[name].moved(part)
        return end

    async def report(self) -> Report | None:
        """The end of the topics, and the lag between the end of the batch and it."""
        reports = await _each(self._parts, lambda name: self._parts[name].report())
        known_reports = {name: one for name, one in reports.items() if one is not None}
        if not known_reports:
            return None
        ends = {name: one.target for name, one in known_reports.items() if isinstance(one.target, SourceOffset)}
        return Report(Offset(ends), total(one.behind for one in known_reports.values()))

    async def tasks(self, start: Offset, end: Offset) -> list[ReadTask]:
        """The tasks of a planned batch; deterministic."""
        moved = [name for name in sorted(end.parts) if not _same(start.parts.get(name), end.parts[name])]
        tasks = await _each(moved, lambda name: self._tasks(name, start.parts.get(name), end.parts[name]))
        return [one for name in moved for one in tasks[name]]

    async def committed(self, end: Offset) -> None:
        there = [name for name in end.parts if name in self._parts]
        await _each(there, lambda name: self._parts[name].committed(end.parts[name]))

    async def whole(self) -> list[ReadTask]:
        """The tasks of one batch from the starting to the ending offsets."""
        names = await self._names()
        ending = self._options.ending
        if isinstance(ending, Offset):
            names = [name for name in names if name in ending.parts]

        async def one(name: str) -> list[ReadTask]:
            return await (await self._part(name)).whole()

        totals = await _each(names, one)
        return [task for name in names for task in totals[name]]

    async def close(self) -> None:
        for part in self._parts.values():
            await part.close()
        await self._topics.close()

    # Decisions; tests break these two functions on purpose

    @staticmethod
    def plan(readings: Sequence[Reading], limits: Limits) -> list[SourceOffset]:
        return plan_together(readings, limits)

    @staticmethod
    def ended(start: Offset, prepared: Mapping[str, Prepared], ends: list[SourceOffset]) -> Offset:
        """The end offset of a batch: `start` itself if no topic moved. A topic joins with its first rows."""
        parts: dict[str, SourceOffset] = {}
        moved = False
        for (name, prepared_part), end in zip(prepared.items(), ends, strict=True):
            same = end is prepared_part.reading.start
            joins = name not in start.parts
            if joins and (same or (end.places == prepared_part.reading.start.places and not end.gaps)):
                continue
            parts[name] = prepared_part.given if same else end
            moved = moved or not same
        return Offset(parts) if moved else start

    # One topic

    async def _begun(self, name: str) -> SourceOffset:
        return await (await self._part(name)).start()

    async def _part(self, name: str, *, joins: bool = False) -> Query:
        """`joins`: the topic is newer than the query, so it is read from its earliest message."""
        part = self._parts.get(name)
        if part is None:
            starting = Extreme.EARLIEST if joins else _of_topic(self._options.starting, name)
            mine = replace(
                self._options,
                topics=(name,),
                starting=starting,
                ending=_of_topic(self._options.ending, name),
                namespace="",
            )
            part = self._parts[name] = await self._open(mine)
            if self._available_now:
                part.freeze()
        return part

    async def _enter(self, name: str, start: SourceOffset, whole_start: Offset) -> None:
        part = await self._part(name, joins=name not in whole_start.parts)
        await part.enter(start)

    async def _tasks(self, name: str, start: SourceOffset | None, end: SourceOffset) -> list[ReadTask]:
        if start is None and end.origin is None:
            raise Misuse("an offset lacks the start of a topic: check that it belongs to this query", topic=name)
        begun = (
            start
            if start is not None
            else replace(end, places=end.origin or {}, origin=None, gaps={}, cuts={}, initial=True)
        )
        try:
            return await (await self._part(name)).tasks(begun, end)
        except TopicNotFound:
            if self._options.rules.fail_on_data_loss:
                raise gone(name) from None
            self._drop(name)
            return []

    # All of them

    async def _names(self) -> list[str]:
        names = self._frozen
        if names is None:
            names = await self._topics.names()
            if self._available_now:
                self._frozen = names
        if len(names) > SPARK_TOPICS_MAX:
            raise LimitExceeded(
                f"a query can read at most {SPARK_TOPICS_MAX} topics, but found {len(names)}: name some of them "
                "in option topics, or narrow option namespace with topicProperties",
                namespace=self._options.namespace,
            )
        return names

    async def _starts(self, start: Offset) -> dict[str, SourceOffset]:
        """The position of every current topic: from the offset, or where it joins."""
        names = await self._names()
        for name in sorted(start.parts.keys() - set(names)):
            self._lose(name)
        starts = {name: start.parts[name] for name in names if name in start.parts}
        for name in names:
            if name not in start.parts:
                if name not in self._joined:
                    self._joined[name] = await (await self._part(name, joins=True)).start()
                starts[name] = self._joined[name]
        return starts

    def _lose(self, name: str) -> None:
        if not self._options.namespace:
            raise Misuse(
                "the checkpoint has a topic that the query no longer reads: name it in option topics, or set a "
                "new checkpointLocation",
                topic=name,
            )
        if self._options.rules.fail_on_data_loss:
            raise gone(name)
        self._drop(name)

    def _drop(self, name: str) -> None:
        if name not in self._dropped:
            self._dropped.add(name)
            self._tell(
                f"the query continues without {name}: {self._options.namespace or 'the set of its topics'} does "
                "not contain it any more"
            )


def gone(name: str) -> NotFound:
    return DataLost(
        "a topic of the query was deleted, or its properties changed: its unread messages are lost; set "
        "failOnDataLoss to false to continue without it",
        topic=name,
    )


def _same(start: SourceOffset | None, end: SourceOffset) -> bool:
    return start is not None and start.text == end.text


def _of_topic(where: Where, name: str) -> Where:
    if isinstance(where, Offset):
        return where.parts.get(name, Extreme.EARLIEST)
    if isinstance(where, SourceOffset):
        return where if where.topic == name else Extreme.EARLIEST
    return where


async def _each(names: Iterable[str], call: Callable[[str], Awaitable[T]]) -> dict[str, T]:
    """Runs the call for all names, several at a time."""
    results: dict[str, T] = {}
    waiting = list(names)
    while waiting:
        now, waiting = waiting[:SPARK_ASKED_AT_ONCE_MAX], waiting[SPARK_ASKED_AT_ONCE_MAX:]
        results.update(zip(now, await asyncio.gather(*map(call, now)), strict=True))
    return results
