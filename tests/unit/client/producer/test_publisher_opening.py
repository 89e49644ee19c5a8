"""How a publisher introduces itself, what it keeps of the answer, and what it does when there is none."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import (
    ProducerBusy,
    TimedOut,
)
from magnetar.client.producer.config import ProducerConfig
from magnetar.client.producer.memory_limit import MemoryLimit
from magnetar.client.producer.publisher import Publisher
from magnetar.wire import commands, message
from magnetar.wire.proto import pb
from tests.support.publisher import TOPIC, World
from tests.unit.client.world import Link, a_broker, a_lookup

pytestmark = pytest.mark.real_clock

K = pb.BaseCommand


async def test_busy_name_fails_at_once() -> None:
    async with a_broker() as broker, a_lookup(broker) as lookup:
        broker.handlers[K.PRODUCER] = lambda link, command: (
            link.write(commands.error(command.producer.request_id, pb.ProducerBusy, "taken")) or True
        )
        publisher = Publisher(lookup, TOPIC, ProducerConfig(name="mine"), MemoryLimit())
        with pytest.raises(ProducerBusy):
            await publisher.start()
        assert len(broker.kinds(K.PRODUCER)) == 1
        assert broker.kinds(K.PRODUCER)[0].producer.user_provided_producer_name


async def test_unready_broker_is_asked_again_with_higher_epoch() -> None:
    async with a_broker() as broker, a_lookup(broker) as lookup:

        def not_yet(link: Link, command: pb.BaseCommand) -> bool:
            if command.producer.epoch >= 2:
                return False
            link.write(commands.error(command.producer.request_id, pb.ServiceNotReady, "starting"))
            return True

        broker.handlers[K.PRODUCER] = not_yet
        publisher = Publisher(lookup, TOPIC, ProducerConfig(), MemoryLimit())
        await publisher.start()
        assert [command.producer.epoch for command in broker.kinds(K.PRODUCER)] == [0, 1, 2]
        await publisher.close()


async def test_first_attach_that_never_succeeds_is_timed_out_with_reason() -> None:
    async with a_broker() as broker, a_lookup(broker) as lookup:
        broker.handlers[K.PRODUCER] = lambda link, command: (
            link.write(commands.error(command.producer.request_id, pb.ServiceNotReady, "starting")) or True
        )
        publisher = Publisher(lookup, TOPIC, ProducerConfig(operation_timeout_s=0.3), MemoryLimit())
        with pytest.raises(TimedOut, match="starting"):
            await publisher.start()


async def test_cancelled_start_leaves_no_producer_behind() -> None:
    async with a_broker() as broker, a_lookup(broker) as lookup:
        broker.handlers[K.PRODUCER] = lambda link, command: True
        publisher = Publisher(lookup, TOPIC, ProducerConfig(), MemoryLimit())
        task = asyncio.create_task(publisher.start())
        await broker.until(lambda: bool(broker.kinds(K.PRODUCER)))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await broker.until(lambda: bool(broker.kinds(K.CLOSE_PRODUCER)))


async def test_sequence_ids_go_on_where_broker_says() -> None:
    async with a_broker() as broker, a_lookup(broker) as lookup:

        def known(link: Link, command: pb.BaseCommand) -> bool:
            link.write(commands.producer_success(command.producer.request_id, "mine", last_sequence_id=41))
            return True

        broker.handlers[K.PRODUCER] = known
        for initial, expected in ((None, 42), (7, 7)):
            publisher = Publisher(
                lookup,
                TOPIC,
                ProducerConfig(name="mine", initial_sequence_id=initial, batching=None),
                MemoryLimit(),
            )
            await publisher.start()
            world = World(broker, publisher, publisher._budget)
            world.add(b"a")
            world.add(b"b", sequence=100)
            world.add(b"c")
            await publisher.flush()
            assert [one.sequence for one in broker.sent[-3:]] == [expected, 100, 101]
            await publisher.close()


async def test_topics_epoch_and_schemas_version_are_kept() -> None:
    async with a_broker() as broker, a_lookup(broker) as lookup:

        def exclusive(link: Link, command: pb.BaseCommand) -> bool:
            link.write(
                commands.producer_success(
                    command.producer.request_id, "mine", topic_epoch=5, schema_version=b"\0" * 7 + b"\3"
                )
            )
            return True

        broker.handlers[K.PRODUCER] = exclusive
        schema = pb.Schema(name="s", schema_data=b"", type=pb.Schema.String)
        opening = ProducerConfig(access_mode=pb.Exclusive, schema=schema, properties={"who": "test"}, batching=None)
        publisher = Publisher(lookup, TOPIC, opening, MemoryLimit())
        await publisher.start()
        world = World(broker, publisher, publisher._budget)
        world.add(b"a")
        await publisher.flush()
        assert message.open_entry(broker.sent[0].entry).metadata.schema_version == b"\0" * 7 + b"\3"
        broker.cut()
        await broker.until(lambda: len(broker.kinds(K.PRODUCER)) == 2)
        first, again = (command.producer for command in broker.kinds(K.PRODUCER))
        assert first.producer_access_mode == pb.Exclusive
        assert (first.schema.type, first.metadata[0].value) == (pb.Schema.String, "test")
        assert not first.HasField("topic_epoch")
        assert again.topic_epoch == 5
        await publisher.close()
