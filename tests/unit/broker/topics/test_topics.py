"""Topics in memory: loaded once for everybody, unloaded whole or not at all, whoever asked and went away."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from magnetar.base.errors import Conflict, MagnetarError, NotReady, Refused, StorageFailed, TopicNotFound
from magnetar.base.limits import MAINTENANCE_S, TOPIC_IDLE_S, UNLOADS_AT_ONCE_MAX
from magnetar.base.names import namespace_name, topic_name
from magnetar.topic.topic import Topic
from magnetar.wire.proto import pb
from simulation.stores.metadata import InjectedFault
from tests.unit.broker.world import TOPIC, World, pass_s, settle

NAME = topic_name(TOPIC)
_T = pb.BaseCommand


async def test_everybody_who_asks_at_once_gets_one_topic(world: World) -> None:
    found = await asyncio.gather(*(world.node.topics.get(NAME, create=True) for _ in range(5)))
    assert len({id(topic) for topic in found}) == 1


async def test_load_that_fails_is_tried_again_by_next_who_asks(world: World) -> None:
    await world.node.namespaces.policies(NAME.namespace)
    world.metadata.faults.extend([InjectedFault(NotReady("away"), happened=False)] * 3)
    with pytest.raises(MagnetarError):
        await world.node.topics.get(NAME, create=True)
    world.metadata.faults.clear()
    assert isinstance(await world.node.topics.get(NAME, create=True), Topic)


async def test_creator_does_not_fail_through_concurrent_non_creator(world: World) -> None:
    world.metadata.hold()
    looking = world.spawn(world.node.topics.get(NAME, create=False))
    await settle()
    making = world.spawn(world.node.topics.get(NAME, create=True))
    await settle()
    world.metadata.release()
    with pytest.raises(TopicNotFound):
        await looking
    assert isinstance(await making, Topic)


async def test_whoever_asked_first_may_go_away(world: World) -> None:
    world.metadata.hold()
    first = world.spawn(world.node.topics.get(NAME, create=True))
    await settle()
    second = world.spawn(world.node.topics.get(NAME, create=True))
    await settle()
    first.cancel()
    await settle()
    world.metadata.release()
    assert isinstance(await second, Topic)


async def test_whoever_comes_while_it_unloads_gets_next_one(world: World) -> None:
    old = await world.topic()
    world.metadata.hold()
    unloading = world.spawn(world.node.topics.unload(NAME))
    again = world.spawn(world.node.topics.unload(NAME))
    await settle()
    getting = world.spawn(world.topic())
    await settle()
    world.metadata.release()
    assert await unloading
    assert await again
    new = await getting
    assert new is not old
    assert old.closed
    assert not await world.node.topics.unload(topic_name("persistent://public/default/other"))


async def test_unload_goes_on_when_whoever_asked_for_it_goes_away(world: World) -> None:
    client = world.client()
    await client.subscribe(permits=1)
    world.ledgers.hold()
    writer = world.client()
    await writer.produce()
    writer.send(0)
    unloading = world.spawn(world.node.topics.unload(NAME))
    await settle()
    unloading.cancel()
    await settle()
    world.ledgers.release()
    await settle()
    assert world.loaded() is None
    assert client.heard.kinds[-1] == "CLOSE_CONSUMER"
    assert writer.heard.kinds[-2:] == ["SEND_RECEIPT", "CLOSE_PRODUCER"]


async def test_topic_in_use_is_deleted_only_by_force_and_completely(world: World) -> None:
    client = world.client()
    await client.subscribe(permits=1)
    with pytest.raises(Conflict):
        await world.node.topics.delete(NAME, force=False)
    assert world.loaded() is not None
    await world.node.topics.delete(NAME, force=True)
    assert client.heard.kinds[-1] == "CLOSE_CONSUMER"
    assert await world.node.topics.names(NAME.namespace, ("persistent",)) == []
    with pytest.raises(TopicNotFound):
        await world.node.topics.delete(NAME, force=True)
    with pytest.raises(TopicNotFound):
        await world.node.topics.delete(topic_name("non-persistent://public/default/n"), force=True)


async def test_topics_are_verified_in_groups_of_one_round_trip(world: World) -> None:
    names = [topic_name(f"persistent://public/default/v-{number}") for number in range(UNLOADS_AT_ONCE_MAX + 20)]
    for name in names:
        await world.node.topics.get(name, create=True)
    world.metadata.hold()
    verifying = world.spawn(world.node.topics.verify([name.canonical for name in names]))
    await settle()
    assert world.metadata.waiting == UNLOADS_AT_ONCE_MAX
    world.metadata.release()
    assert await verifying == []


async def test_topics_whose_check_fails_are_returned(world: World) -> None:
    names = [topic_name(f"persistent://public/default/v-{number}") for number in range(3)]
    for name in names:
        await world.node.topics.get(name, create=True)
    world.metadata.faults.append(InjectedFault(NotReady("away"), happened=False))
    silent = await world.node.topics.verify([*(name.canonical for name in names), "unknown"])
    assert silent == [names[0].canonical]
    assert await world.node.topics.verify(silent) == []


async def test_deleting_twice_at_once_deletes_once(world: World) -> None:
    await world.topic()
    results = await asyncio.gather(
        *(world.node.topics.delete(NAME, force=True) for _ in range(2)), return_exceptions=True
    )
    assert [type(one) for one in results] == [type(None), TopicNotFound]


async def test_idle_topic_leaves_memory_and_one_in_use_stays(world: World) -> None:
    client = world.client()
    client.wire.polite = True
    await client.produce(1)
    await client.produce(2, topic="persistent://public/default/left")
    await client.ask("CLOSE_PRODUCER", producer_id=2)
    await pass_s(TOPIC_IDLE_S + 3 * MAINTENANCE_S)
    assert list(world.node.topics.loaded) == [NAME.canonical]
    client.lose()
    await pass_s(TOPIC_IDLE_S + 3 * MAINTENANCE_S)
    assert len(world.node.topics) == 0
    assert await world.node.topics.names(NAME.namespace, ("persistent",)) == [
        "persistent://public/default/left",
        TOPIC,
    ]


@pytest.mark.setup(brokerDeduplicationEnabled="true", managedLedgerMaxLedgerRolloverTimeMinutes="100000")
async def test_housekeeping_goes_on_past_topic_that_fails(world: World) -> None:
    client = world.client()
    client.wire.polite = True
    await client.produce(1)
    await client.produce(2, topic="persistent://public/default/other")
    client.send(0)
    client.send(0, producer_id=2)
    await settle()
    for _ in range(40):
        world.ledgers.fail_append(StorageFailed("the disk went"))
    await pass_s(2000)  # deduplication snapshots fail in both, again and again
    world.ledgers.append_faults.clear()
    await pass_s(300)
    topic = await world.topic("persistent://public/default/other")
    assert topic.recall is not None
    assert topic.recall.position == topic.managed.last


async def test_changed_policies_reach_topics_they_apply_to(world: World) -> None:
    topic = await world.topic()
    assert topic.dedup is None
    await world.node.namespaces.update(
        namespace_name("public/default"), lambda now: msgspec.structs.replace(now, deduplicationEnabled=True)
    )
    await settle()
    assert topic.dedup is not None


@pytest.mark.parametrize(
    ("name", "error"),
    [("topic://public/default/t", Refused), ("persistent://public/nowhere/t", TopicNotFound)],
)
async def test_what_cannot_be_loaded_says_why(world: World, name: str, error: type[MagnetarError]) -> None:
    with pytest.raises(error):
        await world.node.topics.get(topic_name(name), create=True)


async def test_stopping_broker_answers_requests_in_flight_and_accepts_none(world: World) -> None:
    client = world.client()
    await client.produce()
    await client.subscribe(permits=10)
    world.ledgers.hold()
    client.send(0, "a")
    await settle()
    closing = world.spawn(world.node.topics.close())
    await settle()
    world.ledgers.release()
    await closing
    kinds = client.heard.kinds
    assert kinds.index("SEND_RECEIPT") < kinds.index("CLOSE_PRODUCER")
    assert "CLOSE_CONSUMER" in kinds
    refused = await client.produce(2)
    assert refused.error.error == pb.ServiceNotReady


async def test_stop_unloads_topics_together(world: World) -> None:
    for number in range(5):
        topic = await world.node.topics.get(topic_name(f"{TOPIC}-{number}"), create=True)
        assert isinstance(topic, Topic)
        await topic.subscriptions.create("s", topic.managed.last)
        for subscription in topic.subscriptions:
            subscription.cursor.reset(topic.managed.last)
    world.metadata.hold()
    closing = world.spawn(world.node.topics.close())
    await settle()
    assert world.metadata.waiting == 5
    world.metadata.release()
    await closing
    assert not world.node.topics.loaded
