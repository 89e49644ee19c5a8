"""A query between Spark's calls and the facts of a topic: the same start twice, frozen ends, holds, and what waits."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from magnetar.base.errors import Misuse
from magnetar.base.ids import Epoch
from magnetar.layout.plain_layout import migrated
from magnetar.layout.readable_range import DONE, START, Places, ReadPosition
from magnetar.layout.segment import FIRST
from magnetar.spark.source.batch_limits import Limits
from magnetar.spark.source.offset import SourceOffset, parse
from magnetar.spark.source.options import AtTime, Extreme, source_options
from magnetar.spark.source.planner import DataLost, Rules
from magnetar.spark.source.query import Query, ReadTask
from magnetar.spark.source.topic_info import TopicSnapshot
from magnetar.spark.source.topic_layout import TopicLayout, plain
from tests.unit.spark.world import Row, Topic, a_topic

T = TypeVar("T")
NAME = "topic://a/b/c"


class Known:
    """The facts of a topic that is a few lists."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.held: list[str] = []
        self.surveys = 0
        self.life = 1
        self.trimmed = False

    async def shape(self, epoch: Epoch = FIRST) -> TopicLayout:
        layout = self.topic.layout
        return TopicLayout(NAME, layout, {one.id: f"segment-{one.id}" for one in layout.segments}, life=self.life)

    async def survey(self, start: SourceOffset, limits: Limits, rules: Rules) -> TopicSnapshot:
        self.surveys += 1
        return TopicSnapshot(await self.shape(), self.topic.stretches(start))

    async def find(self, where: Extreme | AtTime) -> tuple[TopicLayout, Places]:
        shape = await self.shape()
        found = {}
        for one in shape.layout.segments:
            log = self.topic.logs[one.id]
            later = [row.at for row in log.rows if isinstance(where, AtTime) and row.ms >= where.ms]
            end = DONE if log.sealed else log.next
            found[one.id] = START if where is Extreme.EARLIEST else min(later, default=end)
        return shape, found

    async def lost(self, places: Places) -> Places:
        found = {id: self.topic.stretch(id, place) for id, place in places.items()}
        return {id: one.start for id, one in found.items() if one.lost}

    async def deleted(self) -> bool:
        return self.trimmed

    async def hold(self, at: SourceOffset) -> None:
        self.held.append(at.text)

    async def close(self) -> None:
        """Nothing is open."""


