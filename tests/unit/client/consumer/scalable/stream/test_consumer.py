"""A stream consumer beside a scripted broker: what it is assigned, reads, acknowledges and leaves, whatever changes."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import Closed, Misuse, NotAuthorized, TopicNotFound
from magnetar.base.ids import SegmentId
from magnetar.client.consumer.config import InitialPosition
from magnetar.client.consumer.receive.waiters import NoMessage
from magnetar.wire import commands
from magnetar.wire.ids import MessageId
from magnetar.wire.proto import pb
from magnetar.wire.scalable import layouts
from tests.support.broker_script import batch, single
from tests.support.scalable_broker_script import TOPIC, a_scaled
from tests.support.stream_consumer import a_world
from tests.unit.client.world import turns

pytestmark = pytest.mark.real_clock

K = pb.BaseCommand


async def test_consumer_registers_and_attaches_as_recorded() -> None:
    async with a_world(2, initial_position=InitialPosition.EARLIEST) as world:
        kinds = [command.type for command in world.broker.commands if command.type != K.FLOW]
        assert kinds[:4] == [K.CONNECT, K.LOOKUP, K.SCALABLE_TOPIC_LOOKUP, K.SCALABLE_TOPIC_SUBSCRIBE]
        asked = world.broker.kinds(K.SCALABLE_TOPIC_SUBSCRIBE)[0].scalableTopicSubscribe
        assert (asked.topic, asked.subscription, asked.consumer_name) == (str(TOPIC), "s", "c")
        assert (asked.consumer_type, asked.initial_position) == (pb.STREAM, pb.CommandSubscribe.Earliest)
        attached = [command.subscribe for command in world.broker.kinds(K.SUBSCRIBE)]
        assert [(one.topic, one.consumer_name) for one in attached] == [
            ("segment://public/default/t/0000-7fff-0", "c-seg-0"),
            ("segment://public/default/t/8000-ffff-1", "c-seg-1"),
        ]
        for one in attached:
            assert (one.subType, one.durable) == (pb.CommandSubscribe.Exclusive, True)
            assert one.initialPosition == pb.CommandSubscribe.Earliest


async def test_one_acknowledgement_covers_earlier_messages_of_every_segment() -> None:
    async with a_world(2) as world:
        for entry in range(3):
            world.scaled.deliver(0, entry, single(b"low"))
            world.scaled.deliver(1, entry, single(b"high"))
        await turns(lambda: world.consumer.queued == 6)
        taken = await world.take(5)
        await world.consumer.acknowledge_cumulative(taken[3])
        await world.broker.until(lambda: len(world.acks()) == 2)
        assert world.acks() == [(world.scaled.name(0), 100, 1), (world.scaled.name(1), 101, 1)]
        assert world.consumer.unacknowledged == 1


async def test_id_kept_as_bytes_acknowledges_what_message_would() -> None:
    async with a_world(2) as world:
        world.scaled.deliver(0, 7, single(b"low"))
        await turns(lambda: world.consumer.queued == 1)
        world.scaled.deliver(1, 8, single(b"high"))
        await turns(lambda: world.consumer.queued == 2)
        taken = await world.take(2)
        assert [message.id.segment for message in taken] == [0, 1]
        kept = taken[1].id.to_bytes()
        await world.consumer.acknowledge_cumulative(MessageId.from_bytes(kept))
        await world.broker.until(lambda: len(world.acks()) == 2)
        assert world.acks() == [(world.scaled.name(0), 100, 7), (world.scaled.name(1), 101, 8)]
        assert world.consumer.unacknowledged == 0


async def test_first_message_is_in_positions_of_every_later_one() -> None:
    """A message is stamped in the step in which it leaves the inbox (H-F23), also of receives that wait."""

    async with a_world(2) as world:
        waiting = [asyncio.ensure_future(world.consumer.receive(60)) for _ in range(2)]
        await asyncio.sleep(0)
        world.scaled.deliver(1, 4, single(b"high"))
        world.scaled.deliver(0, 5, single(b"low"))
        first, second = await asyncio.gather(*waiting)
        assert dict(second.id.vector).keys() == {0, 1}
        assert dict(first.id.vector).keys() == {first.id.segment}


async def test_part_of_batch_that_is_acknowledged_leaves_rest_of_it() -> None:
    async with a_world() as world:
        world.scaled.deliver(0, 0, single(b"0"))
        world.scaled.deliver(0, 1, batch(b"1", b"2", b"3"))
        await turns(lambda: world.consumer.queued == 4)
        taken = await world.take(4)
        await world.consumer.acknowledge_cumulative(taken[2])
        await world.broker.until(lambda: len(world.acks()) == 1)
        assert world.acks() == [(world.scaled.name(0), 100, 0)]  # the batch is not done yet
        await world.consumer.acknowledge_cumulative(taken[3])
        await world.broker.until(lambda: len(world.acks()) == 2)
        assert world.acks()[1] == (world.scaled.name(0), 100, 1)


async def test_children_are_read_when_parent_has_ended() -> None:
    async with a_world() as world:
        world.scaled.deliver(0, 0, single(b"parent"))
        (message,) = await world.take(1)
        world.scaled.show(world.scaled.layout.split(SegmentId(0), now_ms=1))
        world.scaled.assign(0, generation=2)
        await world.consumer.acknowledge_cumulative(message)
        await world.broker.until(lambda: len(world.acks()) == 1)
        world.scaled.end(0)
        await world.broker.until(lambda: not world.scaled.consumers)
        world.scaled.assign(1, 2, generation=3)
        await world.open(1, 2)
        world.scaled.deliver(2, 0, single(b"child"))
        assert (await world.take(1))[0].data == b"child"
        positions = [command.subscribe.initialPosition for command in world.broker.kinds(K.SUBSCRIBE)]
        assert positions == [pb.CommandSubscribe.Latest, *[pb.CommandSubscribe.Earliest] * 2]


async def test_children_handed_out_too_early_wait_for_parent_here() -> None:
    """Not every controller holds them back (H-F1)."""

    async with a_world(ours=False) as world:
        world.scaled.show(world.scaled.layout.split(SegmentId(0), now_ms=1))
        await turns(lambda: world.share._layout is not None and world.share._layout.epoch == 1)
        world.scaled.assign(0, 1, 2)
        world.scaled.deliver(0, 0, single(b"parent"))
        await world.take(1)
        assert world.consumer.segments == [0]
        world.scaled.end(0)
        await world.open(1, 2)


async def test_revoked_segment_is_left_when_its_messages_are_acknowledged() -> None:
    async with a_world(2) as world:
        for entry in range(3):
            world.scaled.deliver(0, entry, single(b"low"))
        await turns(lambda: world.consumer.queued == 3)
        (first,) = await world.take(1)
        world.scaled.assign(1, generation=2)
        await turns(lambda: world.consumer.queued == 0)
        assert world.consumer.segments == [0, 1]
        world.scaled.deliver(0, 3, single(b"on its way"))
        world.scaled.deliver(1, 0, single(b"high"))
        assert (await world.take(1))[0].data == b"high"
        await world.consumer.acknowledge_cumulative(first)
        await world.broker.until(lambda: len(world.broker.kinds(K.CLOSE_CONSUMER)) == 1)
        assert world.acks() == [(world.scaled.name(0), 100, 0)]
        await world.open(1)


async def test_segment_held_by_another_is_retried_until_free() -> None:
    async with a_world(started=False) as world:
        world.scaled.refusals[world.scaled.name(0)] = [pb.ConsumerBusy, pb.ConsumerBusy]
        await world.consumer._start()
        await world.open(0)
        assert len(world.broker.kinds(K.SUBSCRIBE)) == 3


async def test_older_assignment_that_comes_late_takes_nothing_away() -> None:
    async with a_world(2) as world:
        world.scaled.assign(0, 1, generation=5)
        world.scaled.assign(0, generation=4)
        world.scaled.deliver(1, 0, single(b"high"))
        assert (await world.take(1))[0].data == b"high"
        assert world.consumer.segments == [0, 1]


async def test_lost_connection_registers_same_name_and_reads_on() -> None:
    async with a_world() as world:
        world.broker.cut()
        await world.broker.until(lambda: len(world.broker.kinds(K.SUBSCRIBE)) == 2)
        await world.broker.until(lambda: len(world.broker.kinds(K.SCALABLE_TOPIC_SUBSCRIBE)) == 2)
        asked = [one.scalableTopicSubscribe for one in world.broker.kinds(K.SCALABLE_TOPIC_SUBSCRIBE)]
        assert (asked[0].consumer_name, asked[0].consumer_id) == (asked[1].consumer_name, asked[1].consumer_id)
        await turns(lambda: world.consumer.connected)
        world.scaled.deliver(0, 0, single(b"again"))
        assert (await world.take(1))[0].data == b"again"


async def test_consumer_follows_controller_to_another_broker() -> None:
    async with a_world() as world, a_scaled() as (other, _):
        world.scaled.controller = layouts.Address(other.broker.url)
        world.scaled.show()
        await other.broker.until(lambda: bool(other.registered))
        await world.consumer.close()  # while somebody is there to be left


async def test_close_sends_acknowledgements_then_leaves_segments_subscription_and_watch() -> None:
    async with a_world(ack_group_s=60.0) as world:
        world.scaled.deliver(0, 0, single(b"1"))
        (message,) = await world.take(1)
        await world.consumer.acknowledge_cumulative(message)
        await world.consumer.close()
        await world.broker.until(lambda: not world.scaled.watching)
        kinds = [command.type for command in world.broker.commands]
        assert kinds[-4:] == [K.ACK, K.CLOSE_CONSUMER, K.SCALABLE_TOPIC_UNSUBSCRIBE, K.SCALABLE_TOPIC_CLOSE]
        with pytest.raises(Closed):
            await world.consumer.receive()
        with pytest.raises(Closed):
            await world.consumer.acknowledge_cumulative(message)


async def test_server_without_leave_command_receives_none() -> None:
    async with a_world(ours=False) as world:
        asked = world.broker.kinds(K.SCALABLE_TOPIC_SUBSCRIBE)[0].scalableTopicSubscribe
        assert not asked.HasField("initial_position")
        await world.consumer.close()
        await world.broker.until(lambda: not world.scaled.watching)
        assert not world.broker.kinds(K.SCALABLE_TOPIC_UNSUBSCRIBE)


async def test_controller_that_is_not_there_yet_is_asked_again() -> None:
    async with a_world(started=False) as world:
        world.scaled.refusals[str(TOPIC)] = [pb.ServiceNotReady, pb.UnknownError]
        await world.consumer._start()
        await world.open(0)


async def test_refusal_of_registration_is_callers_and_leaves_nothing_behind() -> None:
    async with a_world(started=False) as world:
        world.scaled.refusals[str(TOPIC)] = [pb.AuthorizationError]
        with pytest.raises(NotAuthorized):
            await world.consumer._start()
        await world.broker.until(lambda: not world.scaled.watching)


async def test_deleted_topic_is_told_to_whoever_receives() -> None:
    async with a_world() as world:
        waiting = asyncio.ensure_future(world.consumer.receive())
        await asyncio.sleep(0)
        world.scaled.gone()
        with pytest.raises(TopicNotFound):
            await waiting


async def test_iteration_ends_when_consumer_is_closed() -> None:
    async with a_world() as world:
        world.scaled.deliver(0, 0, single(b"1"))
        seen = []
        async for message in world.consumer:
            seen.append(message.data)
            await world.consumer.close()
        assert seen == [b"1"]


async def test_batches_are_received_and_stamped_in_order() -> None:
    async with a_world(2) as world:
        for entry in range(4):
            world.scaled.deliver(entry % 2, entry, single(b"%d" % entry))
        await turns(lambda: world.consumer.queued == 4)
        taken = await world.consumer.receive_batch(3)
        assert len(taken) == 3
        await world.consumer.acknowledge_cumulative(taken[-1])
        assert world.consumer.unacknowledged == 0
        await world.take(1)
        with pytest.raises(NoMessage):
            await world.consumer.receive(0.01)
        with pytest.raises(Misuse):
            await world.consumer.receive_batch(0)


async def test_segment_closed_by_its_broker_is_attached_again() -> None:
    async with a_world() as world:
        id = world.scaled.consumer(0)
        _, link = world.scaled.consumers.pop(id)
        link.write(commands.close_consumer(id))
        await world.broker.until(lambda: len(world.broker.kinds(K.SUBSCRIBE)) == 2)
        await world.open(0)


async def test_message_of_another_consumer_is_not_acknowledged_here() -> None:
    async with a_world() as world, a_world() as other:
        other.scaled.deliver(0, 0, single(b"1"))
        (message,) = await other.take(1)
        with pytest.raises(Misuse):
            await world.consumer.acknowledge_cumulative(message)
        with pytest.raises(Misuse):
            await world.consumer.acknowledge_cumulative(MessageId(1, 2))


async def test_leave_is_sent_when_absent_controller_returns() -> None:
    """Else its segments would wait for it for the whole grace period."""

    async with a_world() as world:
        world.broker.cut()
        await turns(lambda: not world.consumer.connected)
        await world.consumer.close()
        kinds = [command.type for command in world.broker.commands]
        assert K.SCALABLE_TOPIC_UNSUBSCRIBE in kinds
        assert kinds.count(K.SCALABLE_TOPIC_SUBSCRIBE) == 2
        assert world.scaled.registered == {}
