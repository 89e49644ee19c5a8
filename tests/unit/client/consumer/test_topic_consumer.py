"""Connections lost, consumers sent away, seeks: nothing is shown twice that was acknowledged, nothing is missed."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import ConnectionLost, Misuse, NotAuthorized
from magnetar.client.consumer.ack.nacks import NackBackoff
from magnetar.client.consumer.config import ConsumerConfig, SubscriptionType
from magnetar.client.consumer.consumer import Consumer
from magnetar.client.message import MessageId
from magnetar.client.schema import BYTES
from magnetar.wire import commands
from magnetar.wire.proto import pb
from tests.support.broker_script import K, World, a_world, batch, single
from tests.unit.client.consumer.test_consumer import values

pytestmark = pytest.mark.real_clock


async def attached_again(world: World, times: int) -> None:
    await world.broker.until(lambda: len(world.broker.said(K.SUBSCRIBE)) == times)
    await world.broker.until(lambda: len(world.broker.said(K.FLOW)) >= times)


async def delivered(consumer: Consumer[bytes], count: int) -> None:
    """Answers come in order: whatever was pushed before this one is there."""
    await consumer.last_message_id()
    assert consumer.queued == count


async def test_open_cancelled_at_success_leaves_nothing(world: World):
    asked = ConsumerConfig("s")
    consumer: Consumer[bytes] = Consumer(world.lookup, "t", asked, schema=BYTES)
    part = consumer._new_part("persistent://public/default/t", asked, 10)
    opening = asyncio.create_task(part.open(5))
    while part.connection is None:  # noqa: ASYNC110 - the very turn is meant
        await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert (await world.broker.until_said(K.CLOSE_CONSUMER)).consumer_id == part.id
    assert part.connection is None


async def test_reconnect_discards_queue_and_redelivers_everything(world: World):
    consumer = await world.consumer(queue_messages=10)
    for entry in range(4):
        world.broker.push(entry, single(b"m%d" % entry))
    assert await values(consumer, 1) == [b"m0"]
    await delivered(consumer, 3)
    world.broker.drop()
    await attached_again(world, 2)
    assert consumer.queued == 0
    assert world.broker.said(K.FLOW)[-1].messagePermits == 10
    for entry in range(4):
        world.broker.push(entry, single(b"m%d" % entry), redelivery_count=1)
    assert await values(consumer, 4) == [b"m0", b"m1", b"m2", b"m3"]
    assert consumer.counters.attaches == 2


async def test_pending_acknowledgements_precede_permits_after_reconnect(world: World):
    consumer = await world.consumer(ack_group_s=3600)
    world.broker.push(0, single(b"x"))
    await consumer.acknowledge(await consumer.receive(60))
    world.broker.drop()
    await attached_again(world, 2)
    kinds = [command.type for command in world.broker.heard if command.type in (K.SUBSCRIBE, K.ACK, K.FLOW)]
    assert kinds == [K.SUBSCRIBE, K.FLOW, K.SUBSCRIBE, K.ACK, K.FLOW]


async def test_what_waits_to_be_acknowledged_is_not_shown_again(world: World):
    consumer = await world.consumer(ack_group_s=3600)
    world.broker.push(0, single(b"x"))
    await consumer.acknowledge(await consumer.receive(60))
    world.broker.push(0, single(b"x"), redelivery_count=1)
    world.broker.push(1, single(b"y"))
    assert await values(consumer, 1) == [b"y"]
    assert consumer.counters.duplicates == 1


async def test_of_batch_delivered_again_only_rest_is_shown(world: World):
    consumer = await world.consumer(ack_group_s=0)
    world.broker.push(0, batch(b"a", b"b", b"c"))
    received = [await consumer.receive(60) for _ in range(3)]
    await consumer.acknowledge(received[1])
    world.broker.drop()
    await attached_again(world, 2)
    world.broker.push(0, batch(b"a", b"b", b"c"), redelivery_count=1)
    again = [await consumer.receive(60) for _ in range(2)]
    assert [item.data for item in again] == [b"a", b"c"]
    await consumer.acknowledge(received[0])  # of the first delivery
    await consumer.acknowledge(again[1])
    await world.broker.until(lambda: world.broker.acked() == [(1, 0, [])])


async def test_consumer_sent_away_comes_back_where_it_is_told_to(world: World):
    consumer = await world.consumer()
    lookups = len(world.broker.said(K.LOOKUP))
    consumer_id = next(iter(world.broker.where))
    world.broker.tell(commands.close_consumer(consumer_id, url=world.broker.url))
    await attached_again(world, 2)
    assert len(world.broker.said(K.LOOKUP)) == lookups
    world.broker.push(0, single(b"x"))
    assert await values(consumer, 1) == [b"x"]


async def test_attach_succeeding_after_eviction_is_undone(world: World):
    await world.consumer()
    consumer_id = next(iter(world.broker.where))
    world.broker.silent.add(K.SUBSCRIBE)
    world.broker.tell(commands.close_consumer(consumer_id, url=world.broker.url))
    asked = await world.broker.until_said(K.SUBSCRIBE, 2)
    world.broker.tell(commands.close_consumer(consumer_id) + commands.success(asked.request_id))
    await world.broker.until_said(K.SUBSCRIBE, 3)  # until then it might be closed, and nobody would know of it
    assert [said.consumer_id for said in world.broker.said(K.CLOSE_CONSUMER)] == [consumer_id]


async def test_receipt_lost_with_connection_is_unknown_and_resent(world: World):
    consumer = await world.consumer(ack_group_s=3600)
    world.broker.push(0, single(b"x"))
    received = await consumer.receive(60)
    world.broker.silent.add(K.ACK)
    confirming = asyncio.create_task(consumer.acknowledge(received, confirm=True))
    await world.broker.until_said(K.ACK)
    world.broker.silent.clear()
    world.broker.drop()
    with pytest.raises(ConnectionLost):
        await confirming
    await attached_again(world, 2)
    await world.broker.until(lambda: world.broker.acked() == [(1, 0, []), (1, 0, [])])


async def test_receive_waits_through_lost_connection(world: World):
    consumer = await world.consumer()
    receiving = asyncio.create_task(consumer.receive())
    world.broker.drop()
    await attached_again(world, 2)
    world.broker.push(0, single(b"x"))
    assert (await receiving).data == b"x"


@pytest.mark.parametrize(
    ("inclusive", "expected"), [(False, [b"c", b"d"]), (True, [b"b", b"c", b"d"])], ids=["behind", "itself"]
)
async def test_seek_into_batch_shows_what_was_asked_for(world: World, inclusive, expected):
    consumer = await world.consumer(ack_group_s=0)
    for entry in range(5, 7):
        world.broker.push(entry, single(b"old"))
    await consumer.receive(60)
    await consumer.seek(MessageId(1, 3, -1, 1, 4), inclusive=inclusive)
    assert world.broker.said(K.SEEK)[0].message_id.entryId == 3
    assert consumer.queued == 0
    world.broker.push(2, single(b"before"))
    world.broker.push(3, batch(b"a", b"b", b"c", b"d"))
    received = [await consumer.receive(60) for _ in expected]
    assert [item.data for item in received] == expected
    for item in received:
        await consumer.acknowledge(item)
    await world.broker.until(lambda: (1, 3, []) in world.broker.acked())
    assert (1, 2, []) in world.broker.acked()  # what a seek leaves behind is done with


async def test_seek_by_time_takes_back_what_was_queued(world: World):
    consumer = await world.consumer()
    world.broker.push(5, single(b"old"))
    await delivered(consumer, 1)
    await consumer.seek(1234)
    assert world.broker.said(K.SEEK)[0].message_publish_time == 1234
    world.broker.push(2, single(b"new"))
    assert await values(consumer, 1) == [b"new"]


async def test_broker_that_does_not_disconnect_gets_its_permits_back(world: World):
    world.broker.close_on_seek = False
    consumer = await world.consumer(queue_messages=2)
    world.broker.push(5, single(b"old"))
    world.broker.push(6, single(b"old"))
    await delivered(consumer, 2)
    await consumer.seek(MessageId.EARLIEST)
    await world.broker.until(lambda: world.broker.permits() == 4)
    world.broker.push(0, single(b"new"))
    assert await values(consumer, 1) == [b"new"]


async def test_seek_goes_through_lost_connection(world: World):
    consumer = await world.consumer()
    world.broker.silent.add(K.SEEK)
    seeking = asyncio.create_task(consumer.seek(MessageId.EARLIEST))
    await world.broker.until_said(K.SEEK)
    world.broker.silent.clear()
    world.broker.drop()
    await seeking
    assert len(world.broker.said(K.SEEK)) == 2


async def test_seek_that_is_refused_leaves_everything_as_it_was(world: World):
    consumer = await world.consumer()
    world.broker.push(0, single(b"x"))
    await delivered(consumer, 1)
    world.broker.refuse[K.SEEK] = [(4, "not you")]
    with pytest.raises(NotAuthorized):
        await consumer.seek(MessageId.EARLIEST)
    assert await values(consumer, 1) == [b"x"]


async def test_id_of_one_topic_cannot_move_several(world: World):
    consumer = await world.consumer(["a", "b"])
    with pytest.raises(Misuse):
        await consumer.seek(MessageId(1, 1))
    await consumer.seek(MessageId.EARLIEST)
    assert len(world.broker.said(K.SEEK)) == 2


@pytest.mark.parametrize(
    ("last", "mark", "available"),
    [
        (MessageId(-1, -1), MessageId(-1, -1), False),
        (MessageId(1, 4), MessageId(1, 4), False),
        (MessageId(1, 5), MessageId(1, 4), True),
    ],
)
async def test_available_is_what_stands_behind_acknowledged(world: World, last, mark, available):
    consumer = await world.consumer()
    world.broker.last, world.broker.mark = last, mark
    assert await consumer.has_message_available() is available
    assert await consumer.last_message_id() == last


async def test_available_is_what_stands_behind_message_taken_last(world: World):
    consumer = await world.consumer()
    world.broker.last = MessageId(1, 0, batch_index=1)
    world.broker.push(0, batch(b"a", b"b"))
    await consumer.receive(60)
    assert await consumer.has_message_available()
    await consumer.receive(60)
    assert not await consumer.has_message_available()


async def test_messages_on_their_way_before_redelivery_of_everything_are_dropped(world: World):
    consumer = await world.consumer(queue_messages=10)
    for entry in range(3):
        world.broker.push(entry, single(b"m%d" % entry), epoch=0)
    assert await values(consumer, 1) == [b"m0"]
    await consumer.redeliver_unacknowledged()
    asked = await world.broker.until_said(K.REDELIVER_UNACKNOWLEDGED_MESSAGES)
    assert (len(asked.message_ids), asked.consumer_epoch) == (0, 1)
    world.broker.push(3, single(b"late"), epoch=0)
    for entry in range(3):
        world.broker.push(entry, single(b"m%d" % entry), epoch=1)
    assert await values(consumer, 3) == [b"m0", b"m1", b"m2"]


async def test_subscription_kinds_of_readers_are_sent_correctly(world: World):
    await world.consumer(type=SubscriptionType.SHARED, subscription="mine", name="me")
    said = world.broker.said(K.SUBSCRIBE)[0]
    assert (said.subType, said.subscription, said.consumer_name) == (pb.CommandSubscribe.Shared, "mine", "me")


async def test_client_that_goes_away_ends_its_consumers():
    async with a_world() as world:
        consumer = await world.consumer()
        receiving = asyncio.create_task(consumer.receive())
        await asyncio.sleep(0)
        await consumer.close()
        with pytest.raises(Exception, match="closed"):
            await receiving


async def test_cancelled_close_continues_and_second_close_waits(world: World):
    consumer = await world.consumer()
    world.broker.silent.add(K.CLOSE_CONSUMER)
    closing = asyncio.create_task(consumer.close())
    closed = await world.broker.until_said(K.CLOSE_CONSUMER)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    again = asyncio.create_task(consumer.close())
    await asyncio.sleep(0)
    assert not again.done()
    world.broker.peers[0].write(commands.success(closed.request_id))
    await again


async def test_listener_may_close_its_own_consumer(world: World):
    async def listener(consumer, received):
        await consumer.close()

    consumer = await world.consumer(listener=listener)
    world.broker.push(0, single(b"x"))
    await world.broker.until_said(K.CLOSE_CONSUMER)
    await consumer.close()


async def test_messages_that_nobody_keeps_are_shown_all_and_never_acknowledged(world: World):
    consumer = await world.consumer("non-persistent://public/default/t", ack_group_s=0, nack=NackBackoff(0, 0))
    for number in range(3):
        world.broker.push(0, single(b"m%d" % number), ledger=0)
        received = await consumer.receive(60)
        assert received.data == b"m%d" % number
        await consumer.acknowledge(received)
        await consumer.negative_acknowledge(received)
    await consumer.acknowledge_cumulative(received, confirm=True)
    await consumer.close()
    assert world.broker.said(K.ACK) == []
    assert world.broker.said(K.REDELIVER_UNACKNOWLEDGED_MESSAGES) == []


async def test_every_attach_of_one_consumer_has_same_name(world: World):
    world.broker.partitions["persistent://public/default/t"] = 2
    await world.consumer()
    world.broker.drop()
    await world.broker.until(lambda: len(world.broker.said(K.SUBSCRIBE)) == 4)
    [name] = {said.consumer_name for said in world.broker.said(K.SUBSCRIBE)}
    assert len(name) == 10
