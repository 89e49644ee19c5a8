"""A query over several topics: shared limits, topics that join and go, replays, and the mutants that must be caught."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from magnetar.base.errors import MagnetarError, Misuse, TopicNotFound
from magnetar.base.ids import Epoch
from magnetar.layout.readable_range import DONE, START, Places
from magnetar.layout.segment import FIRST
from magnetar.spark.source import multi_query
from magnetar.spark.source.batch_limits import Limits, fair_shares
from magnetar.spark.source.multi_offset import Offset
from magnetar.spark.source.multi_query import MultiQuery
from magnetar.spark.source.offset import SourceOffset
from magnetar.spark.source.options import AtTime, Extreme, SourceOptions, source_options
from magnetar.spark.source.planner import DataLost, Rules, plan_together
from magnetar.spark.source.query import Query, ReadTask
from magnetar.spark.source.topic_info import TopicSnapshot
from magnetar.spark.source.topic_layout import TopicLayout
from tests.unit.spark.world import SLOTS, Row, Topic, a_topic

T = TypeVar("T")


class Clock:
    """A second passes between two looks, so that no query waits in earnest."""

    now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


class Known:
    """The facts of one topic of a world."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name

    @property
    def topic(self) -> Topic:
        if self.name not in self.world.topics:
            raise TopicNotFound(f"no {self.name}")
        return self.world.topics[self.name]

    async def shape(self, epoch: Epoch = FIRST) -> TopicLayout:
        layout = self.topic.layout
        return TopicLayout(self.name, layout, {one.id: f"{self.name}-{one.id}" for one in layout.segments}, life=1)

    async def survey(self, start: SourceOffset, limits: Limits, rules: Rules) -> TopicSnapshot:
        return TopicSnapshot(await self.shape(), self.topic.stretches(start))

    async def find(self, where: Extreme | AtTime) -> tuple[TopicLayout, Places]:
        logs = {one.id: self.topic.logs[one.id] for one in self.topic.layout.segments}
        ends = {id: DONE if log.sealed else log.next for id, log in logs.items()}
        return await self.shape(), dict.fromkeys(logs, START) if where is Extreme.EARLIEST else ends

    async def lost(self, places: Places) -> Places:
        return {}

    async def deleted(self) -> bool:
        return False

    async def hold(self, at: SourceOffset) -> None:
        self.world.held[self.name] = at.text

    async def close(self) -> None:
        """Nothing is open."""


