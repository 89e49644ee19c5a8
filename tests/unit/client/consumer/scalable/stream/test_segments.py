"""What a stream consumer does with refusals and warnings of its segments."""

from __future__ import annotations

import logging

import pytest

from magnetar.base.errors import ConsumerBusy, Fenced
from magnetar.base.ids import SegmentId
from magnetar.client.consumer.config import SegmentsChanged
from magnetar.client.consumer.scalable.segment_events import CloseSegment
from magnetar.client.consumer.scalable.stream.assignment import WarnHeldBack
from magnetar.wire import broker_frames, commands, message
from magnetar.wire.ids import MessageId, to_data
from magnetar.wire.proto import pb
from tests.support.broker_script import single
from tests.support.stream_consumer import a_world
from tests.unit.client.world import run, turns

pytestmark = pytest.mark.real_clock

K = pb.BaseCommand


async def test_pruned_segment_is_skipped_and_others_are_read() -> None:
    async with a_world(2, started=False) as world:
        world.scaled.refusals[world.scaled.name(0)] = [pb.TopicNotFound]
        await world.consumer._start()
        await world.open(1)
        asked = [command.subscribe.topic for command in world.broker.kinds(K.SUBSCRIBE)]
        assert asked.count(world.scaled.name(0)) == 1


async def test_consumer_that_was_fenced_ends_and_leaves_its_other_segments() -> None:
    async with a_world(2, started=False) as world:
        world.scaled.refusals[world.scaled.name(1)] = [pb.ProducerFenced]
        await world.consumer._start()
        with pytest.raises(Fenced):
            await world.consumer.receive(60)
        await turns(lambda: world.consumer.segments == [])


def test_slow_application_is_warned_and_counted(caplog):
    async def body() -> None:
        async with a_world() as world:
            with caplog.at_level(logging.WARNING):
                world.share._apply([WarnHeldBack(SegmentId(0), (SegmentId(1), SegmentId(2)), 7)])
            assert world.consumer.counters.held_back == 1

    run(body)
    assert "children" in caplog.text


async def test_unrepeated_end_of_foreign_broker_is_requested() -> None:
    """Pulsar 5.0.0-M1 does not always say it to whoever comes to a drained segment: its children would stay unread."""

    async with a_world(ours=False) as world:
        world.scaled.show(world.scaled.layout.split(SegmentId(0), now_ms=1))
        await turns(lambda: world.share._layout is not None and world.share._layout.epoch == 1)
        world.scaled.assign(0, 1, 2)
        here = to_data(MessageId(5, 9))
        world.broker.handlers[K.GET_LAST_MESSAGE_ID] = lambda link, command: (
            link.write(commands.last_message_id(command.getLastMessageId.request_id, here, here)) or True
        )
        world.share._time_passed()
        await world.open(1, 2)


async def test_child_assigned_before_layout_is_read_after_parent() -> None:
    async with a_world() as world:
        before, after = world.scaled.layout, world.scaled.layout.split(SegmentId(0), now_ms=1)
        world.scaled.layout = after
        world.scaled.assign(0, 1, 2, generation=2)
        world.scaled.layout = before
        await turns(lambda: world.share._follow.generation == 2)
        assert sorted(world.share.parts) == [0]
        world.scaled.show(after)
        await world.open(0, 1, 2)
        assert world.share.parts[SegmentId(1)].queue.behind == (world.share.parts[SegmentId(0)].queue,)


async def test_end_is_awaited_if_broker_treats_close_as_leave() -> None:
    async with a_world() as world:
        world.scaled.show(world.scaled.layout.split(SegmentId(0), now_ms=1))
        await turns(lambda: world.share._layout is not None and world.share._layout.epoch == 1)
        world.share._time_passed()
        assert world.share._sealed() == []
        assert not world.broker.kinds(K.GET_LAST_MESSAGE_ID)


async def test_incomplete_message_does_not_block_end_on_foreign_broker() -> None:
    async with a_world(ours=False) as world:
        large, small = (pb.MessageMetadata(producer_name=name, sequence_id=1, publish_time=1) for name in "ab")
        world.scaled.deliver(0, 4, message.chunks(large, b"large", 3)[0])
        world.scaled.deliver(0, 5, message.single(small, b"small"))
        await world.consumer.acknowledge_cumulative(*await world.take(1))
        await turns(lambda: world.acks() == [(world.scaled.name(0), 100, 3)])
        world.scaled.show(world.scaled.layout.split(SegmentId(0), now_ms=1))
        await turns(lambda: world.share._layout is not None and world.share._layout.epoch == 1)
        world.share.parts[SegmentId(0)].intake._chunks._expire_s = 0.0
        world.share._time_passed()
        await turns(lambda: len(world.broker.kinds(K.ACK)) == 3)
        acked = [id.entryId for command in world.broker.kinds(K.ACK) for id in command.ack.message_id]
        assert acked == [3, 5, 4]


