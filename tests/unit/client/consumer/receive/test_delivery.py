"""What a consumer with little room does with messages in chunks, where others of their key come behind them."""

from __future__ import annotations

import tracemalloc

import pytest

from magnetar.base.errors import LimitExceeded
from magnetar.base.limits import CHUNKED_BYTES_MAX, CHUNKED_KEYED_BYTES_MAX
from magnetar.client.consumer.config import SubscriptionType
from magnetar.wire import message
from magnetar.wire.proto import pb
from tests.support.broker_script import World, single

pytestmark = pytest.mark.real_clock


def first_chunk(sequence: int, claimed: int) -> bytes:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=sequence, publish_time=1, uuid=f"large-{sequence}")
    metadata.num_chunks_from_msg, metadata.total_chunk_msg_size, metadata.chunk_id = 2, claimed, 0
    return message.close_entry(metadata, b"x")


async def test_chunks_are_not_deferred_where_consumers_share_by_key(world: World):
    """H-R2: what is asked for again comes behind others of its key."""

    consumer = await world.consumer(type=SubscriptionType.KEY_SHARED, chunked_pending_max=1)
    world.broker.push(0, first_chunk(0, CHUNKED_BYTES_MAX))
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1, partition_key="k")
    for entry, chunk in enumerate(message.chunks(metadata, b"older", 3), 1):
        world.broker.push(entry, chunk)
    world.broker.push(3, single(b"younger", partition_key="k"))
    assert [(await consumer.receive(60)).data for _ in range(2)] == [b"older", b"younger"]


async def test_key_shared_consumer_over_bound_ends_with_named_error(world: World):
    consumer = await world.consumer(type=SubscriptionType.KEY_SHARED)
    for sequence in range(5):
        world.broker.push(sequence, first_chunk(sequence, CHUNKED_BYTES_MAX))
    with pytest.raises(LimitExceeded, match=f"bytes_max={CHUNKED_KEYED_BYTES_MAX}"):
        await consumer.receive(60)
    assert world.broker.acked() == []


def false_batch(claim: int) -> bytes:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, num_messages_in_batch=claim)
    return message.close_entry(metadata, b"x" * 20)


@pytest.mark.parametrize(("extensions", "taken"), [(0, 2**31 - 1), (1, 1)])
async def test_false_count_of_batch_is_discarded_before_it_costs(world: World, extensions: int, taken: int):
    """D16: bits were made for 2^31 messages, 587 MiB. Pulsar takes as many permits, brokers of ours one."""

    consumer = await world.consumer(type=SubscriptionType.SHARED)
    [part] = consumer._parts.by_topic.values()
    part.connection.features.magnetar_extensions = extensions
    asked = world.broker.permits()
    tracemalloc.start()
    try:
        world.broker.push(0, false_batch(2**31 - 1))
        world.broker.push(1, single(b"next"))
        assert (await consumer.receive(60)).data == b"next"
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    await world.broker.until(lambda: (1, 0, []) in world.broker.acked())
    assert world.broker.permits() - asked + part.queue.room == taken + 1
