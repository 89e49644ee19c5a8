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


async def test_broker_learns_preceding_message_to_report_end() -> None:
    """The broker gives it again, and counts it as unread until then."""

    async with a_world() as (world, begin):
        await begin(Checkpoint({ROOT: SegmentPosition(100, 4)}))
        world.scaled.deliver(0, 4, single(b"seen"))
        await world.broker.until(lambda: world.acks() == [(100, 4)])
        assert world.consumer.queued == 0


@pytest.mark.parametrize("first", [MessageId(100, -1), MessageId(-1, -1)], ids=["written", "empty"])
async def test_position_in_recreated_topic_is_loss_without_incarnation_h_c4(
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
async def test_reader_at_present_end_or_without_reads_lost_nothing(place, mark) -> None:
    async with a_world() as (world, begin):
        world.mark[0] = mark
        consumer = await begin(Checkpoint({ROOT: place}))
        assert consumer.counters.gaps == 0


async def test_listed_segment_that_is_missing_is_retried() -> None:
    async with a_world() as (world, begin):
        world.scaled.refusals[world.scaled.name(0)] = [pb.TopicNotFound]
        await begin()
        await world.on(0)
        assert len(world.broker.kinds(K.SUBSCRIBE)) == 2


async def test_late_reader_asks_broker_for_end() -> None:
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


async def test_half_read_sealed_segment_has_not_ended() -> None:
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


async def test_segment_has_not_ended_before_threads_took_messages() -> None:
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
