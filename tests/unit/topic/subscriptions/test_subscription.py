"""One subscription: acknowledgements that never reach too far, and seeks that everybody survives."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from magnetar.base.errors import SubscriptionNotFound
from magnetar.base.ids import AFTER_ALL, BEFORE_ALL, Position
from magnetar.topic.subscriptions.subscription import EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED
from tests.unit.topic.world import Out, World, a_batch, ack, pass_s, settle, subscription_of


@pytest.mark.parametrize("beyond", [Position(1, 99), Position(99, 0), Position(2**63, 0), Position(1, 2**64 - 1)])
async def test_acknowledgement_beyond_end_acknowledges_nothing(world: World, beyond: Position) -> None:
    topic = await world.topic()
    consumer = await world.consumer(topic, Out(), kind=EXCLUSIVE, permits=10)
    await world.publish(topic, "a", "b")
    subscription = subscription_of(topic)
    subscription.ack_to(consumer, beyond, None)
    subscription.ack_to(consumer, beyond, [1])
    subscription.ack(consumer, [(beyond, None), (beyond, [0])])
    assert subscription.backlog == 2


async def test_cumulative_acknowledgement_before_first_entry_acknowledges_none(
    world: World,
) -> None:
    topic = await world.topic()
    consumer = await world.consumer(topic, Out(), kind=EXCLUSIVE, permits=10)
    [first, _] = await world.publish(topic, "a", "b")
    subscription = subscription_of(topic)
    subscription.ack_to(consumer, Position(first.ledger, -1), None)
    assert subscription.backlog == 2


async def test_cumulative_acknowledgement_of_part_of_batch_takes_all_before_it(world: World) -> None:
    topic = await world.topic()
    consumer = await world.consumer(topic, Out(), kind=EXCLUSIVE, permits=10)
    [first] = await world.publish(topic, "x")
    [second] = await world.store(topic, a_batch(["a", "b", "c"]), counts=[3])
    subscription = subscription_of(topic)
    subscription.ack_to(consumer, second, [0b110])
    assert subscription.mark == first
    assert subscription.cursor.bits(second) == [0b110]
    subscription.ack_to(consumer, second, [0])
    assert subscription.mark == second


@pytest.mark.parametrize("kind", [SHARED, KEY_SHARED])
async def test_cumulative_acknowledgements_are_ignored_where_messages_are_shared(world: World, kind: int) -> None:
    topic = await world.topic()
    consumer = await world.consumer(topic, Out(), kind=kind, permits=10)
    positions = await world.publish(topic, "a", "b")
    subscription_of(topic).ack_to(consumer, positions[1], None)
    assert subscription_of(topic).backlog == 2


async def test_words_of_acknowledgement_are_anded_with_what_is_stored(world: World) -> None:
    topic = await world.topic()
    consumer = await world.consumer(topic, Out(), kind=SHARED, permits=10)
    [position] = await world.store(topic, a_batch(list("abcde")), counts=[5])
    subscription = subscription_of(topic)
    # As seen of the stock client: delivered 11101, acks sent 11110 then 10110.
    for words in ([0b11101], [0b11110], [0b10110]):
        subscription.ack(consumer, [(position, words)])
    assert subscription.cursor.bits(position) == [0b10100]
    subscription.ack(consumer, [(position, [0b01011])])
    assert subscription.backlog == 0
    assert consumer.pending.messages == 0


async def test_batch_acknowledged_in_part_makes_room_under_cap(world: World) -> None:
    topic = await world.topic(unacked_per_consumer_max=4)
    out = Out()
    consumer = await world.consumer(topic, out, kind=SHARED, permits=100)
    [position, _] = await world.store(topic, a_batch(list("abcd")), a_batch(list("ef")), counts=[4, 2])
    assert len(out.delivered) == 1
    subscription_of(topic).ack(consumer, [(position, [0b1000])])
    assert consumer.pending.messages == 3
    assert len(out.delivered) == 2


async def test_switched_off_batch_acknowledgements_wait_for_whole_batch(world: World) -> None:
    topic = await world.topic(batch_index_acks=False)
    consumer = await world.consumer(topic, Out(), kind=SHARED, permits=10)
    [position] = await world.store(topic, a_batch(["a", "b"]), counts=[2])
    subscription_of(topic).ack(consumer, [(position, [0b10])])
    assert subscription_of(topic).cursor.bits(position) is None
    ack(topic, consumer, position)
    assert subscription_of(topic).backlog == 0


@pytest.mark.parametrize("kind", [EXCLUSIVE, FAILOVER, SHARED, KEY_SHARED])
@pytest.mark.parametrize(
    ("target", "texts"), [(BEFORE_ALL, "abcde"), (AFTER_ALL, "e"), (Position(1, 2), "cde"), (Position(1, 77), "e")]
)
async def test_seek_closes_consumers_first_and_delivers_from_entry_named(
    world: World, kind: int, target: Position, texts: str
) -> None:
    topic = await world.topic()
    outs = [Out(1)] if kind == EXCLUSIVE else [Out(1), Out(2)]
    for number, out in enumerate(outs):
        await world.consumer(topic, out, f"c{number}", kind=kind, permits=100)
    await world.publish(topic, *"abcd")
    seeking = world.spawn(subscription_of(topic).seek(target))
    await settle(1)
    assert [out.kinds[-1] for out in outs] == ["CLOSE_CONSUMER"] * len(outs)
    await seeking
    back = Out(3)
    await world.consumer(topic, back, "c", kind=kind, permits=100)
    await world.publish(topic, "e")
    await pass_s(topic.settings.failover_delay_ms / 1000)
    assert "".join(back.texts) == texts
    assert {one.redelivery for one in back.delivered} == {0}


async def test_consumer_returning_during_seek_attaches_after_answer(world: World) -> None:
    """Else acknowledgements of before, which the stock client sends when it hears the answer, undo the seek."""

    topic = await world.topic()
    await world.consumer(topic, Out(1), kind=EXCLUSIVE, permits=100)
    await world.publish(topic, *"ab")
    done: list[str] = []

    async def told(what: str, work: Coroutine[Any, Any, object]) -> None:
        await work
        done.append(what)

    seeks = [world.spawn(told("sought", subscription_of(topic).seek(BEFORE_ALL))) for _ in range(2)]
    await settle(1)
    back = world.spawn(told("back", world.consumer(topic, Out(2), kind=EXCLUSIVE, permits=100)))
    await asyncio.gather(*seeks, back)
    assert done == ["sought", "sought", "back"]


async def test_seek_is_durable_when_it_is_answered(world: World) -> None:
    topic = await world.topic()
    consumer = await world.consumer(topic, Out(), kind=SHARED, permits=10)
    positions = await world.publish(topic, *"abc")
    ack(topic, consumer, *positions)
    await subscription_of(topic).seek(positions[1])
    again = await world.crash().topic()
    out = Out(2)
    await world.consumer(again, out, kind=SHARED, permits=10)
    await settle()
    assert out.texts == ["b", "c"]


@pytest.mark.parametrize(("time", "texts"), [(0, "abc"), (100, "abc"), (101, "bc"), (300, "c"), (301, "")])
async def test_seek_by_time_finds_first_entry_at_or_after_it(world: World, time: int, texts: str) -> None:
    topic = await world.topic()
    for number, text in enumerate("abc", 1):
        await world.publish(topic, text, publish_time=100 * number)
    await world.consumer(topic, Out(1), kind=EXCLUSIVE, permits=10)
    await subscription_of(topic).seek_time(time)
    out = Out(2)
    await world.consumer(topic, out, kind=EXCLUSIVE, permits=10)
    await settle()
    assert "".join(out.texts) == texts


async def test_readers_cursor_survives_its_own_seek_by_time(world: World) -> None:
    topic = await world.topic()
    for number, text in enumerate("abc", 1):
        await world.publish(topic, text, publish_time=100 * number)
    await world.consumer(topic, Out(1), subscription="r", kind=EXCLUSIVE, durable=False, permits=10)
    await subscription_of(topic, "r").seek_time(200)
    out = Out(2)  # it comes back without a start: the place is the cursor's
    await world.consumer(topic, out, subscription="r", kind=EXCLUSIVE, durable=False, permits=10)
    await settle()
    assert out.texts == ["b", "c"]


async def test_reader_that_comes_back_with_start_begins_there(world: World) -> None:
    topic = await world.topic()
    positions = await world.publish(topic, *"abcd")
    await world.consumer(topic, Out(1), subscription="r", kind=EXCLUSIVE, durable=False, permits=10)
    await subscription_of(topic, "r").seek(positions[1])
    out = Out(2)
    await world.consumer(topic, out, subscription="r", kind=EXCLUSIVE, durable=False, permits=10, start=positions[1])
    await settle()
    assert out.texts == ["b", "c", "d"]


async def test_seek_of_subscription_deleted_meanwhile_is_refused(world: World) -> None:
    topic = await world.topic()
    await world.consumer(topic, Out(1), kind=SHARED)
    subscription = subscription_of(topic)
    await topic.subscriptions.delete("s", force=True)
    with pytest.raises(SubscriptionNotFound):
        await subscription.seek(BEFORE_ALL)


async def test_messages_acknowledged_before_seek_return_with_batch(world: World) -> None:
    topic = await world.topic()
    consumer = await world.consumer(topic, Out(1), kind=SHARED, permits=10)
    [position] = await world.store(topic, a_batch(["a", "b"]), counts=[2])
    subscription_of(topic).ack(consumer, [(position, [0b10])])
    await subscription_of(topic).seek(BEFORE_ALL)
    out = Out(2)
    await world.consumer(topic, out, kind=SHARED, permits=10)
    await settle()
    assert out.delivered[0].ack_set == []