class World:
    """Topics that come and go, a query on them, and what it promised."""

    def __init__(self, *names: str, kind: type[MultiQuery] = MultiQuery, **options: str) -> None:
        self.kind = kind
        self.topics = {f"topic://a/b/{name}": a_topic() for name in names}
        self.held: dict[str, str] = {}
        self.told: list[str] = []
        self.read: dict[str, list[int]] = {}
        self.options = {"namespace": "a/b", "startingOffsets": "earliest", **options}
        self.query = self.started()
        self.batches: list[tuple[Offset, Offset, list[ReadTask]]] = []

    def started(self) -> MultiQuery:
        """A run of the query, which knows nothing of those before."""
        asked = source_options(self.options, streaming=True)

        async def opened(mine: SourceOptions) -> Query:
            known = Known(self, mine.topic)
            await known.shape()
            return Query(mine, known, Clock(), self.told.append)

        topics = self if asked.namespace else multi_query.Fixed(asked.topics)
        return self.kind(asked, topics, opened, Clock(), self.told.append)

    async def names(self) -> list[str]:
        return sorted(self.topics)

    async def close(self) -> None:
        """Nothing is open."""

    def publish(self, name: str, count: int, first: int = 0) -> None:
        for number in range(first, first + count):
            self.topics[f"topic://a/b/{name}"].publish(number * 31)

    def batch(self, at: Offset) -> Offset:
        """Plan, read and check one batch."""
        end = run(self.query.latest(at))
        if end is at:
            return at
        assert end.text != at.text
        tasks = run(self.query.tasks(at, self.query.offset(end.document())))
        rows = [self.rows(one) for one in tasks]
        self.check(rows, tasks)
        self.batches.append((at, end, tasks))
        return end

    def rows(self, one: ReadTask) -> list[tuple[str, Row]]:
        topic = self.topics[one.topic]
        return [(one.topic, row) for piece in one.task.pieces for row in topic.read(piece)]

    def check(self, rows: list[list[tuple[str, Row]]], tasks: list[ReadTask]) -> None:
        limit = self.query._options.limits.messages
        count = sum(map(len, rows))
        assert limit is None or count <= limit, "topics share the limit"
        where: dict[tuple[str, str | None], int] = {}
        for place, task in enumerate(rows):
            for name, row in task:
                seen = self.read.setdefault(name, [])
                assert row.number not in seen, "a row twice"
                seen.append(row.number)
                if row.key is not None and row.number not in self.strays(name):
                    assert where.setdefault((name, row.key), place) == place, "a key in two tasks"
                    newest = self.newest.get((name, row.key), -1)
                    assert newest < row.number, "a key out of order"
                    self.newest[name, row.key] = row.number

    def strays(self, name: str) -> set[int]:
        topic = self.topics[name]
        return {
            row.number
            for id, log in topic.logs.items()
            for row in log.rows
            if row.key is not None and SLOTS[row.key] not in topic.layout.segment(id).range
        }

    @property
    def newest(self) -> dict[tuple[str, str | None], int]:
        return self.__dict__.setdefault("_newest", {})

    def drain(self, at: Offset) -> Offset:
        for _ in range(3000):
            end = self.batch(at)
            if end is at:
                return at
            at = end
        raise AssertionError("the query never comes to an end")

    def replay(self) -> None:
        """A run that knows nothing plans the same tasks from the two offsets, for every batch."""
        again = self.started()
        for start, end, tasks in self.batches:
            first, last = again.offset(start.document()), again.offset(end.document())
            assert run(again.tasks(first, last)) == tasks, "a replay plans other tasks"

    def complete(self) -> bool:
        wanted = {name: sorted(row.number for row in topic.published) for name, topic in self.topics.items()}
        return {name: sorted(self.read.get(name, [])) for name in wanted} == wanted


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def act(world: World, seed: int, moves: int = 60) -> None:
    """A script: topics come, grow, split and merge while the query plans, and it crashes now and then."""
    chance = random.Random(seed)
    at = run(world.query.start())
    for number in range(moves):
        name = chance.choice(sorted(world.topics))
        topic = world.topics[name]
        move = chance.choice(["publish"] * 5 + ["batch"] * 4 + ["split", "merge", "come", "crash"])
        if move == "publish":
            for offset in range(chance.randrange(9)):
                topic.publish(chance.randrange(10_000) + offset)
        elif move == "split":
            topic.split(chance.randrange(100))
        elif move == "merge":
            topic.merge(chance.randrange(100))
        elif move == "come" and len(world.topics) < 5:
            world.topics[f"topic://a/b/new{number}"] = a_topic()
        elif move == "crash" and world.batches:
            world.query = world.started()
            at = world.query.offset(at.document())
        else:
            at = world.batch(at)
    world.drain(at)


@pytest.mark.parametrize("order", ["chain", "barrier"])
def test_rows_of_every_topic_are_read_once_in_order(order):
    for seed in range(12):
        world = World("x", "y", keyOrder=order, maxMessagesPerTrigger="7")
        act(world, seed)
        assert world.complete()
        world.replay()


def test_no_limit_takes_everything_of_all_topics_at_once():
    world = World("x", "y", "z")
    for name in "xyz":
        world.publish(name, 20)
    world.batch(run(world.query.start()))
    assert world.complete()


def test_topics_share_limit_alike_and_modest_leave_rest():
    assert fair_shares([1000, 1000, 1000], 90) == [30, 30, 30]
    assert fair_shares([1000, 5, 1000], 90) == [42, 5, 43]
    assert fair_shares([3, 2], 90) == [3, 2]
    assert fair_shares([3, 2], None) == [None, None]
    world = World("large", "small", maxMessagesPerTrigger="40")
    world.publish("large", 2000)
    world.publish("small", 5, 5)
    world.batch(run(world.query.start()))
    small = "topic://a/b/small"
    assert len(world.read[small]) == len(world.topics[small].published), "a backlog elsewhere holds it back"


def test_topic_that_comes_later_is_read_from_its_first_message():
    world = World("x", startingOffsets="latest")
    world.publish("x", 5)
    at = world.drain(run(world.query.start()))
    assert world.read == {}
    world.topics["topic://a/b/y"] = a_topic()
    assert world.batch(at) is at, "a topic without rows makes no batch"
    world.publish("y", 5)
    end = world.drain(at)
    assert world.read == {"topic://a/b/y": sorted(row.number for row in world.topics["topic://a/b/y"].published)}
    assert end.parts["topic://a/b/x"].text == at.parts["topic://a/b/x"].text
    world.replay()


def test_crash_of_batch_0_replays_where_it_began():
    world = World("x", "y", startingOffsets="latest")
    world.publish("x", 5)
    start = run(world.query.start())
    world.publish("x", 4, 5)
    end = run(world.query.latest(start))
    tasks = run(world.query.tasks(start, end))
    world.publish("y", 4)
    again = world.started()
    later = run(again.start())
    assert later.text != start.text
    assert run(again.tasks(later, end)) == tasks
    assert tasks


