"""Shared: every entry to one of many, again to another where it must, and nobody held up by somebody else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from magnetar.base.ids import Position
from magnetar.base.limits import SHARED_SHARE_ENTRIES_MAX
from magnetar.topic.subscriptions.subscription import SHARED
from tests.unit.topic.world import Out, World, a_batch, ack, an_entry, settle, subscription_of, the_chunks


async def test_consumers_take_turns(world: World) -> None:
    topic = await world.topic()
    outs = [Out(1), Out(2), Out(3)]
    for number, out in enumerate(outs):
        await world.consumer(topic, out, f"c{number}", kind=SHARED, permits=1000)
    texts = [str(number) for number in range(30)]
    await world.publish(topic, *texts)
    assert [len(out.texts) for out in outs] == [10, 10, 10]
    assert sorted((text for out in outs for text in out.texts), key=int) == texts


async def test_backlog_is_shared_out_in_handfuls(world: World) -> None:
    topic = await world.without_cache().topic()
    await world.publish(topic, *[str(number) for number in range(SHARED_SHARE_ENTRIES_MAX * 2)])
    subscription = await topic.subscriptions.create("s", topic.managed.before(topic.managed.first))
    outs = [Out(1), Out(2)]
    consumers = [await world.consumer(topic, out, kind=SHARED) for out in outs]
    for consumer in consumers:
        consumer.permits = 1000
    subscription.dispatcher.pump()
    await settle()
    assert [len(out.texts) for out in outs] == [SHARED_SHARE_ENTRIES_MAX] * 2


async def test_worse_priority_gets_only_what_better_cannot_take(world: World) -> None:
    topic = await world.topic()
    better, worse = Out(1), Out(2)
    await world.consumer(topic, worse, kind=SHARED, priority=1, permits=100)
    good = await world.consumer(topic, better, kind=SHARED, priority=0, permits=2)
    await world.publish(topic, *"abcd")
    assert (better.texts, worse.texts) == (["a", "b"], ["c", "d"])
    good.flow(1)
    await world.publish(topic, "e")
    assert better.texts == ["a", "b", "e"]


async def test_consumer_at_its_cap_waits_and_others_go_on(world: World) -> None:
    topic = await world.topic(unacked_per_consumer_max=2)
    full, free = Out(1), Out(2)
    consumer = await world.consumer(topic, full, kind=SHARED, permits=100)
    await world.publish(topic, *"abc")
    assert full.texts == ["a", "b"]
    assert consumer.blocked
    await world.consumer(topic, free, kind=SHARED, permits=100)
    await settle()
    assert free.texts == ["c"]
    ack(topic, consumer, full.delivered[0].position)
    await world.publish(topic, *"def")
    assert len(full.texts) + len(free.texts) == 5
    assert not set(full.texts) & set(free.texts)


async def test_cap_of_subscription_stops_everybody_until_acknowledgement(world: World) -> None:
    topic = await world.topic(unacked_per_subscription_max=3)
    outs = [Out(1), Out(2)]
    consumers = [await world.consumer(topic, out, kind=SHARED, permits=100) for out in outs]
    await world.publish(topic, *"abcdef")
    assert sum(len(out.texts) for out in outs) == 3
    ack(topic, consumers[0], outs[0].delivered[0].position)
    await settle()
    assert sum(len(out.texts) for out in outs) == 4


async def test_negative_acknowledgement_comes_again_with_its_count_before_anything_new(world: World) -> None:
    topic = await world.topic()
    out = Out()
    consumer = await world.consumer(topic, out, kind=SHARED, permits=3)
    positions = await world.publish(topic, *"abcd")
    out.clear()
    subscription_of(topic).redeliver(consumer, [positions[1], Position(99, 0)])
    assert out.texts == []
    consumer.flow(2)
    assert [(one.payload, one.redelivery) for one in out.delivered] == [(b"b", 1), (b"d", 0)]
    subscription_of(topic).redeliver(consumer, [positions[1]])
    consumer.flow(1)
    assert out.delivered[-1].redelivery == 2


async def test_everything_unacknowledged_comes_again_when_no_id_is_named(world: World) -> None:
    topic = await world.topic()
    out = Out()
    consumer = await world.consumer(topic, out, kind=SHARED, permits=100)
    positions = await world.publish(topic, *"abc")
    ack(topic, consumer, positions[0])
    out.clear()
    subscription_of(topic).redeliver(consumer, None)
    await settle()
    assert out.texts == ["b", "c"]
    assert consumer.pending.messages == 2


async def test_another_consumers_messages_are_not_given_back_on_somebodys_word(world: World) -> None:
    topic = await world.topic()
    mine, yours = Out(1), Out(2)
    holder = await world.consumer(topic, mine, kind=SHARED, permits=10)
    positions = await world.publish(topic, "a")
    other = await world.consumer(topic, yours, kind=SHARED, permits=10)
    subscription_of(topic).redeliver(other, positions)
    await settle()
    assert yours.texts == []
    assert positions[0] in holder.pending


async def test_acknowledgement_through_another_consumer_counts(world: World) -> None:
    topic = await world.topic()
    mine, yours = Out(1), Out(2)
    holder = await world.consumer(topic, mine, kind=SHARED, permits=10)
    positions = await world.publish(topic, "a")
    other = await world.consumer(topic, yours, kind=SHARED, permits=10)
    ack(topic, other, *positions)
    assert holder.pending.messages == 0
    topic.remove_consumer(holder)
    await settle()
    assert yours.texts == []


async def test_consumer_that_leaves_hands_what_it_held_to_others(world: World) -> None:
    topic = await world.topic()
    gone, left = Out(1), Out(2)
    leaver = await world.consumer(topic, gone, kind=SHARED, permits=10)
    positions = await world.publish(topic, *"abc")
    ack(topic, leaver, positions[1])
    await world.consumer(topic, left, kind=SHARED, permits=10)
    topic.remove_consumer(leaver)
    await settle()
    assert left.texts == ["a", "c"]
    assert [one.redelivery for one in left.delivered] == [0, 0]


async def test_redelivery_counts_survive_crash(world: World) -> None:
    topic = await world.topic()
    consumer = await world.consumer(topic, Out(1), kind=SHARED, permits=10)
    positions = await world.publish(topic, "a", "b")
    for _ in range(3):
        subscription_of(topic).redeliver(consumer, [positions[1]])
        consumer.flow(1)
    await subscription_of(topic).cursor.flush()
    again = await world.crash().topic()
    out = Out(2)
    await world.consumer(again, out, kind=SHARED, permits=10)
    await settle()
    assert [(one.payload, one.redelivery) for one in out.delivered] == [(b"a", 0), (b"b", 3)]


async def test_returned_entry_is_read_from_backlog_if_evicted(world: World) -> None:
    topic = await world.without_cache().topic()
    out = Out()
    consumer = await world.consumer(topic, out, kind=SHARED, permits=1000)
    positions = await world.publish(topic, *[str(number) for number in range(50)])
    await settle()
    out.clear()
    subscription_of(topic).redeliver(consumer, [positions[40], positions[3], positions[25]])
    await world.publish(topic, "new")
    await settle()
    assert sorted(out.texts) == sorted(["3", "25", "40", "new"])


async def test_what_is_given_back_and_then_acknowledged_does_not_come(world: World) -> None:
    topic = await world.topic()
    out = Out()
    consumer = await world.consumer(topic, out, kind=SHARED, permits=2)
    positions = await world.publish(topic, "a", "b")
    subscription_of(topic).redeliver(consumer, None)
    ack(topic, consumer, positions[0])
    out.clear()
    consumer.flow(10)
    await settle()
    assert out.texts == ["b"]


async def test_batch_acknowledged_in_part_comes_again_with_rest_only(world: World) -> None:
    topic = await world.topic()
    out = Out()
    consumer = await world.consumer(topic, out, kind=SHARED, permits=10)
    [position] = await world.store(topic, a_batch(list("abc")), counts=[3])
    subscription_of(topic).ack(consumer, [(position, [0b101])])
    permits = consumer.permits
    subscription_of(topic).redeliver(consumer, None)
    await settle()
    assert out.delivered[-1].ack_set == [0b101]
    assert consumer.permits == permits - 2


# Chunks


async def test_chunks_of_one_message_stay_with_one_consumer(world: World) -> None:
    topic = await world.topic()
    outs = [Out(1), Out(2)]
    for out in outs:
        await world.consumer(topic, out, kind=SHARED, permits=100)
    for sequence in range(6):
        await world.store(topic, *the_chunks("abcd", 4, sequence))
    for out in outs:
        assert "".join(out.texts).count("abcd") == len(out.texts) // 4
    assert sum(len(out.texts) for out in outs) == 24
    assert all(out.texts for out in outs)


async def test_chunk_without_permits_does_not_delay_others(world: World) -> None:
    topic = await world.topic()
    slow, fast = Out(1), Out(2)
    owner = await world.consumer(topic, slow, kind=SHARED, permits=1)
    first, second = the_chunks("abcd", 2)
    await world.store(topic, first)
    assert slow.texts == ["ab"]
    await world.consumer(topic, fast, kind=SHARED, permits=100)
    await world.store(topic, second, an_entry("x"), an_entry("y"))
    await settle()
    assert (slow.texts, fast.texts) == (["ab"], ["x", "y"])
    owner.flow(1)
    assert slow.texts == ["ab", "cd"]


async def test_waiting_chunk_and_new_entries_do_not_alternate_reads(
    world: World,
) -> None:
    world.config = replace(world.config, entries_max=1)
    topic = await world.without_cache().topic()
    slow, fast = Out(1), Out(2)
    owner = await world.consumer(topic, slow, kind=SHARED, permits=1)
    other = await world.consumer(topic, fast, kind=SHARED)
    first, second = the_chunks("abcd", 2)
    for body in (first, second, an_entry("x"), an_entry("y")):
        await world.store(topic, body)
    other.flow(100)
    await settle()
    assert (slow.texts, fast.texts) == (["ab"], ["x", "y"])
    owner.flow(1)
    await settle()
    assert slow.texts == ["ab", "cd"]


async def test_half_delivered_chunked_message_starts_over_when_its_consumer_leaves(world: World) -> None:
    topic = await world.topic()
    gone, left = Out(1), Out(2)
    owner = await world.consumer(topic, gone, kind=SHARED, permits=1)
    await world.store(topic, *the_chunks("abcd", 2))
    assert gone.texts == ["ab"]
    await world.consumer(topic, left, kind=SHARED, permits=100)
    await settle()
    assert left.texts == []
    topic.remove_consumer(owner)
    await settle()
    assert left.texts == ["ab", "cd"]


@pytest.mark.parametrize("cached", [True, False])
async def test_nothing_is_lost_or_doubled_while_consumers_come_and_go(world: World, cached: bool) -> None:
    topic = await (world if cached else world.without_cache()).topic()
    texts = [str(number) for number in range(60)]
    done: list[str] = []
    await topic.subscriptions.create("s", topic.managed.before(topic.managed.first))
    for round_ in range(6):
        await world.publish(topic, *texts[round_ * 10 : round_ * 10 + 10])
        outs = [Out(10 * round_), Out(10 * round_ + 1)]
        consumers = [await world.consumer(topic, out, kind=SHARED, permits=4) for out in outs]
        await settle()
        for out, consumer in zip(outs, consumers, strict=True):
            for one in out.delivered[::2]:
                done.append(one.payload.decode())
                ack(topic, consumer, one.position)
        for consumer in consumers:
            topic.remove_consumer(consumer)
    out = Out(99)
    last = await world.consumer(topic, out, kind=SHARED, permits=1000)
    await settle()
    ack(topic, last, *[one.position for one in out.delivered])
    assert sorted(done + out.texts, key=int) == texts
    assert subscription_of(topic).backlog == 0
