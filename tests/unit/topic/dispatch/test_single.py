"""Exclusive, Failover and readers: everything in order to one consumer, and to the next when that one goes."""

from __future__ import annotations

import pytest

from magnetar.base.hashes import key_shared_slot
from magnetar.base.limits import DISPATCH_TURN_RUNS_MAX
from magnetar.topic.subscriptions.consumer import KeyShared
from magnetar.topic.subscriptions.subscribe import Subscribe
from magnetar.topic.subscriptions.subscription import EXCLUSIVE, FAILOVER
from magnetar.wire import entry
from tests.unit.topic.world import Out, World, a_batch, ack, an_entry, pass_s, settle, subscription_of

CHANGED, MESSAGE = "ACTIVE_CONSUMER_CHANGE", "MESSAGE"


async def test_delivery_waits_for_permits_and_respects_them(world: World) -> None:
    topic = await world.topic()
    out = Out()
    consumer = await world.consumer(topic, out, kind=EXCLUSIVE)
    await world.publish(topic, *"abcd")
    assert out.texts == []
    consumer.flow(2)
    assert out.texts == ["a", "b"]
    consumer.flow(1)
    assert out.texts == ["a", "b", "c"]
    assert consumer.permits == 0


async def test_batch_goes_out_whole_and_permits_turn_negative(world: World) -> None:
    topic = await world.topic()
    out = Out()
    consumer = await world.consumer(topic, out, kind=EXCLUSIVE, permits=1)
    await world.store(topic, a_batch(list("abc")), a_batch(list("de")), counts=[3, 2])
    assert len(out.delivered) == 1
    assert consumer.permits == -2
    consumer.flow(2)
    assert len(out.delivered) == 1
    consumer.flow(1)
    assert len(out.delivered) == 2
    assert consumer.permits == -1
    assert consumer.messages_out == 5


async def test_congested_peer_gets_nothing_until_it_reads_again(world: World) -> None:
    topic = await world.topic()
    out = Out()
    await world.consumer(topic, out, kind=EXCLUSIVE, permits=10)
    out.congested = True
    await world.publish(topic, "a")
    assert out.texts == []
    out.congested = False
    subscription_of(topic).dispatcher.pump()
    assert out.texts == ["a"]


async def test_acknowledged_entries_are_skipped_and_partial_batches_marked(world: World) -> None:
    topic = await world.topic()
    consumer = await world.consumer(topic, Out(1), kind=EXCLUSIVE, permits=100)
    positions = await world.store(
        topic, an_entry("a"), an_entry("b"), a_batch(list("xyz")), an_entry("c"), counts=[1, 1, 3, 1]
    )
    ack(topic, consumer, positions[1])
    subscription_of(topic).ack(consumer, [(positions[2], [0b101])])
    topic.remove_consumer(consumer)
    out = Out(2)
    again = await world.consumer(topic, out, kind=EXCLUSIVE, permits=4)
    await settle()
    assert [one.position for one in out.delivered] == [positions[0], positions[2], positions[3]]
    assert [one.ack_set for one in out.delivered] == [[], [0b101], []]
    assert again.permits == 0  # one, two of three, one


async def test_redelivery_goes_back_to_first_unacknowledged_entry_in_order(world: World) -> None:
    topic = await world.topic()
    out = Out()
    consumer = await world.consumer(topic, out, kind=EXCLUSIVE, permits=100)
    positions = await world.publish(topic, *"abcd")
    ack(topic, consumer, positions[0], positions[2])
    out.clear()
    subscription_of(topic).redeliver(consumer, [positions[3]])
    assert out.texts == ["b", "d"]


async def test_only_active_consumer_can_ask_for_redelivery(world: World) -> None:
    topic = await world.topic(failover_delay_ms=0)
    outs = [Out(1), Out(2)]
    consumers = [await world.consumer(topic, out, "same", kind=FAILOVER, permits=10) for out in outs]
    await world.publish(topic, "a")
    active = next(number for number, out in enumerate(outs) if out.texts)
    subscription_of(topic).redeliver(consumers[1 - active], None)
    assert outs[active].texts == ["a"]
    assert outs[1 - active].texts == []


