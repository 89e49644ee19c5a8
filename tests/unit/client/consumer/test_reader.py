"""Readers: they start where they are told, and after a lost connection behind what was read last."""

from __future__ import annotations

import pytest

from magnetar.client.consumer.config import ConsumerConfig
from magnetar.client.consumer.reader import Reader
from magnetar.client.message import MessageId
from magnetar.client.schema import BYTES
from magnetar.wire.proto import pb
from tests.support.broker_script import K, World, batch, single
from tests.unit.client.consumer.test_topic_consumer import attached_again

pytestmark = pytest.mark.real_clock


async def a_reader(world: World, start: MessageId = MessageId.EARLIEST, *, inclusive: bool = False) -> Reader[bytes]:
    asked = ConsumerConfig("reader-1", durable=False, start=start, start_inclusive=inclusive)
    reader: Reader[bytes] = Reader(world.lookup, "t", asked, schema=BYTES)
    world.made.append(reader)
    await reader._start()
    return reader


def starts(world: World) -> list[tuple[int, int, int]]:
    return [
        (said.start_message_id.ledgerId, said.start_message_id.entryId, said.start_message_id.batch_index)
        for said in world.broker.said(K.SUBSCRIBE)
    ]


async def test_reader_is_not_durable_and_reports_progress_per_entry(world: World):
    reader = await a_reader(world)
    said = world.broker.said(K.SUBSCRIBE)[0]
    assert (said.durable, said.subType) == (False, pb.CommandSubscribe.Exclusive)
    assert said.start_message_id.ledgerId == (1 << 64) - 1
    world.broker.push(0, batch(b"a", b"b"))
    world.broker.push(1, single(b"c"))
    assert [(await reader.receive(60)).data for _ in range(3)] == [b"a", b"b", b"c"]
    ack = await world.broker.until_said(K.ACK)
    assert (ack.ack_type, ack.message_id[0].entryId) == (pb.CommandAck.Cumulative, 1)


async def test_reader_hides_what_stands_before_its_start(world: World):
    reader = await a_reader(world, MessageId(1, 3, -1, 0, 2))
    assert starts(world) == [(1, 3, 0)]
    world.broker.push(3, batch(b"a", b"b"))
    assert (await reader.receive(60)).data == b"b"


async def test_after_loss_it_goes_on_behind_what_was_read_last(world: World):
    reader = await a_reader(world)
    world.broker.push(0, batch(b"a", b"b", b"c"))
    assert [(await reader.receive(60)).data for _ in range(2)] == [b"a", b"b"]
    world.broker.drop()
    await attached_again(world, 2)
    assert starts(world)[1] == (1, 0, 1)
    world.broker.push(0, batch(b"a", b"b", b"c"))
    assert (await reader.receive(60)).data == b"c"


async def test_entry_counts_as_read_when_complete(world: World):
    """What is told late may reach the broker of the next connection: that one would not give the rest of the batch."""

    reader = await a_reader(world)
    world.broker.push(0, batch(b"a", b"b"))
    assert (await reader.receive(60)).data == b"a"
    world.broker.drop()
    await attached_again(world, 2)
    assert world.broker.said(K.ACK) == []
    world.broker.push(0, batch(b"a", b"b"))
    assert (await reader.receive(60)).data == b"b"
    ack = await world.broker.until_said(K.ACK)
    assert ack.message_id[0].entryId == 0


async def test_at_end_of_topic_it_remembers_where_that_was(world: World):
    world.broker.mark = MessageId(7, 41)
    await a_reader(world, MessageId.LATEST)
    world.broker.drop()
    await attached_again(world, 2)
    assert starts(world)[1][:2] == (7, 41)


async def test_last_message_itself(world: World):
    world.broker.last = MessageId(7, 41)
    reader = await a_reader(world, MessageId.LATEST, inclusive=True)
    assert world.broker.said(K.SEEK)[0].message_id.entryId == 41
    world.broker.push(41, single(b"last"), ledger=7)
    assert (await reader.receive(60)).data == b"last"


async def test_available_between_start_and_end(world: World):
    reader = await a_reader(world)
    assert not await reader.has_message_available()
    world.broker.last = MessageId(1, 0)
    assert await reader.has_message_available()
    world.broker.push(0, single(b"x"))
    await reader.receive(60)
    assert not await reader.has_message_available()
    behind = await a_reader(world, MessageId(1, 0))
    assert not await behind.has_message_available()
    itself = await a_reader(world, MessageId(1, 0), inclusive=True)
    assert await itself.has_message_available()


async def test_seek_starts_anew_after_loss_too(world: World):
    reader = await a_reader(world)
    world.broker.push(5, single(b"x"))
    await reader.receive(60)
    await reader.seek(MessageId(1, 2), inclusive=True)
    assert starts(world)[-1][:2] == (1, 2)
    world.broker.push(2, single(b"again"))
    assert [item.data async for item in _first(reader)] == [b"again"]


async def _first(reader: Reader[bytes]):
    async for item in reader:
        yield item
        return
