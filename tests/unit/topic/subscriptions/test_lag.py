"""The lag of a subscription counts messages, also inside of batches and behind gaps, and knows its oldest message."""

from __future__ import annotations

from dataclasses import replace

from magnetar.base.ids import BEFORE_ALL
from magnetar.base.limits import LAG_INTERVALS_MAX
from magnetar.layout.lag import NO_LAG, Lag
from magnetar.topic.subscriptions.subscription import Subscription
from magnetar.topic.topic import Topic
from tests.unit.topic.world import Out, World, a_batch, an_entry, gathered, send_frame, settle


async def batches(world: World, sizes: list[int], *, per_ledger: int = 4) -> tuple[Topic, Subscription]:
    """Entry n has sizes[n] messages and is published at 1000 + n."""
    world.config = replace(world.config, entries_max=per_ledger)
    topic = await world.topic()
    one = await topic.subscriptions.create("s", BEFORE_ALL)
    producer = await world.producer(topic, Out())
    for number, size in enumerate(sizes):
        texts = [f"m{number}.{index}" for index in range(size)]
        body = a_batch(texts, number, publish_time=1000 + number, num_messages_in_batch=size)
        if size == 1:
            body = an_entry(texts[0], number, publish_time=1000 + number)
        topic.publish(producer, gathered(send_frame(producer.id, number, body, num_messages=size)))
        await settle()
    return topic, one


async def test_lag_of_batches_counts_messages(world: World) -> None:
    topic, one = await batches(world, [3, 1, 5, 2, 4, 1])
    found = await one.lag.measure()
    assert (found.messages, found.oldest_ms, one.backlog) == (16, 1000, 6)
    assert found.bytes == topic.managed.bytes
    one.cursor.ack_to(topic.managed.chain.nth(1))
    found = await one.lag.measure()
    assert (found.messages, found.oldest_ms) == (12, 1002)
    one.cursor.ack_to(topic.managed.last)
    assert await one.lag.measure() == NO_LAG


async def test_acknowledged_gaps_and_partial_batches_are_subtracted(world: World) -> None:
    topic, one = await batches(world, [3, 1, 5, 2, 4, 1])
    nth = topic.managed.chain.nth
    one.cursor.ack([nth(2), nth(4)])
    assert (await one.lag.measure()).messages == 7
    one.ack(None, [(nth(0), [0b110])])  # one of three
    assert (await one.lag.measure()).messages == 6
    one.cursor.ack([nth(0)])
    found = await one.lag.measure()
    assert (found.messages, found.oldest_ms) == (4, 1001)


async def test_more_gaps_than_bound_are_estimated(world: World) -> None:
    count = 2 * LAG_INTERVALS_MAX + 40
    topic, one = await batches(world, [2] * count, per_ledger=10_000)
    one.cursor.ack([topic.managed.chain.nth(at) for at in range(1, count, 2)])
    assert (await one.lag.measure()).messages == count  # every batch is of the same size: the average is exact


async def test_unchanged_subscription_is_not_measured_again(world: World) -> None:
    _, one = await batches(world, [2, 2])
    assert not one.lag.fresh
    found = await one.lag.measure()
    assert one.lag.fresh
    assert await one.lag.measure() is found
    one.cursor.ack([one.start()])
    assert not one.lag.fresh


async def test_trimmed_ledgers_are_not_counted(world: World) -> None:
    topic, one = await batches(world, [2, 2, 2, 2, 2, 2], per_ledger=2)
    one.cursor.ack_to(topic.managed.chain.nth(2))
    assert await topic.trim() == 1
    assert (await one.lag.measure()).messages == 6


def test_sum_of_lags_has_oldest_message() -> None:
    both = Lag(3, 10, 2000) + Lag(4, 20, 1000) + NO_LAG
    assert both == Lag(7, 30, 1000)
    assert both.at(4500).age_s == 3.5
    assert NO_LAG.at(4500).age_s == 0.0
