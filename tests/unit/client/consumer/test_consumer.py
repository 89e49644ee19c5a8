"""A consumer beside a broker that does as it is told: what is received, acknowledged, thrown away, and said last."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import Closed, ConsumerBusy, Misuse, NotReady, Sealed, Throttled
from magnetar.client.consumer.config import SubscriptionType
from magnetar.client.consumer.receive.waiters import NoMessage
from magnetar.client.message import MessageId
from magnetar.wire import commands, message
from magnetar.wire.proto import pb
from tests.support.broker_script import K, World, a_world, batch, single

pytestmark = pytest.mark.real_clock

SHARED = SubscriptionType.SHARED


async def values(consumer, count: int) -> list[bytes]:
    return [(await consumer.receive(60)).data for _ in range(count)]


async def test_messages_come_in_order_and_acknowledgements_in_one_group(world: World):
    consumer = await world.consumer()
    for entry in range(3):
        world.broker.push(entry, single(b"m%d" % entry))
    for entry in range(3):
        received = await consumer.receive(60)
        assert received.data == b"m%d" % entry
        await consumer.acknowledge(received)
    await world.broker.until(lambda: len(world.broker.acked()) == 3)
    assert len(world.broker.said(K.ACK)) == 1
    assert world.broker.acked() == [(1, 0, []), (1, 1, []), (1, 2, [])]
    assert (consumer.counters.messages, consumer.counters.acks, consumer.counters.bytes) == (3, 3, 6)


async def test_full_group_is_sent_at_once(world: World):
    consumer = await world.consumer(ack_group_s=3600, ack_group_max=2)
    for entry in range(4):
        world.broker.push(entry, single(b"x"))
    for _ in range(4):
        await consumer.acknowledge(await consumer.receive(60))
    await world.broker.until(lambda: len(world.broker.acked()) == 4)
    assert len(world.broker.said(K.ACK)) == 2


async def test_close_sends_what_waits_before_it_leaves(world: World):
    consumer = await world.consumer(ack_group_s=3600)
    world.broker.push(0, single(b"x"))
    await consumer.acknowledge(await consumer.receive(60))
    await consumer.close()
    kinds = [command.type for command in world.broker.heard]
    assert kinds[-2:] == [K.ACK, K.CLOSE_CONSUMER]
    with pytest.raises(Closed):
        await consumer.receive()
    with pytest.raises(Closed):
        await consumer.seek(0)
    await consumer.close()


async def test_receipt_is_awaited_and_its_refusal_is_raised_and_repeated(world: World):
    consumer = await world.consumer(ack_group_s=3600)
    world.broker.push(0, single(b"x"))
    world.broker.push(1, single(b"y"))
    first, second = await consumer.receive(60), await consumer.receive(60)
    await consumer.acknowledge(first, confirm=True)
    assert world.broker.acked() == [(1, 0, [])]
    world.broker.refuse[K.ACK] = [(14, "slowly")]
    with pytest.raises(Throttled):
        await consumer.acknowledge(second, confirm=True)
    await consumer.close()
    assert world.broker.acked()[1:] == [(1, 1, []), (1, 1, [])]


async def test_batch_counts_its_messages_and_is_acknowledged_as_whole(world: World):
    consumer = await world.consumer(queue_messages=4, ack_group_s=0)
    world.broker.push(0, batch(b"a", b"b", b"c", b"d"))
    for value in (b"a", b"b", b"c", b"d"):
        received = await consumer.receive(60)
        assert (received.data, world.broker.acked()) == (value, [])
        await consumer.acknowledge(received)
    await world.broker.until(lambda: world.broker.acked() == [(1, 0, [])])
    await world.broker.until(lambda: world.broker.permits() == 8)


async def test_batch_index_acknowledges_parts_and_hides_them(world: World):
    consumer = await world.consumer(ack_batch_index=True, ack_group_s=0)
    world.broker.push(0, batch(b"a", b"b", b"c"), ack_set=[0b110])
    received = await consumer.receive(60)
    assert received.data == b"b"
    await consumer.acknowledge(received)
    await world.broker.until(lambda: world.broker.acked() == [(1, 0, [0b100])])


async def test_cumulative_acknowledgements(world: World):
    consumer = await world.consumer(ack_group_s=0)
    for entry in range(3):
        world.broker.push(entry, single(b"x"))
    received = [await consumer.receive(60) for _ in range(3)]
    await consumer.acknowledge_cumulative(received[1])
    await consumer.acknowledge_cumulative(received[2].id, confirm=True)
    acks = [(ack.ack_type, ack.message_id[0].entryId) for ack in world.broker.said(K.ACK)]
    assert acks == [(pb.CommandAck.Cumulative, 1), (pb.CommandAck.Cumulative, 2)]


async def test_only_one_who_gets_everything_acknowledges_cumulatively(world: World):
    consumer = await world.consumer(type=SHARED)
    world.broker.push(0, single(b"x"))
    received = await consumer.receive(60)
    with pytest.raises(Misuse):
        await consumer.acknowledge_cumulative(received)


async def test_acknowledging_by_id(world: World):
    consumer = await world.consumer(ack_group_s=0)
    world.broker.push(0, single(b"x"))
    world.broker.push(1, batch(b"a", b"b"))
    for received in [await consumer.receive(60) for _ in range(3)]:
        kept = MessageId.from_bytes(received.id.to_bytes())
        await consumer.acknowledge(kept)
    await world.broker.until(lambda: world.broker.acked() == [(1, 0, []), (1, 1, [])])
    with pytest.raises(Misuse):
        await consumer.acknowledge(MessageId(1, 5, -1, 3))


async def test_another_consumers_message_is_refused(world: World):
    first, second = await world.consumer("a"), await world.consumer("b")
    world.broker.push(0, single(b"x"))
    received = await second.receive(60)
    with pytest.raises(Misuse):
        await first.acknowledge(received)


async def test_unreadable_entry_is_discarded_with_reason(world: World):
    consumer = await world.consumer()
    damaged = bytearray(single(b"x"))
    damaged[-1] ^= 1
    world.broker.push(0, bytes(damaged))
    world.broker.push(1, single(b"good"))
    assert await values(consumer, 1) == [b"good"]
    ack = await world.broker.until_said(K.ACK)
    assert ack.validation_error == pb.CommandAck.ChecksumMismatch
    assert (ack.message_id[0].entryId, consumer.counters.discarded) == (0, 1)


async def test_encrypted_message_is_neither_shown_nor_acknowledged(world: World):
    consumer = await world.consumer()
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    metadata.encryption_keys.add(key="k", value=b"v")
    world.broker.push(0, message.single(metadata, b"secret"))
    world.broker.push(1, single(b"plain"))
    assert await values(consumer, 1) == [b"plain"]
    await consumer.close()
    assert world.broker.acked() == []


async def test_chunks_form_one_message_and_are_all_acknowledged(world: World):
    consumer = await world.consumer(ack_group_s=0)
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=3, publish_time=1)
    for entry, chunk in enumerate(message.chunks(metadata, b"0123456789", 4)):
        world.broker.push(entry, chunk)
    received = await consumer.receive(60)
    assert received.data == b"0123456789"
    assert str(received.id) == "1:0:-1;1:2:-1"
    await consumer.acknowledge(received)
    await world.broker.until(lambda: world.broker.acked() == [(1, 0, []), (1, 1, []), (1, 2, [])])


async def test_end_of_topic_ends_iteration(world: World):
    consumer = await world.consumer()
    world.broker.push(0, single(b"last"))
    world.broker.tell(commands.reached_end_of_topic(next(iter(world.broker.where))))
    assert [received.data async for received in consumer] == [b"last"]
    assert consumer.reached_end
    with pytest.raises(Sealed):
        await consumer.receive()


async def test_becoming_active_is_told(world: World):
    told: list[bool] = []
    heard = asyncio.Event()

    def on_active(consumer, topic, is_active):
        told.append(is_active)
        heard.set()

    consumer = await world.consumer(type=SubscriptionType.FAILOVER, on_active=on_active)
    for is_active in (False, True):
        heard.clear()
        world.broker.tell(commands.active_consumer_change(next(iter(world.broker.where)), is_active))
        await heard.wait()
    assert told == [False, True]
    assert consumer.is_active


async def test_listener_runs_in_order_and_failure_is_negative_acknowledgement(world: World):
    heard: list[bytes] = []
    done = asyncio.Event()

    async def listener(consumer, received):
        heard.append(received.data)
        if received.data == b"m1":
            raise ValueError("not this one")
        await consumer.acknowledge(received)
        if len(heard) == 3:
            done.set()

    consumer = await world.consumer(type=SHARED, listener=listener)
    for entry in range(3):
        world.broker.push(entry, single(b"m%d" % entry))
    await done.wait()
    assert heard == [b"m0", b"m1", b"m2"]
    assert consumer.counters.nacks == 1


async def test_nothing_in_time(world: World):
    consumer = await world.consumer()
    with pytest.raises(NoMessage):
        await consumer.receive(0)
    assert await consumer.receive_batch(5, timeout_s=0) == []
    with pytest.raises(Misuse):
        await consumer.receive_batch(0)


async def test_paused_nothing_more_is_asked_for(world: World):
    consumer = await world.consumer(paused=True, queue_messages=2)
    assert world.broker.permits() == 0
    consumer.resume()
    await world.broker.until(lambda: world.broker.permits() == 2)


async def test_without_queue_each_receive_asks_for_one(world: World):
    consumer = await world.consumer(queue_messages=0)
    assert world.broker.permits() == 0
    for entry in range(3):
        receiving = asyncio.create_task(consumer.receive(60))
        await world.broker.until(lambda entry=entry: world.broker.permits() == entry + 1)
        world.broker.push(entry, single(b"x"))
        await receiving
    assert world.broker.permits() == 3


async def test_refused_subscription_is_raised_and_nothing_stays(world: World):
    world.broker.refuse[K.SUBSCRIBE] = [(5, "taken")]
    with pytest.raises(ConsumerBusy, match="taken"):
        await world.consumer()
    assert world.made[0].closed


async def test_subscription_that_is_not_ready_is_tried_again(world: World):
    world.broker.refuse[K.SUBSCRIBE] = [(6, "not yet"), (6, "not yet")]
    consumer = await world.consumer()
    assert consumer.connected
    assert len(world.broker.said(K.SUBSCRIBE)) == 3


async def test_unsubscribing_closes_without_word_more(world: World):
    consumer = await world.consumer()
    await consumer.unsubscribe(force=True)
    assert world.broker.said(K.UNSUBSCRIBE)[0].force
    assert world.broker.said(K.CLOSE_CONSUMER) == []
    assert consumer.closed


async def test_start_that_is_cancelled_leaves_nothing_behind(world: World):
    world.broker.silent.add(K.SUBSCRIBE)
    starting = asyncio.create_task(world.consumer())
    await world.broker.until_said(K.SUBSCRIBE)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await world.broker.until_said(K.CLOSE_CONSUMER)  # it may have been attached all the same


async def test_asking_consumer_that_is_not_attached_says_that_nothing_happened():
    async with a_world() as world:
        consumer = await world.consumer()
        for part in consumer._parts.by_topic.values():
            part.timeout_s = 0.05
        world.broker.refuse[K.SUBSCRIBE] = [(6, "not yet")] * 1000
        world.broker.drop()
        await world.broker.until(lambda: len(world.broker.said(K.SUBSCRIBE)) > 1)
        with pytest.raises(NotReady):
            await consumer.unsubscribe()
        assert world.broker.said(K.UNSUBSCRIBE) == []


async def test_inconsistent_chunks_are_discarded_together(world: World):
    consumer = await world.consumer(type=SHARED, ack_group_s=0)
    metadata = pb.MessageMetadata(
        producer_name="p",
        sequence_id=4,
        publish_time=1,
        uuid="p-4",
        num_chunks_from_msg=2,
        total_chunk_msg_size=8,
        uncompressed_size=100,
        compression=3,
    )
    for place in range(2):
        metadata.chunk_id = place
        world.broker.push(place, message.close_entry(metadata, b"junk"))
    world.broker.push(5, single(b"good"))
    assert await values(consumer, 1) == [b"good"]
    await world.broker.until(lambda: {item[1] for item in world.broker.acked()} == {0, 1})
    assert all(ack.HasField("validation_error") for ack in world.broker.said(K.ACK))
