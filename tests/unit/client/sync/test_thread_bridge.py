"""What crosses between threads and the loop of a blocking consumer, on the client's own loop thread."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from magnetar.client.consumer.scalable.queue.consumer import QueueConsumer
from magnetar.client.sync.thread_bridge import ThreadBridge
from magnetar.runtime.portal import portal
from magnetar.wire import commands
from magnetar.wire.proto import pb
from tests.support.broker_script import single
from tests.unit.client.consumer.scalable.queue.test_consumer import World, a_world
from tests.unit.client.world import turns


def on_the_loop(body: Callable[[World, ThreadBridge[bytes]], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with a_world() as world:
            consumer: QueueConsumer[bytes] = world.consumer
            await body(world, ThreadBridge(portal(), consumer))

    portal().run(whole, 60)


def test_acknowledgement_of_reattached_segment_is_sent():
    async def body(world: World, crossing: ThreadBridge[bytes]) -> None:
        world.scaled.deliver(0, 3, single(b"m"))
        message = await world.consumer.receive(60)
        id = world.scaled.consumer(0)
        world.scaled.refusals[world.scaled.name(0)] = [pb.TopicNotFound]
        world.scaled.consumers.pop(id)[1].write(commands.close_consumer(id))
        await turns(lambda: message._delivery.source.closed)
        await world.on(0)
        crossing.acks.put(message)
        await world.broker.until(lambda: world.acks() == [(100, 3)])

    on_the_loop(body)


def test_pulled_batch_respects_bytes_and_has_one_message():
    async def body(world: World, crossing: ThreadBridge[bytes]) -> None:
        for entry in range(4):
            world.scaled.deliver(0, entry, single(b"12345"))
        await turns(lambda: world.consumer.queued == 4)
        crossing._stock()
        assert [len(crossing.take_batch(10, bytes_max)) for bytes_max in (1, 6, 100)] == [1, 2, 1]

    on_the_loop(body)
