"""Message TTL: what durable subscriptions do not acknowledge in time is acknowledged for them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from magnetar.base.ids import BEFORE_ALL
from magnetar.ledger.managed import ManagedConfig
from magnetar.topic.subscriptions.subscription import EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED
from tests.unit.topic.world import Out, World, ack, pass_s, settle, subscription_of

TTL_S = 100


async def published(world: World, topic: object, *ages_s: int) -> list[object]:
    """One message of each age, the oldest first."""
    now_ms = world.runtime.wall()
    return [
        (await world.publish(topic, f"{age}s", publish_time=now_ms - age * 1000))[0]  # type: ignore[arg-type]
        for age in ages_s
    ]


@pytest.mark.parametrize("kind", [EXCLUSIVE, FAILOVER, SHARED, KEY_SHARED])
async def test_messages_past_their_time_to_live_are_acknowledged(world: World, kind: int) -> None:
    topic = await world.topic(message_ttl_s=TTL_S, failover_delay_ms=0)
    consumer = await world.consumer(topic, Out(1), kind=kind)
    positions = await published(world, topic, 300, 200, 50, 10)
    ack(topic, consumer, positions[2])  # type: ignore[arg-type]
    await topic.maintain()
    one = subscription_of(topic)
    assert one.backlog == 1
    assert one.mark >= positions[1]  # type: ignore[operator]
    topic.remove_consumer(consumer)
    late = Out(2)
    await world.consumer(topic, late, kind=kind, permits=10)
    await settle()
    assert late.texts == ["10s"]


@pytest.mark.parametrize("kind", [EXCLUSIVE, SHARED, KEY_SHARED])
async def test_expired_messages_do_not_reach_consumer_that_waits(world: World, kind: int) -> None:
    topic = await world.topic(message_ttl_s=TTL_S)
    out = Out()
    consumer = await world.consumer(topic, out, kind=kind)
    await published(world, topic, 300, 200, 50)
    await topic.maintain()
    consumer.flow(10)
    await settle()
    assert out.texts == ["50s"]


async def test_without_time_to_live_nothing_expires(world: World) -> None:
    topic = await world.topic()
    await world.consumer(topic, Out(), kind=SHARED)
    await published(world, topic, 10**6)
    await topic.maintain()
    assert subscription_of(topic).backlog == 1


async def test_reader_keeps_messages_past_their_time_to_live(world: World) -> None:
    topic = await world.topic(message_ttl_s=TTL_S)
    await published(world, topic, 300, 50)
    out = Out()
    reader = await world.consumer(topic, out, subscription="r", kind=EXCLUSIVE, durable=False, start=BEFORE_ALL)
    await topic.maintain()
    reader.flow(10)
    await settle()
    assert out.texts == ["300s", "50s"]


async def test_expiry_is_checked_once_interval(world: World) -> None:
    topic = await world.topic(message_ttl_s=TTL_S, expiry_check_s=300)
    await world.consumer(topic, Out(), kind=SHARED)
    await topic.maintain()
    await published(world, topic, 200)
    await topic.maintain()
    assert subscription_of(topic).backlog == 1
    await pass_s(300)
    await topic.maintain()
    assert subscription_of(topic).backlog == 0


class Untrusted:
    trusted = False

    def now_ms(self) -> int:
        return 2**53


async def test_clock_that_is_not_trusted_expires_nothing(world: World) -> None:
    world.config = replace(world.config, clock=Untrusted())
    assert isinstance(world.config, ManagedConfig)
    topic = await world.topic(message_ttl_s=TTL_S)
    await world.consumer(topic, Out(), kind=SHARED)
    await published(world, topic, 300)
    await topic.maintain()
    assert subscription_of(topic).backlog == 1


async def test_sealed_segment_that_expires_is_drained(world: World) -> None:
    """The children of a stream subscription wait for that, and come in order then."""

    topic = await world.topic("segment://public/default/x/0000-ffff-0", message_ttl_s=TTL_S)
    await topic.subscriptions.create("s", topic.managed.last, admitted=True)
    await published(world, topic, 300, 200)
    end = (await topic.seal("op", 1)).end  # type: ignore[arg-type]
    assert not subscription_of(topic).cursor.drained(end)
    await topic.maintain()
    assert subscription_of(topic).cursor.drained(end)
