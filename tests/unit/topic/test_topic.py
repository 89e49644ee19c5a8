"""A topic's life: opened with a fence, configured under load, trimmed behind everybody, closed in order."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from magnetar.base.errors import Conflict, Fenced, StorageFailed
from magnetar.base.ids import Position
from magnetar.base.limits import TURN_COST_MAX, TURN_WORK_COST
from magnetar.ledger.retention import Retention
from magnetar.topic.subscriptions.subscription import EXCLUSIVE, FAILOVER, SHARED
from magnetar.wire.proto import pb
from tests.unit.topic.world import (
    Out,
    World,
    a_batch,
    ack,
    an_entry,
    gathered,
    pass_s,
    send_frame,
    settle,
    subscription_of,
)


def small_ledgers(world: World, entries: int = 2) -> World:
    world.config = replace(world.config, entries_max=entries)
    return world


async def test_next_owner_fences_one_before(world: World) -> None:
    old = await world.topic()
    await world.publish(old, "a")
    new = await world.topic()
    out = Out()
    producer = await world.producer(old, out, producer_id=1)
    old.publish(producer, gathered(send_frame(1, 0, an_entry("lost"))))
    await settle()
    assert [code for _, code in out.answered] == [2]
    assert isinstance(world.failed[0], Fenced)
    assert new.managed.entries == 1


async def test_close_tells_consumers_to_reconnect_and_keeps_acknowledgements(world: World) -> None:
    topic = await world.topic()
    out = Out()
    consumer = await world.consumer(topic, out, kind=SHARED, permits=10)
    positions = await world.publish(topic, "a", "b", "c")
    ack(topic, consumer, positions[0], positions[2])
    await topic.close()
    assert out.kinds[-1] == "CLOSE_CONSUMER"
    assert consumer.closed
    again = await world.topic()
    back = Out(2)
    await world.consumer(again, back, kind=SHARED, permits=10)
    await settle()
    assert back.texts == ["b"]


async def test_closing_after_disk_failed_still_lets_go_of_everything(world: World) -> None:
    topic = await world.topic(deduplication=True)
    await world.consumer(topic, Out(), kind=SHARED, permits=10)
    await world.publish(topic, "a")
    for _ in range(20):
        world.ledgers.fail_append(StorageFailed("the disk went"))
    out = Out(2)
    producer = await world.producer(topic, out, producer_id=1)
    topic.publish(producer, gathered(send_frame(1, 0, an_entry("b"))))
    await settle()
    await topic.close()
    assert topic.closed
    assert out.kinds == ["SEND_ERROR", "CLOSE_PRODUCER"]
    world.ledgers.append_faults.clear()
    again = await world.topic(deduplication=True)
    assert again.managed.entries == 1


async def test_closing_twice_and_at_once_is_one_closing(world: World) -> None:
    topic = await world.topic()
    await world.publish(topic, "a")
    await topic.close()
    await topic.close()


async def test_deletion_is_refused_while_somebody_uses_topic(world: World) -> None:
    topic = await world.topic()
    topic.check_unused(force=False)
    producer = await world.producer(topic, Out(), "a")
    with pytest.raises(Conflict, match="1 connected producers"):
        topic.check_unused(force=False)
    topic.check_unused(force=True)
    topic.producers.leave(producer)
    assert topic.idle
    await world.consumer(topic, Out(2), kind=SHARED)
    with pytest.raises(Conflict, match="consumers on s"):
        topic.check_unused(force=False)
    assert not topic.idle


async def test_last_message_is_last_one_of_its_batch(world: World) -> None:
    topic = await world.topic()
    assert await topic.last_message() == (Position(-1, -1), -1)
    [first] = await world.publish(topic, "a")
    assert await topic.last_message() == (first, -1)
    [second] = await world.store(topic, a_batch(["b", "c", "d"]), counts=[3])
    assert await topic.last_message() == (second, 2)
    [third] = await world.store(topic, a_batch(["e"]))
    assert await topic.last_message() == (third, 0)


async def test_enabled_deduplication_knows_stored_and_pending_messages(world: World) -> None:
    topic = await world.topic()
    out = Out()
    producer = await world.producer(topic, out, producer_id=1)
    topic.publish(producer, gathered(send_frame(1, 4, an_entry("a", 4))))
    await settle()
    world.ledgers.hold()
    topic.publish(producer, gathered(send_frame(1, 5, an_entry("b", 5))))
    configuring = world.spawn(topic.configure(replace(topic.settings, deduplication=True)))
    await settle()
    world.ledgers.release()
    await configuring
    await settle()
    assert topic.highest_sequence("p") == 5


async def test_concurrent_changes_of_settings_apply_in_order(world: World) -> None:
    topic = await world.topic()
    await world.publish(topic, "a")
    on, off = replace(topic.settings, deduplication=True), topic.settings
    tasks = [world.spawn(topic.configure(one)) for one in (on, off, on)]
    for task in tasks:
        await task
    assert topic.dedup is not None
    assert topic.recall is not None
    await topic.maintain()
    await topic.configure(off)
    assert (topic.dedup, topic.recall) == (None, None)
    assert topic.highest_sequence("p") == -1


async def test_housekeeping_while_deduplication_is_being_loaded_breaks_nothing(world: World) -> None:
    topic = await world.topic(dedup_snapshot_entries=1)
    await world.publish(topic, "a")
    world.metadata.hold()
    configuring = world.spawn(topic.configure(replace(topic.settings, deduplication=True)))
    await settle()
    maintaining = world.spawn(topic.maintain())
    await settle()
    world.metadata.release()
    await configuring
    await maintaining


async def test_consumers_blocked_by_cap_go_on_when_it_is_raised(world: World) -> None:
    topic = await world.topic(unacked_per_consumer_max=1)
    out = Out()
    await world.consumer(topic, out, kind=SHARED, permits=10)
    await world.publish(topic, "a", "b")
    assert out.texts == ["a"]
    await topic.configure(replace(topic.settings, unacked_per_consumer_max=2))
    assert out.texts == ["a", "b"]


async def test_active_consumer_is_chosen_anew_when_way_of_choosing_changes(world: World) -> None:
    topic = await world.topic("persistent://public/default/t-partition-1", failover_delay_ms=0)
    outs = {name: Out(number) for number, name in enumerate("abcd")}
    for name, out in outs.items():
        await world.consumer(topic, out, name, kind=FAILOVER, permits=1)
    before = [name for name, out in outs.items() if out.active[-1][1]]
    assert before == ["b"]  # partition 1 of four, by name
    await topic.configure(replace(topic.settings, failover_consistent_hashing=True))
    after = [name for name, out in outs.items() if out.active[-1][1]]
    assert len(after) == 1
    subscription = subscription_of(topic)
    assert after != before
    assert subscription.consumers[0].subscription is subscription


async def test_ledgers_are_dropped_behind_slowest_subscription_only(world: World) -> None:
    topic = await small_ledgers(world).topic()
    fast, slow = Out(1), Out(2)
    quick = await world.consumer(topic, fast, subscription="fast", kind=EXCLUSIVE, permits=100)
    lazy = await world.consumer(topic, slow, subscription="slow", kind=EXCLUSIVE, permits=100)
    positions = await world.publish(topic, *"abcdef")
    assert len({position.ledger for position in positions}) == 3
    ack(topic, quick, *positions)
    ack(topic, lazy, positions[0])
    assert await topic.trim() == 0
    ack(topic, lazy, positions[1])
    assert await topic.trim() == 1
    assert topic.managed.first == positions[2]


async def test_reader_that_is_attached_keeps_its_ledgers(world: World) -> None:
    topic = await small_ledgers(world).topic()
    positions = await world.publish(topic, *"abcd")
    out = Out()
    reader = await world.consumer(topic, out, kind=EXCLUSIVE, durable=False, start=positions[0], subscription="reader")
    assert await topic.trim() == 0
    topic.remove_consumer(reader)
    assert topic.trim_wanted
    assert await topic.trim() > 0


async def test_entries_behind_newest_dedup_snapshot_are_not_dropped(world: World) -> None:
    topic = await small_ledgers(world).topic(deduplication=True, dedup_snapshot_entries=4)
    await world.publish(topic, *"abc")
    assert await topic.trim() == 0
    await world.publish(topic, "d")
    await topic.maintain()
    assert topic.managed.first > Position(1, 0)


async def test_retention_keeps_what_everybody_has_read(world: World) -> None:
    topic = await small_ledgers(world).topic(retention=Retention(10, -1))
    await world.publish(topic, *"abcdef")
    await topic.maintain()
    assert topic.managed.entries == 6
    await pass_s(11 * 60)
    await topic.maintain()  # although nothing was acknowledged or published meanwhile
    assert topic.managed.entries < 6


async def test_timer_that_was_cancelled_does_not_ring_and_is_forgotten(world: World) -> None:
    topic = await world.topic()
    rang: list[str] = []
    cancel = topic.later(1, rang.append, "cancelled")
    topic.later(2, rang.append, "kept")
    cancel()
    await pass_s(3)
    assert rang == ["kept"]
    topic.later(1, rang.append, "closed")
    await topic.close()
    await pass_s(3)
    assert rang == ["kept"]


class FirstDelivery(Out):
    """`first` wakes its waiter in the turn after the first message."""

    def __init__(self) -> None:
        super().__init__()
        self.first = asyncio.Event()

    def write(self, data: bytes) -> None:
        super().write(data)
        if self.heard[-1][0].type == pb.BaseCommand.MESSAGE:
            self.first.set()


async def test_entry_for_thousands_of_subscriptions_takes_many_turns(world: World) -> None:
    """A topic with 9,000 subscriptions pushed one entry to all of them in a turn of 166 ms."""
    topic = await world.topic(subscriptions_max=0)
    count = 2 * TURN_COST_MAX // TURN_WORK_COST
    out = FirstDelivery()
    for number in range(count):
        await world.consumer(topic, out, subscription=f"s{number}", kind=EXCLUSIVE, permits=10)
    published = world.spawn(world.publish(topic, "one"))
    await out.first.wait()
    assert len(out.delivered) <= TURN_COST_MAX // TURN_WORK_COST
    await published
    await settle()
    assert len(out.delivered) == count
