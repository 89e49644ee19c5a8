"""Entries for later: never early, one timer for all of them, found again after everything was forgotten."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from magnetar.base.ids import Position
from magnetar.base.limits import (
    DELAY_ALARM_S_MAX,
    DELAYED_SLOT_BYTES,
    DELAYED_STEP_BYTES,
    STATE_CHARGE_STEP_BYTES,
    STATE_LOOK_S,
)
from magnetar.topic.dispatch.delay_queue import DelayQueue
from magnetar.topic.subscriptions.consumer import KeyShared
from magnetar.topic.subscriptions.subscription import EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED
from magnetar.topic.topic import Topic
from tests.unit.topic.world import Out, World, ack, an_entry, pass_s, settle, subscription_of


def timers() -> int:
    """Timers of the loop that will ring."""
    loop: Any = asyncio.get_running_loop()
    return sum(1 for handle in loop._scheduled if not handle.cancelled())


async def delayed(world: World, topic: Topic, *delays_s: float) -> list[Position]:
    wall = world.runtime.wall()
    entries = [an_entry(f"{delay}", deliver_at_time=wall + int(delay * 1000)) for delay in delays_s]
    return await world.store(topic, *entries)


@pytest.mark.parametrize("kind", [SHARED, KEY_SHARED])
async def test_each_entry_comes_when_it_is_due_and_not_before(world: World, kind: int) -> None:
    topic = await world.topic()
    out = Out()
    await world.consumer(topic, out, kind=kind, permits=100)
    await delayed(world, topic, 3, 1, 2)
    await world.publish(topic, "now")
    assert out.texts == ["now"]
    await pass_s(0.9)
    assert out.texts == ["now"]
    await pass_s(0.3)
    assert out.texts == ["now", "1"]
    await pass_s(2)
    assert out.texts == ["now", "1", "2", "3"]


@pytest.mark.parametrize("kind", [EXCLUSIVE, FAILOVER])
async def test_single_active_consumer_gets_delayed_entries_at_once(world: World, kind: int) -> None:
    topic = await world.topic()
    out = Out()
    await world.consumer(topic, out, kind=kind, permits=100)
    await delayed(world, topic, 60)
    await pass_s(topic.settings.failover_delay_ms / 1000)
    assert out.texts == ["60"]


async def test_sharers_get_delayed_entries_immediately_to_keep_order(world: World) -> None:
    halves = KeyShared(sticky=True, ranges=[(0, 32767), (32768, 65535)], out_of_order=False, buckets=True)

    topic = await world.topic()
    outs = [Out(number) for number in range(2)]
    for number, out in enumerate(outs):
        await world.consumer(topic, out, f"c{number}", kind=KEY_SHARED, permits=100, key_shared=halves)
    await delayed(world, topic, 60)
    await world.publish(topic, "now")
    assert sorted((out.texts for out in outs), key=len) == [[], ["60", "now"]]  # both without a key: one bucket


@pytest.mark.parametrize("kind", [SHARED, KEY_SHARED])
async def test_delays_survive_restart_and_change_of_consumers(world: World, kind: int) -> None:
    topic = await world.topic()
    consumer = await world.consumer(topic, Out(1), kind=kind, permits=100)
    await delayed(world, topic, 5, 10)
    topic.remove_consumer(consumer)
    second = Out(2)
    await world.consumer(topic, second, kind=kind, permits=100)
    await pass_s(6)
    assert second.texts == ["5"]
    await topic.close()
    topic = await world.topic()
    third = Out(3)
    await world.consumer(topic, third, kind=kind, permits=100)
    await settle()
    assert third.texts == ["5"]
    await pass_s(5)
    assert third.texts == ["5", "10"]


@pytest.mark.parametrize("kind", [SHARED, KEY_SHARED])
async def test_entry_acknowledged_before_it_is_due_does_not_come(world: World, kind: int) -> None:
    topic = await world.topic()
    out = Out()
    consumer = await world.consumer(topic, out, kind=kind, permits=100)
    [position, _] = await delayed(world, topic, 1, 2)
    ack(topic, consumer, position)
    await pass_s(3)
    assert out.texts == ["2"]


async def test_switched_off_nothing_is_held_back(world: World) -> None:
    topic = await world.topic(delayed_delivery=False)
    out = Out()
    await world.consumer(topic, out, kind=SHARED, permits=100)
    await delayed(world, topic, 60)
    assert out.texts == ["60"]


async def test_thousands_of_delays_cost_one_timer(world: World) -> None:
    topic = await world.topic()
    before = timers()
    await world.consumer(topic, Out(), kind=SHARED, permits=100)
    await delayed(world, topic, *[1000 - number for number in range(50)])
    assert timers() - before == 1
    for number in range(20):
        consumer = await world.consumer(topic, Out(number), kind=SHARED, permits=100)
        topic.remove_consumer(consumer)
    assert timers() - before == 1


async def test_delay_of_years_is_looked_at_again_in_between(world: World) -> None:
    topic = await world.topic()
    ripe: list[list[Position]] = []
    delay = DelayQueue(topic, ripe.append)
    body_of = an_entry("x", deliver_at_time=world.runtime.wall() + 10**11)
    await world.store(topic, body_of)
    stored = topic.managed.cached(topic.managed.last, 1, 1)
    assert stored is not None
    assert delay.holds(stored, 0)
    for _ in range(3):
        await pass_s(DELAY_ALARM_S_MAX + 1)
        assert ripe == []
        assert timers() == 1
    delay.clear()
    assert timers() == 0


@pytest.mark.parametrize("kind", [SHARED, KEY_SHARED])
async def test_due_entries_without_permits_wait_for_them(world: World, kind: int) -> None:
    topic = await world.topic()
    out = Out()
    consumer = await world.consumer(topic, out, kind=kind, permits=1)
    await delayed(world, topic, 1, 1, 1)
    await pass_s(2)
    assert out.texts == ["1"]
    consumer.flow(5)
    await settle()
    assert out.texts == ["1", "1", "1"]


@pytest.mark.parametrize("kind", [SHARED, KEY_SHARED])
async def test_full_account_stops_reading_ahead_until_there_is_room(world: World, kind: int) -> None:
    account = world.config.state
    topic = await world.topic()
    out = Out()
    await world.consumer(topic, out, kind=kind, permits=1_000)
    count = STATE_CHARGE_STEP_BYTES // DELAYED_STEP_BYTES + 10
    positions = await delayed(world, topic, *[100.0 + number for number in range(count)])
    assert account.bytes >= STATE_CHARGE_STEP_BYTES
    account.bytes += account.bytes_max  # of other subscriptions
    await world.publish(topic, "behind")
    assert out.texts == []
    account.bytes -= account.bytes_max
    await pass_s(STATE_LOOK_S + 1)
    assert out.texts == ["behind"]
    ack(topic, subscription_of(topic).consumers[0], out.delivered[0].position)
    subscription_of(topic).dispatcher.acked_to(positions[-1])
    assert account.bytes == 0


async def test_key_shared_charges_slots_of_its_delayed_positions(world: World) -> None:
    topic = await world.topic()
    await world.consumer(topic, Out(), kind=KEY_SHARED, permits=1_000)
    count = STATE_CHARGE_STEP_BYTES // DELAYED_SLOT_BYTES + 10
    await delayed(world, topic, *[100.0] * count)  # one step of the index
    assert world.config.state.bytes >= STATE_CHARGE_STEP_BYTES


async def test_full_account_leaves_small_subscription_alone(world: World) -> None:
    account = world.config.state
    account.bytes = account.bytes_max
    topic = await world.topic()
    out = Out()
    await world.consumer(topic, out, kind=SHARED, permits=100)
    await delayed(world, topic, 60, 61)
    await world.publish(topic, "now")
    assert out.texts == ["now"]
    await topic.close()
    assert account.bytes == account.bytes_max