async def test_all_chunks_between_others_are_acknowledged_after_reconnect():
    async with a_world() as world:
        half, large = (pb.MessageMetadata(producer_name=name, sequence_id=1, publish_time=1) for name in "ab")
        world.scaled.deliver(0, 3, message.chunks(half, b"half of it", 5)[0])
        for entry, chunk in enumerate(message.chunks(large, b"large", 3), 4):
            world.scaled.deliver(0, entry, chunk)
        [taken] = await world.take(1)
        world.share.parts[SegmentId(0)].redelivery.forget()
        await world.consumer.acknowledge_cumulative(taken)
        acked = [(100, 2), (100, 4), (100, 5)]
        await turns(
            lambda: (
                sorted((id.ledgerId, id.entryId) for one in world.broker.kinds(K.ACK) for id in one.ack.message_id)
                == acked
            )
        )


async def test_expired_message_does_not_block_cumulative_acknowledgement() -> None:
    async with a_world(chunked_expire_s=0.0) as world:
        half, small = (pb.MessageMetadata(producer_name=name, sequence_id=1, publish_time=1) for name in "ab")
        world.scaled.deliver(0, 3, message.chunks(half, b"half of it", 5)[0])
        world.scaled.deliver(0, 4, message.single(small, b"small"))
        await world.consumer.acknowledge_cumulative(*await world.take(1))
        await turns(lambda: world.acks() == [(world.scaled.name(0), 100, 4)])


async def test_segment_refused_while_messages_wait_loses_nothing() -> None:
    """H-R1: its queue goes away in the same step, so no message of it is taken and then lost."""

    async with a_world(2) as world:
        for entry in range(3):
            world.scaled.deliver(0, entry, single(b"low %d" % entry))
            world.scaled.deliver(1, entry, single(b"high %d" % entry))
        await turns(lambda: world.consumer.queued == 6)
        old = world.share.parts[SegmentId(0)]
        old._ended(ConsumerBusy("another consumer has it"))
        batch = await world.consumer.receive_batch(10)
        assert [one.data for one in batch] == [b"high 0", b"high 1", b"high 2"]
        del world.scaled.consumers[old.id]
        await world.open(0, 1)
        world.scaled.deliver(0, 0, single(b"low 0"))
        assert [one.data for one in await world.take(1)] == [b"low 0"]


async def test_refusal_told_to_share_alone_drops_queue_at_once() -> None:
    async with a_world(2) as world:
        world.scaled.deliver(0, 0, single(b"low"))
        world.scaled.deliver(1, 0, single(b"high"))
        await turns(lambda: world.consumer.queued == 2)
        segment = SegmentId(0)
        world.share._refused(segment, world.share.parts[segment], ConsumerBusy("another consumer has it"))
        assert world.consumer.queued == 1
        assert [one.data for one in await world.consumer.receive_batch(2)] == [b"high"]


async def test_message_that_arrives_during_close_is_not_handed_out() -> None:
    """H-R1: the broker delivers until it has read the close; what comes then belongs to the next consumer."""

    async with a_world(2) as world:
        old = world.scaled.consumer(0)
        link = world.scaled.consumers[old][1]

        def late(_: object, command: pb.BaseCommand) -> bool:
            link.write(broker_frames.message(old, 100, 7, single(b"late")))
            return world.scaled._close_consumer(link, command)

        world.broker.handlers[K.CLOSE_CONSUMER] = late
        world.share._apply([CloseSegment(SegmentId(0))])
        await turns(lambda: world.consumer.segments == [1])
        world.scaled.deliver(1, 0, single(b"high"))
        await turns(lambda: world.consumer.queued > 0)
        assert [one.data for one in await world.consumer.receive_batch(10)] == [b"high"]


def test_message_taken_from_closed_segment_is_dropped_and_others_remain(caplog):
    """H-R1: whatever put it into the queue, one stale message does not cost the rest of its batch."""

    async def body() -> None:
        async with a_world(2) as world:
            world.scaled.deliver(0, 0, single(b"low"))
            world.scaled.deliver(1, 0, single(b"high"))
            await turns(lambda: world.consumer.queued == 2)
            world.share.positions.closed(SegmentId(0))
            assert [one.data for one in await world.consumer.receive_batch(10)] == [b"high"]

    with caplog.at_level(logging.WARNING):
        run(body)
    assert "message_dropped" in caplog.text


async def test_listener_hears_gained_and_lost_segments_in_order() -> None:
    heard: list[SegmentsChanged] = []

    async with a_world(2, on_segments=heard.append) as world:
        held = [segment for change in heard for segment in change.gained]
        assert sorted(held) == [0, 1]
        heard.clear()
        world.share._apply([CloseSegment(SegmentId(0))])
        await turns(lambda: world.consumer.segments == [1])
        assert heard == [SegmentsChanged(world.consumer.topic, lost=(0,))]
        heard.clear()
    assert heard == [SegmentsChanged(world.consumer.topic, lost=(1,))]


def test_error_of_listener_is_logged_and_consumer_goes_on(caplog):
    def fails(change: SegmentsChanged) -> None:
        raise ZeroDivisionError(change)

    async def body() -> None:
        async with a_world(2, on_segments=fails) as world:
            assert world.consumer.segments == [0, 1]

    run(body)
    assert "segment_listener_failed" in caplog.text
