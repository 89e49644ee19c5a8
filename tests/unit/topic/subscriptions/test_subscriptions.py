"""Subscriptions come and go: made once for everybody who asks, found again after a restart, deleted for good."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import (
    AlreadyExists,
    Closed,
    Conflict,
    ConnectionLost,
    ConsumerBusy,
    Corrupt,
    MagnetarError,
    NotReady,
    Refused,
    SubscriptionNotFound,
)
from magnetar.base.ids import BEFORE_ALL
from magnetar.base.limits import CURSORS_AT_ONCE_MAX
from magnetar.ledger.cursor.cursor import Cursor
from magnetar.metadata import paths
from magnetar.topic.producers.admission import Admission
from magnetar.topic.subscriptions.consumer import KeyShared
from magnetar.topic.subscriptions.subscription import EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED
from simulation.stores.metadata import InjectedFault, lost_answer
from tests.unit.topic.world import Out, World, ack, settle, subscription_of


async def test_two_who_ask_for_new_subscription_at_once_share_one(world: World) -> None:
    topic = await world.topic()
    tasks = [world.spawn(world.consumer(topic, Out(n), f"c{n}", kind=SHARED, permits=10)) for n in range(3)]
    consumers = [await task for task in tasks]
    assert len(topic.subscriptions) == 1
    assert subscription_of(topic).consumers == consumers


async def test_first_asker_going_away_leaves_others_their_subscription(world: World) -> None:
    topic = await world.topic()
    world.metadata.hold()
    gone = world.spawn(world.consumer(topic, Out(1), kind=SHARED))
    await settle()
    waits = world.spawn(world.consumer(topic, Out(2), kind=SHARED))
    await settle()
    gone.cancel()
    await settle()
    world.metadata.release()
    assert (await waits).subscription is subscription_of(topic)


async def test_failed_subscription_creation_can_be_repeated(world: World) -> None:
    topic = await world.topic()
    world.metadata.faults.extend([InjectedFault(NotReady("away"), happened=False)] * 2)
    with pytest.raises(MagnetarError):
        await world.consumer(topic, Out(1), kind=SHARED)
    world.metadata.faults.clear()
    assert await world.consumer(topic, Out(1), kind=SHARED)


async def test_subscribe_during_close_retries_and_leaves_no_cursor(world: World) -> None:
    topic = await world.topic()
    world.metadata.hold()
    subscribing = world.spawn(world.consumer(topic, Out(1), kind=SHARED))
    await settle()
    closing = world.spawn(topic.close())
    await settle()
    assert not closing.done()
    world.metadata.release()
    with pytest.raises(Closed):
        await subscribing
    await closing
    with pytest.raises(Closed):
        await world.consumer(topic, Out(2), subscription="other", kind=SHARED)


async def test_subscription_of_unanswered_creation_can_be_deleted(world: World) -> None:
    topic = await world.topic()
    for happened in (True, False):
        sound, silent = InjectedFault(None, happened=True), lost_answer(happened=False)
        world.metadata.faults.extend([sound, lost_answer(happened=happened), *[silent] * 20])
        with pytest.raises(ConnectionLost):
            await topic.subscriptions.create("s", BEFORE_ALL)
        world.metadata.faults.clear()
        assert await Cursor.names(topic.managed) == ["s"] * happened
        if happened:
            await topic.subscriptions.delete("s", force=False)
            assert await Cursor.names(topic.managed) == []
        else:
            with pytest.raises(SubscriptionNotFound):
                await topic.subscriptions.delete("s", force=False)


async def test_deletion_of_topic_waits_for_cursor_that_is_being_made(world: World) -> None:
    topic = await world.topic()
    world.metadata.hold()
    subscribing = world.spawn(world.consumer(topic, Out(1), kind=SHARED))
    await settle()
    closing = world.spawn(topic.close())
    await settle()
    world.metadata.release()
    await asyncio.wait([subscribing, closing])
    assert isinstance(subscribing.exception(), Closed)
    await topic.managed.delete()
    assert not [path for path in world.metadata.content.records if path.startswith(topic.managed.path)]


async def test_subscribing_again_behind_deletion_starts_anew(world: World) -> None:
    topic = await world.topic()
    consumer = await world.consumer(topic, Out(1), kind=SHARED, permits=10)
    positions = await world.publish(topic, "a", "b")
    ack(topic, consumer, *positions)
    world.metadata.hold()
    deleting = world.spawn(topic.unsubscribe(consumer, force=False))
    await settle()
    back = Out(2)
    subscribing = world.spawn(world.consumer(topic, back, kind=SHARED, permits=10))
    await settle()
    world.metadata.release()
    await deleting
    await subscribing
    await settle()
    assert back.texts == ["a", "b"]
    await topic.close()
    again = await world.topic()
    assert [item.name for item in again.subscriptions] == ["s"]


async def test_durable_subscriptions_are_there_before_anybody_asks_after_restart(world: World) -> None:
    topic = await world.topic()
    consumer = await world.consumer(topic, Out(1), kind=SHARED, permits=10)
    await world.consumer(topic, Out(2), subscription="r", kind=EXCLUSIVE, durable=False)
    positions = await world.publish(topic, "a", "b", "c")
    ack(topic, consumer, positions[1])
    await subscription_of(topic).cursor.flush()
    again = await world.crash().topic()
    assert [item.name for item in again.subscriptions] == ["s"]
    assert subscription_of(again).backlog == 2


async def test_new_subscription_starts_at_end_unless_it_wants_everything(world: World) -> None:
    topic = await world.topic()
    await world.publish(topic, "a")
    late, early = Out(1), Out(2)
    await world.consumer(topic, late, subscription="late", kind=EXCLUSIVE, permits=10, earliest=False)
    await world.consumer(topic, early, subscription="early", kind=EXCLUSIVE, permits=10)
    await world.publish(topic, "b")
    assert late.texts == ["b"]
    assert early.texts == ["a", "b"]


async def test_another_type_must_wait_until_consumers_are_gone(world: World) -> None:
    topic = await world.topic()
    first = await world.consumer(topic, Out(1), kind=SHARED)
    for kind in (EXCLUSIVE, FAILOVER, KEY_SHARED):
        with pytest.raises(ConsumerBusy):
            await world.consumer(topic, Out(2), kind=kind)
    topic.remove_consumer(first)
    assert await world.consumer(topic, Out(2), kind=FAILOVER)


async def test_second_exclusive_consumer_is_busy_until_first_proves_dead(world: World) -> None:
    topic = await world.topic()
    old = Out(1)
    await world.consumer(topic, old, kind=EXCLUSIVE, permits=10)
    await world.publish(topic, "a")
    with pytest.raises(ConsumerBusy):
        await world.consumer(topic, Out(2), kind=EXCLUSIVE)
    assert old.asked == 1
    old.answers = False
    new = Out(3)
    await world.consumer(topic, new, kind=EXCLUSIVE, permits=10)
    await settle()
    assert new.texts == ["a"]


async def test_limits_count_who_is_there_and_dead_make_room(world: World) -> None:
    topic = await world.topic(consumers_per_subscription_max=1, subscriptions_max=2)
    first = Out(1)
    await world.consumer(topic, first, kind=SHARED)
    with pytest.raises(ConsumerBusy, match="maximum of 1"):
        await world.consumer(topic, Out(2), kind=SHARED)
    first.answers = False
    await world.consumer(topic, Out(2), kind=SHARED)
    await world.consumer(topic, Out(3), subscription="t", kind=SHARED)
    with pytest.raises(ConsumerBusy, match="maximum number of subscriptions"):
        await world.consumer(topic, Out(4), subscription="u", kind=SHARED)


async def test_topics_own_limit_counts_all_subscriptions(world: World) -> None:
    topic = await world.topic(consumers_max=2)
    await world.consumer(topic, Out(1), subscription="a", kind=SHARED)
    await world.consumer(topic, Out(2), subscription="b", kind=SHARED)
    with pytest.raises(ConsumerBusy, match="maximum of 2 consumers"):
        await world.consumer(topic, Out(3), subscription="c", kind=SHARED)


async def test_admission_and_settings_are_asked_before_cursor_is_made(world: World) -> None:
    def refuse(name: str) -> None:
        raise Refused(f"no cursor {name} here")

    topic = await world.topic(auto_subscription=False)
    with pytest.raises(SubscriptionNotFound):
        await world.consumer(topic, Out(1), kind=SHARED)
    topic.admission = Admission(durable_cursor=refuse)
    with pytest.raises(Refused, match="no cursor s"):
        await world.consumer(topic, Out(1), kind=SHARED)
    assert await Cursor.names(topic.managed) == []
    assert await world.consumer(topic, Out(1), subscription="r", kind=EXCLUSIVE, durable=False)


async def test_unsubscribing_needs_to_be_alone_or_to_insist(world: World) -> None:
    topic = await world.topic()
    mine, other = Out(1), Out(2)
    consumer = await world.consumer(topic, mine, kind=SHARED)
    await world.consumer(topic, other, kind=SHARED)
    with pytest.raises(Conflict):
        await topic.unsubscribe(consumer, force=False)
    assert consumer.subscription is not None
    await topic.unsubscribe(consumer, force=True)
    assert other.kinds == ["CLOSE_CONSUMER"]
    assert mine.kinds == []
    assert len(topic.subscriptions) == 0
    assert await Cursor.names(topic.managed) == []
    with pytest.raises(SubscriptionNotFound):
        await topic.unsubscribe(consumer, force=False)


async def test_administrator_makes_and_deletes_subscriptions(world: World) -> None:
    topic = await world.topic()
    positions = await world.publish(topic, "a", "b")
    await topic.subscriptions.create("s", positions[0], {"k": "v"})
    with pytest.raises(AlreadyExists):
        await topic.subscriptions.create("s", positions[0])
    assert subscription_of(topic).cursor.properties == {"k": "v"}
    out = Out()
    await world.consumer(topic, out, kind=SHARED, permits=10)
    await settle()
    assert out.texts == ["b"]
    with pytest.raises(Conflict):
        await topic.subscriptions.delete("s", force=False)
    await topic.subscriptions.delete("s", force=True)
    with pytest.raises(SubscriptionNotFound):
        await topic.subscriptions.delete("s", force=True)


async def test_administrator_and_consumer_who_make_same_one_get_same_one(world: World) -> None:
    topic = await world.topic()
    out = Out()
    making = world.spawn(topic.subscriptions.create("s", BEFORE_ALL))
    await asyncio.sleep(0)
    consumer = await world.consumer(topic, out, kind=SHARED, permits=10)
    assert consumer.subscription is await making
    await world.publish(topic, "a")
    assert out.texts == ["a"]


async def test_dead_letter_producers_subscription_misses_nothing(world: World) -> None:
    topic = await world.topic()
    await topic.ensure_subscription("dlq")
    await topic.ensure_subscription("dlq")
    await world.publish(topic, "a")
    out = Out()
    await world.consumer(topic, out, subscription="dlq", kind=SHARED, permits=1)
    await settle()
    assert out.texts == ["a"]


async def test_leaving_makes_acknowledgements_durable(world: World) -> None:
    topic = await world.topic()
    consumer = await world.consumer(topic, Out(), kind=SHARED, permits=10)
    positions = await world.publish(topic, "a", "b")
    ack(topic, consumer, positions[0])
    await topic.leave(consumer)
    again = await world.crash().topic()
    assert subscription_of(again).mark == positions[0]


async def test_key_shared_consumers_of_another_mode_are_busy(world: World) -> None:
    topic = await world.topic()
    sticky = KeyShared(sticky=True, ranges=[(0, 100)], out_of_order=False)
    await world.consumer(topic, Out(1), kind=KEY_SHARED, key_shared=sticky)
    with pytest.raises(ConsumerBusy):
        await world.consumer(topic, Out(2), kind=KEY_SHARED)
    overlap = KeyShared(sticky=True, ranges=[(100, 200)], out_of_order=False)
    with pytest.raises(Conflict) as refused:
        await world.consumer(topic, Out(3), kind=KEY_SHARED, key_shared=overlap)
    assert refused.value.wire_code == 19
    apart = KeyShared(sticky=True, ranges=[(101, 200)], out_of_order=False)
    assert await world.consumer(topic, Out(4), kind=KEY_SHARED, key_shared=apart)


async def test_recovery_of_many_subscriptions_reads_no_record_twice(world: World) -> None:
    topic = await world.topic()
    for number in range(CURSORS_AT_ONCE_MAX + 20):
        await topic.subscriptions.create(f"s{number}", BEFORE_ALL)
    await topic.close()
    allowed = 20  # operations on other records of the topic; one read for each subscription would block
    world.metadata.hold(allowed)
    again = await world.topic()
    assert len(again.subscriptions) == CURSORS_AT_ONCE_MAX + 20
    world.metadata.release()


async def test_failed_recovery_of_one_subscription_leaves_no_task(world: World) -> None:
    topic = await world.topic()
    for number in range(3):
        await topic.subscriptions.create(f"s{number}", BEFORE_ALL)
    await topic.close()
    broken = paths.cursor(topic.managed.path, "s1")
    await world.metadata.put(broken, b'{"v": 1, "kind": "cursor"}')
    with pytest.raises(Corrupt, match="no mark"):
        await world.topic()


async def test_close_flushes_subscriptions_together(world: World) -> None:
    topic = await world.topic()
    for number in range(3):
        await topic.subscriptions.create(f"s{number}", BEFORE_ALL)
    await world.publish(topic, "a", "b")
    for subscription in topic.subscriptions:
        subscription.cursor.ack_to(topic.managed.last)
    world.metadata.hold()
    closing = world.spawn(topic.close())
    await settle()
    assert world.metadata.waiting == 3
    world.metadata.release()
    await closing