def test_checkpoint_of_one_topic_goes_on_with_more():
    world = World("x", "y", namespace="a/b")
    world.publish("x", 6)
    world.publish("y", 6)
    at = run(world.query.start())
    one = at.parts["topic://a/b/x"]
    end = world.drain(world.query.offset(replace(one, initial=False).document()))
    assert world.complete()
    assert set(end.parts) == set(world.topics)


def test_topic_that_goes_is_loss_unless_that_is_allowed():
    for allowed in ("true", "false"):
        world = World("x", "y", failOnDataLoss=allowed)
        world.publish("x", 5)
        world.publish("y", 5)
        at = world.drain(run(world.query.start()))
        del world.topics["topic://a/b/y"]
        world.publish("x", 5, 5)
        if allowed == "true":
            with pytest.raises(DataLost, match="failOnDataLoss"):
                world.batch(at)
        else:
            end = world.drain(at)
            assert set(end.parts) == {"topic://a/b/x"}
            assert "continues without topic://a/b/y" in world.told[0]


def test_topic_left_out_of_options_is_refused():
    world = World("x", "y")
    world.publish("x", 5)
    at = world.drain(run(world.query.start()))
    world.options = {"topics": "topic://a/b/x,topic://a/b/z", "startingOffsets": "earliest"}
    world.topics["topic://a/b/z"] = a_topic()
    world.query = world.started()
    with pytest.raises(Misuse, match="no longer reads"):
        run(world.query.latest(at))


def test_available_now_reads_topics_that_there_were():
    world = World("x", "y", maxMessagesPerTrigger="5")
    world.publish("x", 20)
    world.publish("y", 20)
    wanted = {name: sorted(row.number for row in topic.published) for name, topic in world.topics.items()}
    world.query.freeze()
    at = world.batch(run(world.query.start()))
    world.publish("x", 20, 20)
    world.topics["topic://a/b/z"] = a_topic()
    world.publish("z", 5)
    world.drain(at)
    assert {name: sorted(rows) for name, rows in world.read.items()} == wanted


def test_every_topic_is_held_where_its_batch_began():
    world = World("x", "y")
    world.publish("x", 5)
    world.publish("y", 5)
    end = world.drain(run(world.query.start()))
    assert world.held == {name: part.text for name, part in end.parts.items()}


def test_report_adds_up_what_is_behind_in_all_topics():
    world = World("x", "y", maxMessagesPerTrigger="10")
    world.publish("x", 20)
    world.publish("y", 20)
    world.batch(run(world.query.start()))
    reported = run(world.query.report())
    assert reported is not None
    everything = sum(len(topic.published) for topic in world.topics.values())
    assert reported.behind.messages == everything - sum(map(len, world.read.values()))
    assert set(reported.document()["topics"]) == set(world.topics)


class WholeLimitForEveryTopic(MultiQuery):
    @staticmethod
    def plan(readings, limits):
        return [plan_together([one], limits)[0] for one in readings]


class ForgetsTopicsThatStandStill(MultiQuery):
    @staticmethod
    def ended(given, prepared, ends):
        found = MultiQuery.ended(given, prepared, ends)
        moved = {name: part for name, part in found.parts.items() if given.parts.get(name) != part}
        return Offset(moved) if found is not given else given


class JoinsWithoutABeginning(MultiQuery):
    @staticmethod
    def ended(given, prepared, ends):
        found = MultiQuery.ended(given, prepared, ends)
        parts = {
            name: part if name in given.parts else replace(part, origin=None) for name, part in found.parts.items()
        }
        return Offset(parts) if found is not given else given


class JoinsAtTheEnd(MultiQuery):
    @staticmethod
    def ended(given, prepared, ends):
        found = MultiQuery.ended(given, prepared, ends)
        parts = {
            name: part if name in given.parts else replace(part, origin=part.places)
            for name, part in found.parts.items()
        }
        return Offset(parts) if found is not given else given


@pytest.mark.parametrize(
    "broken",
    [WholeLimitForEveryTopic, ForgetsTopicsThatStandStill, JoinsWithoutABeginning, JoinsAtTheEnd, MultiQuery],
)
def test_broken_plan_of_several_topics_is_caught(broken):
    caught = False
    for seed in range(8):
        world = World("x", "y", maxMessagesPerTrigger="7", kind=broken)
        try:
            act(world, seed)
            assert world.complete()
            world.replay()
        except (AssertionError, MagnetarError):
            caught = True
            break
    assert caught == (broken is not MultiQuery)
