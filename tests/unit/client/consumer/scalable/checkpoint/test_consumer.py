"""A checkpoint consumer beside a scripted broker: parents before children, complete checkpoints, losses told."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import Closed, DataLost, Misuse, NotReady, TopicNotFound
from magnetar.base.ids import Epoch, SegmentId
from magnetar.client.consumer.config import InitialPosition
from magnetar.layout.checkpoint import DONE, START, SegmentPosition
from magnetar.wire.ids import MessageId
from magnetar.wire.proto import pb
from magnetar.wire.scalable.checkpoint import Checkpoint
from tests.support.broker_script import batch, single
from tests.support.checkpoint_consumer import K, a_world
from tests.support.scalable_broker_script import TOPIC
from tests.unit.client.world import turns

pytestmark = pytest.mark.real_clock

ROOT, LEFT, RIGHT = (SegmentId(id) for id in range(3))


async def test_it_reads_through_readers_that_brokers_forget() -> None:
    async with a_world(2) as (world, begin):
        await begin()
        for command in world.broker.kinds(K.SUBSCRIBE):
            asked = command.subscribe
            assert (asked.durable, asked.subType) == (False, pb.CommandSubscribe.Exclusive)
            assert not asked.force_topic_creation
            assert asked.consumer_name.startswith("c-seg-")


async def test_children_wait_until_application_received_parent_h_g3() -> None:
    async with a_world() as (world, begin):
        consumer = await begin()
        world.scaled.deliver(0, 0, batch(b"a", b"b"))
        world.split(0)
        world.scaled.end(0)
        await turns(lambda: len(consumer.positions) == 3)
        assert (await consumer.receive(60)).data == b"a"
        assert consumer.positions == {0: SegmentPosition(100, 0, 0, 2), 1: START, 2: START}
        assert consumer.segments == [0]
        assert (await consumer.receive(60)).data == b"b"
        await world.on(1, 2)
        assert consumer.positions[0] == DONE


async def test_end_that_overtakes_layout_waits_for_it() -> None:
    async with a_world() as (world, begin):
        consumer = await begin()
        world.scaled.deliver(0, 0, single(b"a"))
        world.scaled.end(0)
        await consumer.receive(60)
        await turns(lambda: consumer._reading.parts is not None and consumer._reading.parts.parts[ROOT].at_end)
        assert (await consumer.checkpoint()).places == {ROOT: SegmentPosition(100, 0)}
        world.split(0)
        await world.on(1, 2)
        assert (await consumer.checkpoint()).places == {ROOT: DONE, LEFT: START, RIGHT: START}


async def test_consumer_resumes_from_checkpoint_as_value_or_bytes() -> None:
    async with a_world(2) as (world, begin):
        kept = Checkpoint({ROOT: SegmentPosition(100, 7), LEFT: START}, Epoch(0), str(TOPIC), 1)
        for start in (kept, kept.to_bytes()):
            consumer = await begin(start)
            assert world.start_of(0) == (100, 7)
            assert world.start_of(1) == (-1, -1)
            assert await consumer.checkpoint() == kept
            await consumer.close()


async def test_latest_is_resolved_once_and_later_children_start_first_h_g2() -> None:
    async with a_world() as (world, begin):
        world.mark[0] = MessageId(100, 41)
        consumer = await begin(InitialPosition.LATEST)
        assert consumer.positions == {0: SegmentPosition(100, 41)}
        assert world.start_of(0) == (100, 41)
        world.split(0)
        world.scaled.end(0)
        await world.on(1, 2)
        assert world.start_of(1) == (-1, -1)


async def test_checkpoint_of_another_incarnation_is_refused_without_traces_h_c4() -> None:
    async with a_world() as (world, begin):
        world.scaled.incarnation = 2
        with pytest.raises(Misuse, match="created again"):
            await begin(Checkpoint({ROOT: START}, Epoch(0), str(TOPIC), 1))
        await world.broker.until(lambda: not world.scaled.watching)
        assert world.scaled.consumers == {}


async def test_layout_older_than_checkpoint_is_awaited() -> None:
    async with a_world() as (world, begin):
        later = world.scaled.layout.split(ROOT, now_ms=1)
        kept = Checkpoint({ROOT: DONE, LEFT: SegmentPosition(101, 3), RIGHT: START}, later.epoch, str(TOPIC), 1)
        opening = asyncio.ensure_future(begin(kept))
        await world.broker.until(lambda: bool(world.scaled.watching))
        await turns(lambda: bool(world.consumer._reading._watch._waiting))
        world.scaled.show(later)
        consumer = await opening
        assert consumer.segments == [1, 2]


async def test_topic_deleted_while_layout_is_awaited_is_reported_immediately() -> None:
    async with a_world() as (world, begin):
        opening = asyncio.ensure_future(begin(Checkpoint({ROOT: START}, Epoch(5), str(TOPIC), 1)))
        await world.broker.until(lambda: bool(world.scaled.watching))
        await turns(lambda: bool(world.consumer._reading._watch._waiting))
        world.scaled.gone()
        with pytest.raises(TopicNotFound):
            await opening


async def test_messages_deleted_before_read_are_error_or_gap_h_g4() -> None:
    async with a_world() as (world, begin):
        world.deleted[0] = MessageId(100, 9)
        kept = Checkpoint({ROOT: SegmentPosition(100, 7)}, Epoch(0), str(TOPIC), 1)
        with pytest.raises(DataLost, match=r"by retention .* on_gap .* keep messages .* hold"):
            await begin(kept)
        gaps = []
        consumer = await begin(kept, on_gap=gaps.append)
        assert [(gap.segment, gap.place) for gap in gaps] == [(0, SegmentPosition(100, 7))]
        assert consumer.positions == {0: SegmentPosition(100, 9)}
        assert consumer.counters.gaps == 1


async def test_deletion_while_reader_was_away_is_noticed_h_g4() -> None:
    async with a_world() as (world, begin):
        consumer = await begin()
        world.scaled.deliver(0, 0, single(b"a"))
        await consumer.receive(60)
        world.deleted[0] = MessageId(100, 3)
        world.broker.cut()
        with pytest.raises(DataLost):
            await consumer.receive(10)


async def test_missing_sealed_segment_is_loss_and_children_follow_gaps() -> None:
    async with a_world() as (world, begin):
        world.split(0)
        world.scaled.refusals[world.scaled.name(0)] = [pb.TopicNotFound, pb.TopicNotFound]
        await begin()
        with pytest.raises(DataLost):
            await world.consumer.receive(60)
        assert world.consumer.segments == []  # nothing is read behind a loss
        gaps = []
        await begin(on_gap=gaps.append)
        await world.on(1, 2)
        assert [gap.segment for gap in gaps] == [0]


async def test_seek_starts_anew_and_one_that_fails_changes_nothing() -> None:
    async with a_world() as (world, begin):
        consumer = await begin()
        world.scaled.deliver(0, 0, single(b"a"))
        world.scaled.deliver(0, 1, single(b"b"))
        await turns(lambda: consumer.queued == 2)
        await consumer.receive(60)
        with pytest.raises(Misuse):
            await consumer.seek(Checkpoint({ROOT: START}, Epoch(0), str(TOPIC), 5))
        assert consumer.positions == {0: SegmentPosition(100, 0)}
        assert consumer.queued == 1
        await consumer.seek(Checkpoint({ROOT: SegmentPosition(100, 30)}, Epoch(0), str(TOPIC), 1))
        assert (consumer.queued, consumer.positions) == (0, {0: SegmentPosition(100, 30)})
        assert world.start_of(0) == (100, 30)


async def test_cancelled_seek_leaves_working_consumer() -> None:
    for moment in range(12):
        async with a_world() as (world, begin):
            consumer = await begin()
            seeking = asyncio.ensure_future(consumer.seek(InitialPosition.EARLIEST))
            for _ in range(moment):
                await asyncio.sleep(0)
            seeking.cancel()
            await asyncio.gather(seeking, return_exceptions=True)
            await turns(lambda consumer=consumer: consumer.segments == [0] and consumer.connected)
            world.scaled.deliver(0, 0, single(b"a"))
            assert (await consumer.receive(60)).data == b"a"


async def test_seek_of_consumer_that_has_ended_says_why_it_ended() -> None:
    async with a_world() as (world, begin):
        world.split(0)
        world.scaled.refusals[world.scaled.name(0)] = [pb.TopicNotFound, pb.TopicNotFound]
        await begin()
        with pytest.raises(DataLost):
            await world.consumer.receive(60)
        with pytest.raises(DataLost):
            await world.consumer.seek(InitialPosition.EARLIEST)


async def test_seek_of_closed_consumer_reports_close_and_not_cancellation() -> None:
    for moment in range(12):
        async with a_world() as (_, begin):
            consumer = await begin()
            seeking = asyncio.ensure_future(consumer.seek(InitialPosition.EARLIEST))
            for _ in range(moment):
                await asyncio.sleep(0)
            await consumer.close()
            (told,) = await asyncio.gather(seeking, return_exceptions=True)
            assert told is None or isinstance(told, Closed)


async def test_rest_of_batch_arrives_after_reconnect() -> None:
    """An entry is behind the reader when all of it is: said earlier, the broker of the next connection would not give
    the rest."""

    async with a_world() as (world, begin):
        consumer = await begin()
        world.scaled.deliver(0, 0, batch(b"a", b"b"))
        await consumer.receive(60)
        world.broker.cut()
        await world.broker.until(lambda: len(world.broker.kinds(K.SUBSCRIBE)) == 2)
        await world.on(0)
        world.scaled.deliver(0, 0, batch(b"a", b"b"))
        assert (await consumer.receive(60)).data == b"b"
        await world.broker.until(lambda: world.acks() == [(100, 0)])


async def test_deleted_topic_ends_consumer_and_closed_one_says_so() -> None:
    async with a_world() as (world, begin):
        consumer = await begin()
        world.scaled.gone()
        with pytest.raises(TopicNotFound):
            await consumer.receive(60)
        await consumer.close()
        with pytest.raises(Closed):
            await consumer.seek(InitialPosition.EARLIEST)


async def test_before_it_has_begun_there_is_no_checkpoint() -> None:
    async with a_world() as (world, begin):
        world.scaled.refusals[world.scaled.name(0)] = [pb.AuthorizationError]
        with pytest.raises(Exception, match="no"):
            await begin(InitialPosition.LATEST)
        with pytest.raises(NotReady):
            await world.consumer.checkpoint()
