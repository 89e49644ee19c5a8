"""Compressed entries count with what they become, before they become it."""

from __future__ import annotations

import tracemalloc

import pytest

from magnetar.client.message import MessageId
from magnetar.wire import codec, message
from magnetar.wire.proto import pb
from tests.support.broker_script import K, World, batch, single
from tests.unit.client.consumer.test_consumer import values

pytestmark = pytest.mark.real_clock

MIB = 1 << 20
BYTES_MAX = 2 * MIB


def a_bomb(size: int = MIB, *, first: bytes = b"", compression: int = codec.ZSTD) -> bytes:
    """A message of so many bytes, which is small as long as it is compressed."""
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    return message.single(metadata, first + bytes(size - len(first)), compression)


def chunks_of(size: int, uuid: int) -> list[bytes]:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=uuid, publish_time=1)
    return message.chunks(metadata, bytes(size), 50, codec.ZSTD)


@pytest.mark.parametrize("compression", [codec.LZ4, codec.ZLIB, codec.ZSTD, codec.SNAPPY])
async def test_bombs_are_opened_as_far_as_inbox_has_room(world: World, compression: int):
    """D7: 24 messages of 6.4 KB took 4.8 GiB before any was received."""

    consumer = await world.consumer(queue_bytes=BYTES_MAX)
    tracemalloc.start()
    try:
        for place in range(24):
            world.broker.push(place, a_bomb(first=b"%02d" % place, compression=compression))
        [part] = consumer._parts.by_topic.values()
        found = []
        for _ in range(24):
            one = await consumer.receive(60)
            assert consumer._inbox.size <= BYTES_MAX
            found.append(one.data[:2])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == [b"%02d" % place for place in range(24)]
    assert peak < 24 * 0.5 * MIB
    assert part.intake.idle
    assert not consumer._inbox.waiting


async def test_message_larger_than_whole_inbox_is_opened_alone(world: World):
    consumer = await world.consumer(queue_bytes=BYTES_MAX)
    world.broker.push(0, single(b"before"))
    world.broker.push(1, a_bomb(3 * MIB))
    world.broker.push(2, batch(b"behind", b"it", compression=codec.LZ4))
    assert [len(data) for data in await values(consumer, 4)] == [6, 3 * MIB, 6, 2]


async def test_entries_that_wait_are_given_up_with_their_connection(world: World):
    consumer = await world.consumer(queue_bytes=BYTES_MAX)
    for place in range(8):
        world.broker.push(place, a_bomb(first=b"%d" % place))
    assert (await consumer.receive(60)).data[:1] == b"0"
    world.broker.drop()
    await world.broker.until_said(K.SUBSCRIBE, 2)
    await world.broker.until_said(K.FLOW, 2)
    assert consumer._inbox.count == 0
    assert not consumer._inbox.waiting
    for place in range(3):
        world.broker.push(place, a_bomb(first=b"%d" % place))
    assert [data[:1] for data in await values(consumer, 3)] == [b"0", b"1", b"2"]


async def test_entries_that_wait_are_skipped_by_seek(world: World):
    consumer = await world.consumer(queue_bytes=BYTES_MAX)
    world.broker.close_on_seek = False
    for place in range(8):
        world.broker.push(place, a_bomb(first=b"%d" % place))
    await consumer.receive(60)
    assert consumer._inbox.waiting
    await consumer.seek(MessageId.EARLIEST)
    assert not consumer._inbox.waiting
    world.broker.push(0, single(b"sought"))
    assert (await consumer.receive(60)).data == b"sought"


async def test_last_chunk_waits_for_room_and_others_do_not(world: World):
    consumer = await world.consumer(queue_bytes=BYTES_MAX)
    world.broker.push(0, single(b"before"))
    pieces = chunks_of(3 * MIB, 1)
    assert len(pieces) > 2
    for place, piece in enumerate(pieces, 1):
        world.broker.push(place, piece)
    assert [len(data) for data in await values(consumer, 2)] == [6, 3 * MIB]
