"""What a stream consumer does with refusals and warnings of its segments."""

from __future__ import annotations

import logging

import pytest

from magnetar.base.errors import Fenced
from magnetar.base.ids import SegmentId
from magnetar.client.follow import WarnHeldBack
from magnetar.wire import commands, message
from magnetar.wire.ids import MessageId, to_data
from magnetar.wire.proto import pb
from tests.unit.client.streaming import a_world
from tests.unit.client.world import run, turns

K = pb.BaseCommand


def test_segment_that_was_pruned_is_left_out_and_the_others_are_read():
    async def body() -> None:
        async with a_world(2, started=False) as world:
            world.scaled.refusals[world.scaled.name(0)] = [pb.TopicNotFound]
            await world.consumer.start()
            await world.open(1)
            asked = [command.subscribe.topic for command in world.broker.kinds(K.SUBSCRIBE)]
            assert asked.count(world.scaled.name(0)) == 1

    run(body)


def test_consumer_that_was_fenced_ends_and_leaves_its_other_segments():
    async def body() -> None:
        async with a_world(2, started=False) as world:
            world.scaled.refusals[world.scaled.name(1)] = [pb.ProducerFenced]
            await world.consumer.start()
            with pytest.raises(Fenced):
                await world.consumer.receive(60)
            await turns(lambda: world.consumer.segments == [])

    run(body)


def test_application_that_holds_its_children_back_is_warned_and_it_is_counted(caplog):
    async def body() -> None:
        async with a_world() as world:
            with caplog.at_level(logging.WARNING):
                world.share._apply([WarnHeldBack(SegmentId(0), (SegmentId(1), SegmentId(2)), 7)])
            assert world.consumer.counters.held_back == 1

    run(body)
    assert "children" in caplog.text


def test_end_that_a_foreign_broker_does_not_tell_again_is_asked_for():
    """Pulsar 5.0.0-M1 does not always say it to whoever comes to a drained segment: its children would stay unread."""

    async def body() -> None:
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

    run(body)


def test_end_is_awaited_from_a_broker_of_ours_which_takes_a_close_for_leaving():
    async def body() -> None:
        async with a_world() as world:
            world.scaled.show(world.scaled.layout.split(SegmentId(0), now_ms=1))
            await turns(lambda: world.share._layout is not None and world.share._layout.epoch == 1)
            world.share._time_passed()
            assert world.share._sealed() == []
            assert not world.broker.kinds(K.GET_LAST_MESSAGE_ID)

    run(body)


def test_message_that_is_never_complete_does_not_keep_a_sealed_segment_of_a_foreign_broker_from_its_end():
    async def body() -> None:
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

    run(body)


def test_all_chunks_of_a_message_between_others_are_acknowledged_with_it_also_after_the_connection_was_lost():
    async def body() -> None:
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

    run(body)


def test_message_whose_time_is_up_does_not_keep_those_behind_it_from_being_acknowledged_together():
    async def body() -> None:
        async with a_world(chunked_expire_s=0.0) as world:
            half, small = (pb.MessageMetadata(producer_name=name, sequence_id=1, publish_time=1) for name in "ab")
            world.scaled.deliver(0, 3, message.chunks(half, b"half of it", 5)[0])
            world.scaled.deliver(0, 4, message.single(small, b"small"))
            await world.consumer.acknowledge_cumulative(*await world.take(1))
            await turns(lambda: world.acks() == [(world.scaled.name(0), 100, 4)])

    run(body)
