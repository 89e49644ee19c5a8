"""Plain and partitioned topics as layouts: a partition is a segment, and partitions that are added are read whole."""

from __future__ import annotations

import pytest

from magnetar.base.errors import Misuse
from magnetar.base.ids import SegmentId
from magnetar.client.client import Client
from magnetar.layout.readable_range import DONE, START, CutPoint, ReadPosition
from magnetar.spark.source.planner import initial, plan
from magnetar.spark.source.readable_range import ReadableRange
from magnetar.spark.source.tasks import tasks
from magnetar.spark.source.topic_layout import plain, shapes

NAMES = [f"persistent://a/b/c-partition-{index}" for index in range(4)]


def a_stretch(start: ReadPosition, count: int) -> ReadableRange:
    return ReadableRange(start, (CutPoint(ReadPosition(5, count), count, count),))


def test_plain_topic_is_one_segment_and_partition_is_one_each():
    assert plain("persistent://a/b/c", ["persistent://a/b/c"]).topics == {0: "persistent://a/b/c"}
    shape = plain("persistent://a/b/c", NAMES[:3])
    assert [shape.topics[one.id] for one in shape.layout.active] == NAMES[:3]
    assert shape.layout.epoch == 3


def test_added_partitions_are_read_from_start_also_in_replay():
    two, four = plain("persistent://a/b/c", NAMES[:2]), plain("persistent://a/b/c", NAMES)
    start = initial(two.layout, {})
    first = plan(start, two.layout, {SegmentId(0): a_stretch(START, 3)})
    adopted = four.adopted(first)
    assert {id: str(place) for id, place in adopted.places.items()} == {0: "5:3", 1: "-1:-1", 2: "-1:-1", 3: "-1:-1"}
    end = plan(adopted, four.layout, {SegmentId(3): a_stretch(START, 2)})
    found = tasks(four.started(first, end), end, four.layout)
    assert [(piece.segment, piece.start, piece.keys) for task in found for piece in task.pieces] == [(3, START, None)]


def test_start_that_names_all_partitions_is_left_as_it_is():
    shape = plain("persistent://a/b/c", NAMES)
    start = initial(shape.layout, {})
    assert shape.adopted(start) is start
    assert DONE not in start.places.values()


@pytest.mark.real_clock
async def test_topic_that_keeps_nothing_is_refused() -> None:
    async with Client("pulsar://localhost:1") as client:
        with pytest.raises(Misuse, match="option topic"):
            shapes(client, "non-persistent://a/b/c")