class Clock:
    """A second passes between two looks, so that nobody waits in earnest."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def a_query(topic: Topic, *, streaming: bool = True, **options: str) -> tuple[Query, Known]:
    facts = Known(topic)
    return Query(source_options({"topic": NAME, **options}, streaming=streaming), facts, Clock()), facts


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def read(topic: Topic, planned: list[ReadTask]) -> list[int]:
    return sorted(row.number for one in planned for piece in one.task.pieces for row in topic.read(piece))


def publish(topic: Topic, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        topic.publish(number * 31)


def test_start_is_stable_whatever_is_published_meanwhile():
    topic = a_topic()
    publish(topic, 5)
    query, facts = a_query(topic)
    first = run(query.start())
    publish(topic, 5, 5)
    assert run(query.start()) is first
    assert facts.held == [first.text]


@pytest.mark.parametrize(("starting", "warned"), [("earliest", True), ("latest", False)])
def test_start_behind_deleted_messages_is_told(starting, warned):
    facts, told = Known(a_topic()), []
    facts.trimmed = True
    asked = source_options({"topic": NAME, "startingOffsets": starting}, streaming=True)
    query = Query(asked, facts, Clock(), told.append)
    run(query.start())
    run(query.start())
    assert len(told) == warned
    assert all("magnetar namespace set a/b --retention-minutes" in one for one in told)


def test_batch_0_carries_start_for_equal_replay():
    topic = a_topic()
    publish(topic, 5)
    query, _ = a_query(topic)
    start = run(query.start())
    publish(topic, 4, 5)
    end = parse(run(query.latest(start)).text)
    found = read(topic, run(query.tasks(start, end)))
    publish(topic, 4, 9)
    again, _ = a_query(topic)  # after the crash: "latest" is elsewhere by now
    later = run(again.start())
    assert later.text != start.text
    assert read(topic, run(again.tasks(later, end))) == found
    assert found


def test_offset_is_unchanged_and_held_without_new_messages():
    topic = a_topic()
    publish(topic, 5)
    query, facts = a_query(topic, startingOffsets="earliest")
    end = run(query.latest(run(query.start())))
    assert run(query.latest(end)) is end
    assert facts.held[-1] == end.text


def test_with_asynchronous_progress_only_commit_moves_cursor():
    topic = a_topic()
    publish(topic, 5)
    query, facts = a_query(topic, startingOffsets="earliest", cursorAdvance="commit")
    start = run(query.start())
    end = run(query.latest(start))
    run(query.latest(end))
    assert facts.held == [start.text]
    run(query.committed(end))
    assert facts.held == [start.text, end.text]


def test_available_now_ends_with_initial_data_despite_reshapes():
    topic = a_topic()
    publish(topic, 12)
    before = {row.number for row in topic.published}
    query, _ = a_query(topic, startingOffsets="earliest", maxMessagesPerTrigger="4")
    query.freeze()
    at, found = run(query.start()), []
    for number in range(100):
        end = run(query.latest(at))
        if end is at:
            break
        publish(topic, 3, 100 + number)
        topic.split(number)
        found += read(topic, run(query.tasks(at, end)))
        at = end
    assert sorted(found) == sorted(before)


def test_small_batch_waits_until_its_delay_is_over():
    topic = a_topic()
    query, _ = a_query(topic, startingOffsets="earliest", minMessagesPerTrigger="1000", maxTriggerDelay="12s")
    at = run(query.latest(run(query.start())))
    publish(topic, 3)
    assert run(query.latest(at)) is at
    for _ in range(12):
        end = run(query.latest(at))
        if end is not at:
            break
    assert end is not at


def test_run_of_once_takes_everything_whatever_limits():
    topic = a_topic()
    publish(topic, 30)
    query, _ = a_query(topic, startingOffsets="earliest", maxMessagesPerTrigger="1")
    start = run(query.start())
    assert len(read(topic, run(query.tasks(start, run(query.latest(start)))))) < len(topic.published)
    end = run(query.latest(start, unlimited=True))
    assert len(read(topic, run(query.tasks(start, end)))) == len(topic.published)


def test_progress_tells_how_much_is_behind_batch():
    topic = a_topic()
    publish(topic, 30)
    query, _ = a_query(topic, startingOffsets="earliest", maxMessagesPerTrigger="5")
    start = run(query.start())
    end = run(query.latest(start))
    taken = len(read(topic, run(query.tasks(start, end))))
    reported = run(query.report())
    assert reported is not None
    assert reported.behind.messages == len(topic.published) - taken
    assert reported.behind.oldest_ms > 0
    assert reported.document()["behind"]["messages"] == reported.behind.messages
    last = run(query.latest(end, unlimited=True))
    assert run(query.report()).behind.messages == 0
    assert run(query.latest(last)) is last
    assert run(query.report()).document()["behind"] == {"bytes": 0, "messages": 0}


def test_end_of_all_there_is_is_reported_beside_limited_batch():
    topic = a_topic()
    publish(topic, 30)
    query, _ = a_query(topic, startingOffsets="earliest", maxMessagesPerTrigger="1")
    assert run(query.report()) is None
    start = run(query.start())
    run(query.latest(start))
    reported = run(query.report())
    assert reported is not None
    assert reported.target.places == {one.id: topic.logs[one.id].next for one in topic.layout.active}


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, lambda row: True),
        ({"startingOffsets": "1010"}, lambda row: row.ms >= 1010),
        ({"endingOffsets": "1010"}, lambda row: row.ms < 1010),
        ({"startingOffsets": "1005", "endingOffsets": "1015"}, lambda row: 1005 <= row.ms < 1015),
    ],
)
def test_batch_read_takes_what_lies_between_its_offsets(options, wanted):
    topic = a_topic(segments=3)
    for number in range(8):
        publish(topic, 3, number * 4)
        topic.split(number)
    for log in topic.logs.values():  # clocks that agree, so that a time is a place
        log.rows = [row._replace(ms=1000 + row.number) for row in log.rows]
    query, _ = a_query(topic, streaming=False, **options)
    rows = [row for log in topic.logs.values() for row in log.rows]
    assert read(topic, run(query.whole())) == sorted(row.number for row in rows if wanted(row))


def test_offset_of_another_topic_or_another_life_is_refused():
    topic = a_topic()
    query, facts = a_query(topic, startingOffsets="earliest")
    start = run(query.start())
    with pytest.raises(Misuse, match="another topic"):
        run(query.latest(replace(start, topic="topic://a/b/d")))
    facts.life = 2
    held = list(facts.held)
    with pytest.raises(Misuse, match="recreated"):
        run(query.latest(replace(start, initial=False)))
    assert facts.held == held, "the broker would refuse it first, and could not say what to do"


def test_batch_with_deleted_messages_fails_before_replay():
    topic = a_topic()
    publish(topic, 10)
    query, _ = a_query(topic, startingOffsets="earliest")
    start = run(query.start())
    end = run(query.latest(start))
    topic.logs[topic.layout.active[0].id].kept = 1
    with pytest.raises(DataLost, match="failOnDataLoss"):
        run(query.tasks(start, end))


def test_skipped_gap_is_in_offset_and_not_requested_again():
    topic = a_topic()
    publish(topic, 10)
    query, _ = a_query(topic, startingOffsets="earliest", failOnDataLoss="false")
    start = run(query.start())
    first = topic.layout.active[0].id
    topic.logs[first].kept = 1
    end = run(query.latest(start))
    assert list(end.gaps) == [first]
    again, _ = a_query(topic, startingOffsets="earliest")
    assert len(read(topic, run(again.tasks(start, end)))) == len(topic.published) - 1


def test_partitions_that_are_added_and_empty_make_no_batch():
    class Growing(Known):
        partitions = 2

        async def shape(self, epoch: Epoch = FIRST) -> TopicLayout:
            return plain(NAME, [f"{NAME}-partition-{index}" for index in range(self.partitions)])

        async def survey(self, start: SourceOffset, limits: Limits, rules: Rules) -> TopicSnapshot:
            return TopicSnapshot(await self.shape(), {})

        async def find(self, where: Extreme | AtTime) -> tuple[TopicLayout, Places]:
            return await self.shape(), {}

    facts = Growing(a_topic())
    query = Query(source_options({"topic": NAME}, streaming=True), facts, Clock())
    at = run(query.latest(run(query.start())))
    facts.partitions = 4
    assert run(query.latest(at)) is at


def test_plain_and_migrated_topics_never_share_batch():
    topic = a_topic()
    topic.layout = migrated(["persistent://a/b/c-partition-0", "persistent://a/b/c-partition-1"], now_ms=0)
    for one in topic.layout.segments:
        log = topic.logs[one.id]
        log.sealed = not one.is_active
        log.rows = [Row(ReadPosition(one.id + 1, entry), "k1", one.id * 10 + entry, 1000) for entry in range(3)]
        log.next = ReadPosition(one.id + 1, 3)
    query, _ = a_query(topic, startingOffsets="earliest")
    at, batches = run(query.start()), []
    while (end := run(query.latest(at))) is not at:
        batches.append({piece.segment for one in run(query.tasks(at, end)) for piece in one.task.pieces})
        at = end
    assert batches == [{0, 1}, {2, 3}]


def test_checkpoint_can_be_where_query_starts():
    topic = a_topic()
    publish(topic, 10)
    query, _ = a_query(topic, startingOffsets="earliest")
    end = run(query.latest(run(query.start())))
    before = len(topic.published)
    publish(topic, 6, 10)
    other, _ = a_query(topic, startingOffsets=end.text)
    start = run(other.start())
    assert start.initial
    assert start.origin is None
    last = run(other.latest(start))
    assert read(topic, run(other.tasks(start, last))) == list(range(before, len(topic.published)))


def test_checkpoint_may_be_end_of_any_batch():
    topic = a_topic()
    publish(topic, 5)
    query, _ = a_query(topic, failOnDataLoss="false")
    start = run(query.start())
    publish(topic, 5, 5)
    end = run(query.latest(start))
    assert end.origin is not None
    ended = len(topic.published)
    publish(topic, 5, 10)
    for offset in (end, replace(end, gaps={id: (START, place) for id, place in end.places.items()})):
        other, _ = a_query(topic, streaming=False, endingOffsets=offset.text)
        assert read(topic, run(other.whole())) == list(range(ended))
