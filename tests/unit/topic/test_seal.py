"""The end of a topic: durable before anybody hears of it, the same for everybody who asks."""

from __future__ import annotations

import pytest

from magnetar.base.errors import Fenced, MagnetarError, NotReady, StorageFailed
from magnetar.base.ids import Term
from magnetar.topic.dedup.dedup import Dedup
from magnetar.topic.subscriptions.subscription import EXCLUSIVE
from magnetar.wire.proto import pb
from simulation.stores.metadata import InjectedFault, lost_answer
from tests.unit.topic.world import Out, World, ack, an_entry, gathered, send_frame, settle


async def test_sealing_twice_gives_same_answer(world: World) -> None:
    topic = await world.topic(deduplication=True)
    positions = await world.store(topic, an_entry("a", 1, publish_time=100), an_entry("b", 2, publish_time=200))
    first = await topic.seal("op", Term(3))
    again = await topic.seal("op", Term(3))
    assert first == again
    assert first.end == positions[-1]
    assert (first.messages, first.first_publish_ms, first.last_publish_ms) == (2, 100, 200)
    assert Dedup().load(first.dedup, 0) == first.end
    after = await (await world.crash().topic(deduplication=True)).seal("op", Term(3))
    assert (after.end, after.messages, after.fence) == (first.end, first.messages, first.fence)


async def test_lower_term_is_fenced_and_higher_survives_crash(world: World) -> None:
    topic = await world.topic()
    await topic.seal("one", Term(3))
    await topic.seal("two", Term(5))
    with pytest.raises(Fenced):
        await topic.seal("one", Term(4))
    after = await world.crash().topic()
    with pytest.raises(Fenced):
        await after.seal("one", Term(3))
    await after.seal("two", Term(5))


async def test_lower_of_concurrent_terms_does_not_overwrite_higher(world: World) -> None:
    topic = await world.topic()
    higher = world.spawn(topic.seal("two", Term(5)))
    lower = world.spawn(topic.seal("one", Term(4)))
    await higher
    with pytest.raises(Fenced):
        await lower
    with pytest.raises(Fenced):
        await (await world.crash().topic()).seal("one", Term(4))


async def test_runs_in_flight_before_seal_keep_their_receipts(world: World) -> None:
    topic = await world.topic()
    out = Out()
    producer = await world.producer(topic, out, producer_id=1)
    world.ledgers.hold()
    topic.publish(producer, gathered(send_frame(1, 0, an_entry("in time"))))
    await settle()
    sealing = world.spawn(topic.seal("op", Term(1)))
    await settle()
    topic.publish(producer, gathered(send_frame(1, 1, an_entry("late"))))
    assert out.kinds == []
    world.ledgers.release()
    sealed = await sealing
    await settle()
    assert out.kinds == ["SEND_RECEIPT", "SEND_ERROR", "CLOSE_PRODUCER"]
    assert out.answered == [(0, None), (1, pb.TopicTerminatedError)]
    assert sealed.end == out.receipts[0].position
    assert world.failed == []  # an end is no failure: nothing is unloaded


async def test_seal_that_did_not_happen_leaves_topic_open(world: World) -> None:
    topic = await world.topic()
    out = Out()
    producer = await world.producer(topic, out, producer_id=1)
    topic.publish(producer, gathered(send_frame(1, 0, an_entry("a"))))
    await settle()
    world.metadata.faults.append(InjectedFault(NotReady("the store is away"), happened=False))
    with pytest.raises(NotReady):
        await topic.seal("op", Term(1))
    topic.publish(producer, gathered(send_frame(1, 1, an_entry("b"))))
    await settle()
    assert out.answered == [(0, None), (1, None)]
    assert (await topic.seal("op", Term(1))).end == out.receipts[-1].position


async def test_seal_that_may_have_happened_unloads_topic(world: World) -> None:
    topic = await world.topic()
    await world.publish(topic, "a")
    world.metadata.faults.extend([lost_answer(happened=False)] * 20)
    with pytest.raises(MagnetarError):
        await topic.seal("op", Term(1))
    assert len(world.failed) == 1
    world.metadata.faults.clear()
    await topic.close()
    again = await world.topic()
    await again.seal("op", Term(1))


async def test_failed_ledger_cannot_be_sealed_and_says_so(world: World) -> None:
    topic = await world.topic()
    out = Out()
    producer = await world.producer(topic, out, producer_id=1)
    for _ in range(5):
        world.ledgers.fail_append(StorageFailed("the disk went"))
    topic.publish(producer, gathered(send_frame(1, 0, an_entry("a"))))
    await settle()
    with pytest.raises(MagnetarError):
        await topic.seal("op", Term(1))


@pytest.mark.parametrize(
    ("client_version", "protocol_version", "told"),
    [("Java-4.0", 21, 1), ("Pulsar-CPP-v4.2.0", 20, 0), ("Pulsar-CPP-v4.2.0-desc", 20, 0), ("old", 8, 0)],
)
async def test_end_is_told_once_to_clients_that_bear_it(
    world: World, client_version: str, protocol_version: int, told: int
) -> None:
    topic = await world.topic()
    out = Out(client_version=client_version, protocol_version=protocol_version)
    consumer = await world.consumer(topic, out, kind=EXCLUSIVE, permits=10)
    positions = await world.publish(topic, "a", "b")
    await topic.seal("op", Term(1))
    assert out.of(pb.BaseCommand.REACHED_END_OF_TOPIC) == []  # not while something is unacknowledged
    ack(topic, consumer, *positions)
    ack(topic, consumer, *positions)
    await settle()
    assert len(out.of(pb.BaseCommand.REACHED_END_OF_TOPIC)) == told


async def test_sealing_empty_topic_ends_it_before_everything(world: World) -> None:
    topic = await world.topic()
    sealed = await topic.seal("op", Term(1))
    assert (sealed.messages, sealed.first_publish_ms, sealed.last_publish_ms) == (0, 0, 0)
    assert not topic.managed.has(sealed.end)


async def test_segment_end_is_reported_only_when_durable(
    world: World,
) -> None:
    topic = await world.topic("segment://public/default/t/0000-ffff-0")
    out = Out(client_version="Java-5.0")
    consumer = await world.consumer(topic, out, kind=EXCLUSIVE, permits=10)
    positions = await world.publish(topic, "a", "b")
    await topic.seal("op", Term(1))
    ack(topic, consumer, *positions)
    await settle()
    assert out.of(pb.BaseCommand.REACHED_END_OF_TOPIC) == []
    found = topic.subscriptions.get(consumer.subscription.name if consumer.subscription else "")
    assert found is not None
    await found.cursor.flush()
    assert len(out.of(pb.BaseCommand.REACHED_END_OF_TOPIC)) == 1
