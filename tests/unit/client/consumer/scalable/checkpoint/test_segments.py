"""Readers of segments: opened, ended, tried again; what they never show does not keep a segment from ending."""

from __future__ import annotations

from typing import Any

import pytest

from magnetar.base.errors import DataLost
from magnetar.base.ids import SegmentId
from magnetar.client.consumer.config import InitialPosition
from magnetar.layout.checkpoint import DONE, START, SegmentPosition
from magnetar.wire.ids import MessageId
from magnetar.wire.proto import pb
from magnetar.wire.scalable.checkpoint import Checkpoint
from tests.support.broker_script import single
from tests.support.checkpoint_consumer import K, a_world
from tests.unit.client.world import turns

pytestmark = pytest.mark.real_clock

ROOT = SegmentId(0)


async def test_the_message_a_reader_starts_behind_is_told_to_the_broker_so_that_it_can_say_the_end() -> None:
    """The broker gives it again, and counts it as unread until then."""

    async with a_world() as (world, begin):
        await begin(Checkpoint({ROOT: SegmentPosition(100, 4)}))
        world.scaled.deliver(0, 4, single(b"seen"))
        await world.broker.until(lambda: world.acks() == [(100, 4)])
        assert world.consumer.queued == 0


@pytest.mark.parametrize("first", [MessageId(100, -1), MessageId(-1, -1)], ids=["written", "empty"])
async def test_a_place_in_a_topic_that_was_deleted_and_made_anew_is_a_loss_where_nothing_else_tells_its_life_h_c4(
    first,
) -> None:
    async with a_world() as (world, begin):
        world.mark[0] = first  # where reading would go on
        kept = Checkpoint({ROOT: SegmentPosition(50, 7)})
        with pytest.raises(DataLost):
            await begin(kept)
        gaps: list[Any] = []
        consumer = await begin(kept, on_gap=gaps.append)
        assert [(gap.segment, gap.place) for gap in gaps] == [(0, SegmentPosition(50, 7))]
        world.scaled.deliver(0, 0, single(b"new"))
        await consumer.receive(60)
        assert consumer.positions == {0: SegmentPosition(100, 0)}


@pytest.mark.parametrize(
    ("place", "mark"),
    [
        (START, MessageId(120, -1)),
        (SegmentPosition(100, -1), MessageId(120, -1)),  # of an empty ledger, which is dropped without a word
        (SegmentPosition(100, 0), MessageId(100, -1)),
        (SegmentPosition(100, 0), MessageId(90, 7)),
        (SegmentPosition(100, 7), MessageId(100, 6)),
    ],
    ids=str,
)
async def test_who_reads_on_behind_what_is_there_or_has_read_nothing_lost_nothing(place, mark) -> None:
    async with a_world() as (world, begin):
        world.mark[0] = mark
        consumer = await begin(Checkpoint({ROOT: place}))
        assert consumer.counters.gaps == 0


async def test_a_segment_that_is_listed_and_not_there_yet_is_tried_again() -> None:
    async with a_world() as (world, begin):
        world.scaled.refusals[world.scaled.name(0)] = [pb.TopicNotFound]
        await begin()
        await world.on(0)
        assert len(world.broker.kinds(K.SUBSCRIBE)) == 2


async def test_a_broker_that_does_not_say_the_end_to_who_comes_late_is_asked_for_it() -> None:
    async with a_world(ours=False) as (world, begin):
        world.last[0] = MessageId(100, 0)
        consumer = await begin()
        world.scaled.deliver(0, 0, single(b"a"))
        await consumer.receive(60)
        world.split(0)
        await turns(lambda: consumer._reading.parts is not None and consumer._reading.parts._timer is not None)
        assert consumer._reading.parts is not None
        consumer._reading.parts._time_passed()  # as the timer does
        await world.on(1, 2)
        assert consumer.positions[0] == DONE


async def test_a_sealed_segment_that_is_read_to_the_middle_has_not_ended_however_often_it_is_asked() -> None:
    async with a_world(ours=False) as (world, begin):
        world.last[0] = MessageId(100, 1)
        consumer = await begin(InitialPosition.EARLIEST)
        world.scaled.deliver(0, 0, single(b"a"))
        await consumer.receive(60)
        world.split(0)
        await turns(lambda: len(consumer.positions) == 3)
        assert consumer._reading.parts is not None
        consumer._reading.parts._time_passed()
        await world.broker.until(lambda: bool(world.broker.kinds(K.GET_LAST_MESSAGE_ID)))
        world.scaled.deliver(0, 1, single(b"b"))
        assert (await consumer.receive(60)).data == b"b"
        assert consumer.segments == [0]


async def test_a_segment_has_not_ended_while_threads_have_not_taken_what_was_fetched_for_them() -> None:
    async with a_world() as (world, begin):
        consumer = await begin()
        world.scaled.deliver(0, 0, single(b"a"))
        await turns(lambda: consumer.queued == 1)
        fetched = consumer.receiver.take_some(10)
        world.split(0)
        world.scaled.end(0)
        await turns(lambda: len(consumer.positions) == 3 and consumer._reading.parts.parts[ROOT].at_end)
        assert consumer.positions[0] == START
        consumer._handed(fetched)
        await world.on(1, 2)