async def test_consumer_that_leaves_hands_everything_unacknowledged_to_next(world: World) -> None:
    topic = await world.topic()
    consumer = await world.consumer(topic, Out(1), kind=EXCLUSIVE, permits=100)
    positions = await world.publish(topic, *"abc")
    ack(topic, consumer, positions[0])
    topic.remove_consumer(consumer)
    out = Out(2)
    await world.consumer(topic, out, kind=EXCLUSIVE, permits=100)
    await settle()
    assert out.texts == ["b", "c"]


async def test_backlog_is_read_in_order_while_messages_arrive(world: World) -> None:
    topic = await world.without_cache().topic()
    texts = [str(number) for number in range(40)]
    await world.publish(topic, *texts)
    out = Out()
    await world.consumer(topic, out, kind=EXCLUSIVE, permits=1000)
    await world.publish(topic, "40", "41")
    await settle()
    assert out.texts == [str(number) for number in range(42)]


async def test_long_backlog_yields_loop_and_runs_one_round(world: World) -> None:
    topic = await world.topic()
    count = DISPATCH_TURN_RUNS_MAX * 3
    topic.managed.keep_tail()  # as if somebody had read here before
    await world.publish(topic, *[str(number) for number in range(count)])
    out = Out()
    consumer = await world.consumer(topic, out, kind=EXCLUSIVE)
    consumer.flow(1000)
    assert len(out.texts) == DISPATCH_TURN_RUNS_MAX
    for _ in range(5):
        subscription_of(topic).dispatcher.pump()  # what everything that happens meanwhile does
    assert len(out.texts) == DISPATCH_TURN_RUNS_MAX
    await settle(1)
    assert len(out.texts) <= 2 * DISPATCH_TURN_RUNS_MAX
    await settle()
    assert out.texts == [str(number) for number in range(count)]


# Failover


async def test_chosen_one_is_told_and_so_are_all_others(world: World) -> None:
    topic = await world.topic("persistent://public/default/t-partition-0", failover_delay_ms=0)
    first, second = Out(1), Out(2)
    b = await world.consumer(topic, first, "b", kind=FAILOVER)
    assert first.active == [(b.id, True)]
    a = await world.consumer(topic, second, "a", kind=FAILOVER)  # first by name: it takes over
    assert first.active == [(b.id, True), (b.id, False)]
    assert second.active == [(a.id, True)]
    third = Out(3)
    c = await world.consumer(topic, third, "c", kind=FAILOVER)
    assert third.active == [(c.id, False)]
    assert len(first.active) == 2  # nothing changed for the others


async def test_better_priority_goes_before_name(world: World) -> None:
    topic = await world.topic("persistent://public/default/t-partition-0", failover_delay_ms=0)
    outs = {name: Out(number) for number, name in enumerate("abc")}
    await world.consumer(topic, outs["a"], "a", kind=FAILOVER, priority=1)
    await world.consumer(topic, outs["b"], "b", kind=FAILOVER, priority=0)
    await world.consumer(topic, outs["c"], "c", kind=FAILOVER, priority=0)
    assert [name for name, out in outs.items() if out.active[-1][1]] == ["b"]


async def test_new_active_consumer_waits_for_acknowledgements_of_old_one(world: World) -> None:
    topic = await world.topic("persistent://public/default/t-partition-0", failover_delay_ms=1000)
    old, new = Out(1), Out(2)
    consumer = await world.consumer(topic, old, "b", kind=FAILOVER, permits=100)
    positions = await world.publish(topic, *"abc")
    await pass_s(1.1)
    assert old.texts == ["a", "b", "c"]
    await world.consumer(topic, new, "a", kind=FAILOVER, permits=100)
    await pass_s(0.5)
    assert (new.texts, new.active) == ([], [])
    await world.publish(topic, "d")
    ack(topic, consumer, *positions)
    await pass_s(0.6)
    assert new.texts == ["d"]
    assert old.texts == ["a", "b", "c"]
    assert new.active[-1][1]
    assert not old.active[-1][1]


