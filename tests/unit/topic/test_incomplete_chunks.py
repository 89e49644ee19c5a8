"""Chunks that a seal cut short do not keep a segment from its end (H-E8); whatever can be put together does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from magnetar.base.errors import StorageFailed
from magnetar.base.ids import Position, Term
from magnetar.base.limits import LEFTOVER_AGAIN_S
from magnetar.broker.segments.drain_wait import complete
from magnetar.topic.incomplete_chunks import IncompleteChunks
from magnetar.topic.producers.admission import Admission, Admitted
from magnetar.topic.subscriptions.subscribe import Subscribe
from magnetar.topic.subscriptions.subscription import EXCLUSIVE, SHARED
from magnetar.topic.topic import Topic
from magnetar.wire.proto import pb
from simulation.stores.ledgers import MemoryLedgers, MemoryReader
from tests.unit.topic.world import Out, World, ack, an_entry, pass_s, settle, subscription_of, the_chunks

SEGMENT = "segment://public/default/orders/0000-ffff-0"
X = the_chunks("0123456789", 3, 7, producer="x")


def drained(topic: Topic) -> bool:
    assert topic.managed.terminated is not None
    return subscription_of(topic).cursor.drained(topic.managed.terminated)


async def on_disk(topic: Topic) -> None:
    await settle()
    await subscription_of(topic).cursor.flush()
    await settle()


@pytest.mark.parametrize("kind", [EXCLUSIVE, SHARED])
async def test_unfinished_message_at_end_of_sealed_segment_counts_as_drained(world: World, kind: int) -> None:
    topic = await world.topic(SEGMENT)
    out = Out()
    reader = await world.consumer(topic, out, kind=kind, permits=10)
    (whole, *_) = await world.store(topic, an_entry("a"), *X[:2])
    await topic.seal("op", Term(1))
    await on_disk(topic)
    assert not drained(topic)
    ack(topic, reader, whole)
    await on_disk(topic)
    assert drained(topic)
    assert out.of(pb.BaseCommand.REACHED_END_OF_TOPIC)


async def test_unfinished_messages_are_awaited_no_longer_than_neighbours(world: World) -> None:
    topic = await world.topic(SEGMENT)
    reader = await world.consumer(topic, Out(), kind=SHARED, permits=10)
    y = the_chunks("abcdef", 2, 3, producer="y")
    stored = await world.store(topic, X[0], an_entry("a"), y[0], X[1], an_entry("b"))
    await topic.seal("op", Term(1))
    for position in (stored[4], stored[1]):
        await on_disk(topic)
        assert not drained(topic)
        ack(topic, reader, position)
    await on_disk(topic)
    assert drained(topic)


@pytest.mark.parametrize("place", ["at the end", "in the middle"])
async def test_early_acknowledgements_of_all_but_incomplete_chunks_complete_segment(world: World, place: str) -> None:
    """Behind the first chunk of such a message each one is acknowledged by itself (H-F20)."""

    async def admit(_: Subscribe) -> Admitted:
        return Admitted(0, early=True)

    topic = await world.topic(SEGMENT)
    topic.admission = Admission(consume=admit)
    reader = await world.consumer(topic, Out(), kind=EXCLUSIVE, permits=10)
    whole, rest = an_entry("a"), X[:2]
    stored = await world.store(topic, *((whole, *rest) if place == "at the end" else (rest[0], whole, rest[1])))
    subscription = subscription_of(topic)
    assert not await complete(topic, subscription), "the segment may grow"
    await topic.seal("op", Term(1))
    assert not await complete(topic, subscription)
    if place == "at the end":
        subscription.ack_to(reader, stored[0], None)
    else:
        ack(topic, reader, stored[1])
    assert subscription.backlog == 3, "its acknowledgements wait for those of the ancestors"
    assert await complete(topic, subscription)


async def test_message_that_is_all_there_is_waited_for(world: World) -> None:
    topic = await world.topic(SEGMENT)
    reader = await world.consumer(topic, Out(), kind=EXCLUSIVE, permits=10)
    stored = await world.store(topic, *X)
    await topic.seal("op", Term(1))
    await on_disk(topic)
    assert subscription_of(topic).backlog == 3
    ack(topic, reader, *stored)
    await on_disk(topic)
    assert drained(topic)


async def test_chunks_of_segment_that_still_grows_are_left_alone(world: World) -> None:
    topic = await world.topic(SEGMENT)
    await world.consumer(topic, Out(), kind=EXCLUSIVE, permits=10)
    await world.store(topic, *X[:2])
    subscription_of(topic).leftover.look()
    await on_disk(topic)
    assert subscription_of(topic).backlog == 2


async def test_subscription_sought_during_check_keeps_everything(world: World) -> None:
    topic = await world.without_cache().topic(SEGMENT)
    reader = await world.consumer(topic, Out(), kind=EXCLUSIVE, permits=10)
    stored = await world.store(topic, an_entry("a"), X[0])
    await topic.seal("op", Term(1))
    ack(topic, reader, stored[0])  # it is being looked at from here on
    await asyncio.sleep(0)
    subscription_of(topic).cursor.reset(topic.managed.before(stored[0]))
    await on_disk(topic)
    assert subscription_of(topic).backlog == 2


async def test_segment_that_is_loaded_again_is_drained_when_somebody_asks(world: World) -> None:
    topic = await world.topic(SEGMENT)
    await world.consumer(topic, Out(), kind=EXCLUSIVE)
    await world.store(topic, X[0])
    await topic.managed.terminate(properties={})  # and nobody was told any more
    again = await world.crash().topic(SEGMENT)
    assert not drained(again)
    subscription_of(again).leftover.look()
    await on_disk(again)
    assert drained(again)


async def test_end_of_message_with_acknowledged_start_is_not_awaited(world: World) -> None:
    topic = await world.topic(SEGMENT)
    reader = await world.consumer(topic, Out(), kind=EXCLUSIVE, permits=10)
    stored = await world.store(topic, X[0], X[1], an_entry("a"), X[2])
    await topic.seal("op", Term(1))
    assert reader.subscription is not None
    reader.subscription.ack_to(reader, stored[0], None)  # where it began, or was moved to
    await on_disk(topic)
    assert not drained(topic)
    ack(topic, reader, stored[2])
    await on_disk(topic)
    assert drained(topic)


async def test_message_resent_from_first_chunk_is_awaited(world: World) -> None:
    topic = await world.topic(SEGMENT)
    await world.consumer(topic, Out(), kind=EXCLUSIVE, permits=10)
    await world.store(topic, X[0], X[1], *X)
    await topic.seal("op", Term(1))
    await on_disk(topic)
    assert subscription_of(topic).backlog == 5


async def test_reader_with_all_chunks_but_last_gets_message(
    world: World,
) -> None:
    topic = await world.topic(SEGMENT)
    out = Out()
    reader = await world.consumer(topic, out, kind=EXCLUSIVE, permits=10, durable=False)
    stored = await world.store(topic, *X)
    await topic.seal("op", Term(1))
    ack(topic, reader, *stored[:2])
    await settle()
    assert subscription_of(topic).backlog == 1
    assert not out.of(pb.BaseCommand.REACHED_END_OF_TOPIC)
    ack(topic, reader, stored[2])
    await settle()
    assert out.of(pb.BaseCommand.REACHED_END_OF_TOPIC)


class Unreadable(MemoryLedgers):
    """While it is so, nothing can be read that is not in memory."""

    so = False

    async def open(self, ledger: int, *, recover: bool) -> MemoryReader:
        if self.so:
            raise StorageFailed("no answer")
        return await super().open(ledger, recover=recover)


async def test_unreadable_remainder_is_checked_again(world: World) -> None:
    ledgers = world.ledgers = Unreadable()
    topic = await world.without_cache().topic(SEGMENT)
    await world.consumer(topic, Out(), kind=EXCLUSIVE)
    await world.store(topic, X[0])
    await topic.managed.terminate(properties={})
    ledgers.so = True
    subscription_of(topic).leftover.look()
    await on_disk(topic)
    assert not drained(topic)
    ledgers.so = False
    await pass_s(LEFTOVER_AGAIN_S)
    await on_disk(topic)
    assert drained(topic)


class Slow(IncompleteChunks):
    """Has found what it looked for, and says so when the gate is open."""

    gate: asyncio.Event

    async def _unfinished(
        self, end: Position, is_acked: Callable[[Position], bool]
    ) -> tuple[list[Position], Position | None] | None:
        found = await super()._unfinished(end, is_acked)
        await self.gate.wait()
        return found


async def test_message_acknowledged_during_search_is_not_awaited(world: World) -> None:
    topic = await world.topic(SEGMENT)
    reader = await world.consumer(topic, Out(), kind=EXCLUSIVE, permits=10)
    slow = subscription_of(topic).leftover = Slow(subscription_of(topic))
    slow.gate = asyncio.Event()
    (whole, _) = await world.store(topic, an_entry("a"), X[0])
    await topic.seal("op", Term(1))
    await settle()
    ack(topic, reader, whole)
    await on_disk(topic)
    slow.gate.set()
    await on_disk(topic)
    assert drained(topic)
