"""Topics out of memory are trimmed as well: visited after the start and once in a while, a few at a time."""

from __future__ import annotations

import pytest

from magnetar.base.ids import Position
from magnetar.base.limits import MAINTENANCE_S, TOPIC_IDLE_S, VISIT_S, VISITS_PER_ROUND_MAX
from magnetar.base.names import namespace_name, topic_name
from magnetar.broker.topics.retention_sweep import RetentionSweeper
from magnetar.cluster.ownership import SoleOwnership
from magnetar.ledger.chain import LedgerSpan
from magnetar.ledger.cursor.cursor import may_lag
from magnetar.policy.policies import Policies
from magnetar.policy.settings import Settings
from tests.unit.broker.world import TOPIC, World, pass_s, settle

NAME = topic_name(TOPIC)


async def consumed(world: World, topic: str = TOPIC, *, acked: bool = True) -> None:
    """One message of a topic with one subscription, then nobody uses it and it leaves memory."""
    client = world.client()
    await client.subscribe(topic=topic, permits=10)
    await client.produce(topic=topic)
    client.send(0)
    await settle()
    loaded = await world.topic(topic)
    if acked:
        client.ack(1, loaded.managed.last)
        await settle()
    client.lose()
    await settle()
    await world.node.topics.unload(topic_name(topic))
    assert world.loaded(topic) is None


async def entries(world: World, topic: str = TOPIC) -> int:
    return (await world.topic(topic)).managed.entries


def a_walk(world: World) -> RetentionSweeper:
    return RetentionSweeper(world.node)  # as a broker that has just started


async def test_consumed_messages_of_unloaded_topic_are_deleted(
    world: World,
) -> None:
    await consumed(world)
    held = len(await world.ledgers.list({"component": "managed-ledger"}))
    visits = a_walk(world)
    await visits.round()
    assert visits.trimmed == 1
    assert len(await world.ledgers.list({"component": "managed-ledger"})) == held - 1
    assert await entries(world) == 0


async def test_what_subscription_has_still_to_read_stays(world: World) -> None:
    await consumed(world, acked=False)
    visits = a_walk(world)
    await visits.round()
    assert visits.trimmed == 0
    assert await entries(world) == 1


@pytest.mark.setup(defaultRetentionTimeInMinutes="10", defaultRetentionSizeInMB="-1")
async def test_topic_under_retention_is_not_loaded_before_its_time(world: World) -> None:
    await consumed(world)
    await a_walk(world).round()
    assert world.loaded() is None
    await pass_s(11 * 60)
    visits = a_walk(world)
    await visits.round()
    assert visits.trimmed == 1


KEEP_ALL = {"defaultRetentionTimeInMinutes": "-1", "defaultRetentionSizeInMB": "-1"}


@pytest.mark.setup(**KEEP_ALL)
async def test_namespace_that_keeps_everything_loads_nothing_to_trim(world: World) -> None:
    await consumed(world)
    await a_walk(world).round()
    assert world.loaded() is None


@pytest.mark.setup(**KEEP_ALL)
async def test_backlog_is_found_after_start_and_stays_shown(world: World) -> None:
    await pass_s(2 * MAINTENANCE_S)
    await consumed(world, acked=False)
    key, unloaded = NAME.canonical, world.node.topics.unloaded
    assert [one.subscriptions[0].lag.messages for one in unloaded] == [1]
    unloaded.forget(key)  # as after a start
    visits = a_walk(world)
    await visits.round()
    assert world.loaded() is not None
    await pass_s(TOPIC_IDLE_S + 3 * MAINTENANCE_S)
    assert world.loaded() is None
    assert [one.subscriptions[0].lag.messages for one in unloaded] == [1]
    await a_walk(world).round()
    assert world.loaded() is None  # it is known: no second look


def test_marks_behind_end_or_open_ledger_may_lag() -> None:
    closed = LedgerSpan(7, 10, 100, 10).closed(1)
    assert not may_lag([closed], [Position(7, 9)])
    assert may_lag([closed], [Position(7, 9), Position(7, 8)])
    assert not may_lag([closed], [])
    assert may_lag([closed, LedgerSpan(8)], [Position(7, 9)])


async def test_retention_sweep_visits_every_topic_in_small_rounds(world: World) -> None:
    many = VISITS_PER_ROUND_MAX + 3
    for number in range(many):
        await consumed(world, f"{TOPIC}-{number}")
    visits = a_walk(world)
    await visits.round()
    assert visits.trimmed == VISITS_PER_ROUND_MAX
    await visits.round()
    assert visits.trimmed == many


async def test_topics_in_buckets_are_found_too(world: World) -> None:
    namespace = namespace_name("public/bucketed")
    await world.node.namespaces.create(namespace, Policies(numberOfTopicBuckets=4))
    for number in range(5):
        await consumed(world, f"persistent://public/bucketed/t{number}")
    visits = a_walk(world)
    await visits.round()
    assert visits.trimmed == 5


async def test_node_walks_after_its_start_and_then_once_in_while(world: World) -> None:
    await pass_s(2 * MAINTENANCE_S)  # the first walk is over, and found nothing
    await consumed(world)
    await pass_s(TOPIC_IDLE_S)
    assert world.node.visits.trimmed == 0
    await pass_s(VISIT_S)
    assert world.node.visits.trimmed == 1
    assert world.loaded() is None  # and has left memory again, like any idle topic


class Away(SoleOwnership):
    """As in a cluster whose metadata store does not answer."""

    steady = False


async def test_nothing_is_visited_while_metadata_store_is_away(world: World) -> None:
    await consumed(world)
    here = world.node.served.ownership
    world.node.served.ownership = Away(here.me)
    visits = a_walk(world)
    await visits.round()
    assert visits.trimmed == 0
    world.node.served.ownership = here
    await visits.round()
    assert visits.trimmed == 1


async def test_topic_deleted_before_visit_is_skipped(world: World) -> None:
    for number in range(2):
        await consumed(world, f"{TOPIC}-{number}")
    visits = a_walk(world)
    world.metadata.hold()
    rounding = world.spawn(visits.round())
    await settle()
    world.metadata.release()
    await world.node.topics.delete(topic_name(f"{TOPIC}-1"), force=True)
    await rounding
    assert visits.trimmed >= 1
    assert not await world.node.catalogue.exists(topic_name(f"{TOPIC}-1"))


async def test_damaged_record_does_not_end_walk(world: World) -> None:
    await consumed(world, f"{TOPIC}-b")
    await world.metadata.put("/managed-ledgers/public/default/persistent/orders-a", b"{")
    visits = a_walk(world)
    await visits.round()
    assert visits.trimmed == 1


async def test_positions_do_not_move_back_by_visit(world: World) -> None:
    await consumed(world)
    before = (await world.topic()).managed.last
    await world.node.topics.unload(NAME)
    await a_walk(world).round()
    assert (await world.topic()).managed.last == before > Position(-1, -1)


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.setup(defaultRetentionTimeInMinutes="0", defaultRetentionSizeInMB="0")
async def test_unloaded_segment_is_trimmed_unless_scalable_topics_are_disabled(world: World, enabled: bool) -> None:
    name = topic_name("topic://public/default/orders")
    record = await world.node.scalable.create(name, segments=2)
    segment = record.layout.segments[0].topic(name)
    client = world.client()
    await client.produce(topic=str(segment))
    client.send(0)
    await settle()
    client.lose()
    await settle()
    await world.node.topics.unload(segment)
    visits = a_walk(world)
    world.node.scalable._settings = Settings(None, {"scalableTopicsEnabled": str(enabled).lower()})
    await visits.round()
    assert visits.trimmed == enabled