@pytest.mark.parametrize("delay_ms", [0, 1000])
async def test_first_failover_consumer_is_told_after_its_answer(world: World, delay_ms: int) -> None:
    """The Go client drops what comes before it listens."""

    topic = await world.topic(failover_delay_ms=delay_ms)
    outs = [Out(1), Out(2)]
    made = []
    for number, out in enumerate(outs):
        asked = Subscribe("s", FAILOVER, number, f"c{number}", earliest=True)
        made.append(await topic.subscribe(asked, out))
        made[-1].flow(10)
        assert out.kinds == []
        topic.activate(made[-1])
    await world.publish(topic, "a")
    assert [out.kinds for out in outs] == ([[], []] if delay_ms else [[CHANGED, MESSAGE], [CHANGED]])
    await pass_s(1)
    assert [out.kinds for out in outs] == [[CHANGED, MESSAGE], [CHANGED]]
    assert [out.active for out in outs] == [[(0, True)], [(1, False)]]


async def test_next_one_does_not_wait_for_one_that_is_gone(world: World) -> None:
    topic = await world.topic("persistent://public/default/t-partition-0", failover_delay_ms=1000)
    old, new = Out(1), Out(2)
    consumer = await world.consumer(topic, old, "a", kind=FAILOVER, permits=100)
    await world.consumer(topic, new, "b", kind=FAILOVER, permits=100)
    await world.publish(topic, *"ab")
    topic.remove_consumer(consumer)
    await settle()
    assert new.texts == ["a", "b"]


async def test_chosen_consumer_leaving_early_restores_previous_one(world: World) -> None:
    topic = await world.topic("persistent://public/default/t-partition-0", failover_delay_ms=1000)
    old, brief = Out(1), Out(2)
    await world.consumer(topic, old, "b", kind=FAILOVER, permits=100)
    short = await world.consumer(topic, brief, "a", kind=FAILOVER, permits=100)
    topic.remove_consumer(short)
    await world.publish(topic, "a")
    assert old.texts == ["a"]
    await pass_s(2)
    assert old.texts == ["a"]
    assert brief.texts == []


# Key ranges of a reader


async def test_reader_of_ranges_gets_own_keys_and_skips_others(world: World) -> None:
    topic = await world.topic()
    keys = [f"k{number}" for number in range(40)]
    entries = [an_entry(key, partition_key=key) for key in keys]
    positions = await world.store(topic, *entries)
    out = Out()
    low = KeyShared(sticky=True, ranges=[(0, 32767)], out_of_order=False)
    reader = await world.consumer(
        topic, out, subscription="r", kind=EXCLUSIVE, durable=False, start=positions[0], key_shared=low
    )
    reader.flow(1000)
    await settle()
    expected = [key for key, one in zip(keys, entries, strict=True) if key_shared_slot(entry.key_hash(one)) <= 32767]
    assert out.texts == expected
    ack(topic, reader, *[one.position for one in out.delivered])
    assert subscription_of(topic, "r").backlog == 0
    assert reader.permits == 1000 - len(expected)


@pytest.mark.parametrize("kind", [EXCLUSIVE, FAILOVER])
async def test_empty_list_of_ranges_means_all_keys(world: World, kind: int) -> None:
    topic = await world.topic(failover_delay_ms=0)
    out = Out()
    none = KeyShared(sticky=False, ranges=[], out_of_order=False)
    await world.consumer(topic, out, kind=kind, permits=10, key_shared=none)
    await world.publish(topic, "a")
    assert out.texts == ["a"]
