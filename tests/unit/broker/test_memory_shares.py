"""The sums over all connections: lower on a machine with little memory, and shared fairly when they are used up."""

from __future__ import annotations

from typing import Any

import pytest

from magnetar.base.errors import LimitExceeded
from magnetar.base.limits import (
    CLIENT_OBJECT_BYTES,
    CONNECTION_OWN_BYTES,
    CONNECTION_REQUESTS_MAX,
    CONNECTION_REQUESTS_MIN,
    CONNECTIONS_MIN,
    KEPT_BYTES_MAX,
    LOADED_TOPIC_BYTES,
    LOADED_TOPICS_MAX,
    MEMORY_FULL_BYTES,
    OBJECTS_BYTES_MAX,
    REQUESTS_MAX,
    WATCH_OBJECT_BYTES,
)
from magnetar.broker.connection.property_limits import Account, Charged
from magnetar.broker.memory_shares import connections_max, loaded_topics_max, share_of
from magnetar.broker.node import Node
from magnetar.policy.settings import Settings
from magnetar.wire.proto import pb
from simulation.environment.inline_runtime import InlineRuntime
from simulation.stores.ledgers import MemoryLedgers
from simulation.stores.metadata import MemoryStore
from tests.unit.broker.world import TOPIC, NoFiles, World, settle

GIB = 1024 * 1024 * 1024
_T = pb.BaseCommand


def test_share_is_in_proportion_and_never_less_than_eighth() -> None:
    assert share_of(800, None) == share_of(800, MEMORY_FULL_BYTES) == share_of(800, 2 * MEMORY_FULL_BYTES) == 800
    assert share_of(800, MEMORY_FULL_BYTES // 2) == 400
    assert share_of(800, 1) == 100


def test_connections_follow_from_half_of_memory() -> None:
    assert connections_max(None) == 0
    assert connections_max(GIB) == connections_max(4 * GIB) == CONNECTIONS_MIN
    assert CONNECTIONS_MIN < connections_max(12 * GIB) < connections_max(64 * GIB)
    assert connections_max(65 * GIB) - connections_max(64 * GIB) == pytest.approx(GIB / 2 / CONNECTION_OWN_BYTES, abs=1)


def test_loaded_topics_take_eighth_of_memory() -> None:
    assert loaded_topics_max(None) == loaded_topics_max(64 * GIB) == LOADED_TOPICS_MAX
    assert loaded_topics_max(4 * GIB) * LOADED_TOPIC_BYTES == GIB // 2


def node_of(machine_bytes: int, **given: str) -> Node:
    files: Any = NoFiles()
    runtime = InlineRuntime(files)
    settings = Settings(None, given)
    return Node(
        runtime=runtime,
        metadata=MemoryStore(runtime),
        ledgers=MemoryLedgers(),
        settings=settings,
        machine_bytes=machine_bytes,
    )


async def test_node_on_small_machine_has_lower_sums() -> None:
    small, large = node_of(3 * GIB), node_of(64 * GIB)
    assert large.pending_bytes_max == 4 * small.pending_bytes_max == 512 * 1024 * 1024
    assert large.kept.bytes_max == 4 * small.kept.bytes_max == KEPT_BYTES_MAX
    assert large.kept.objects_bytes_max == 4 * small.kept.objects_bytes_max == OBJECTS_BYTES_MAX
    assert large.unread.bytes_max == 4 * small.unread.bytes_max
    assert large.requests_max == 4 * small.requests_max == REQUESTS_MAX


async def test_buffer_that_operator_has_set_is_as_set() -> None:
    assert node_of(GIB, maxMessagePublishBufferSizeInMB="512").pending_bytes_max == 512 * 1024 * 1024
    assert node_of(GIB, maxMessagePublishBufferSizeInMB="-1").pending_bytes_max == 2**63


async def test_buffer_set_while_broker_runs_holds(world: World) -> None:
    await world.node.dynamic.set("maxMessagePublishBufferSizeInMB", "7")
    await settle()
    assert world.node.pending_bytes_max == 7 * 1024 * 1024


def test_objects_are_charged_while_they_are_there() -> None:
    account = Account()
    made: Charged[str] = Charged(account, 10)
    made[1], made[2] = "a", "b"
    made[1] = "c"
    assert account.objects_bytes == 20
    assert made.pop(3, None) is None
    assert made.pop(1) == "c"
    assert account.objects_bytes == 10
    del made[2]
    made[4] = made[5] = "d"
    made.clear()
    assert account.objects_bytes == 0
    with pytest.raises(LimitExceeded, match="producers, consumers and watches"):
        Account(objects_bytes_max=10).check_objects(11)


async def test_objects_of_all_connections_have_bound(world: World) -> None:
    account = world.node.kept
    account.objects_bytes_max = 3 * CLIENT_OBJECT_BYTES + 2 * WATCH_OBJECT_BYTES
    one, two = world.client(), world.client()
    assert (await one.produce(1)).type == _T.PRODUCER_SUCCESS
    assert (await one.subscribe(1)).type == _T.SUCCESS
    assert (await two.produce(1)).type == _T.PRODUCER_SUCCESS
    watch = {"namespace": "public/default", "topics_pattern": "public/default/.*"}
    assert (await two.ask("WATCH_TOPIC_LIST", watcher_id=1, **watch)).type == _T.WATCH_TOPIC_LIST_SUCCESS
    assert (await two.ask("WATCH_TOPIC_LIST", watcher_id=2, **watch)).type == _T.WATCH_TOPIC_LIST_SUCCESS
    assert account.objects_bytes == account.objects_bytes_max
    for refused in (
        await two.produce(2),
        await two.subscribe(2),
        await two.ask("WATCH_TOPIC_LIST", watcher_id=3, **watch),
    ):
        assert refused.error.error == pb.NotAllowedError
        assert str(account.objects_bytes_max) in refused.error.message
    two.say(_command("SCALABLE_TOPIC_LOOKUP", session_id=1, topic="topic://public/default/t"))
    two.say(_command("WATCH_SCALABLE_TOPICS", watch_id=1, namespace="public/default"))
    await settle()
    assert (len(two.connection.layouts), len(two.connection.memberships)) == (0, 0)
    one.lose()
    await settle()
    assert (await two.produce(2)).type == _T.PRODUCER_SUCCESS
    two.lose()
    await settle()
    assert account.objects_bytes == 0


def _command(kind: str, **fields: Any) -> pb.BaseCommand:
    from tests.unit.broker.world import command

    return command(kind, **fields)


async def test_requests_of_all_connections_are_bounded_and_light_client_continues(world: World) -> None:
    node = world.node
    node.requests_max = 100
    greedy, modest = world.client(), world.client()
    await world.topic()
    world.metadata.hold()
    for _ in range(200):
        greedy.request("GET_SCHEMA", topic=TOPIC)
    await settle()
    assert not greedy.wire.reading
    assert 100 <= node.requests < CONNECTION_REQUESTS_MAX
    for _ in range(CONNECTION_REQUESTS_MIN - 1):
        modest.request("GET_SCHEMA", topic=TOPIC)
    await settle()
    assert modest.wire.reading
    modest.request("GET_SCHEMA", topic=TOPIC)
    await settle()
    assert not modest.wire.reading
    world.metadata.release()
    await settle(200)
    assert greedy.wire.reading
    assert modest.wire.reading
    assert node.requests == 0
    assert len(greedy.heard.of(_T.GET_SCHEMA_RESPONSE)) == 200


async def test_requests_of_lost_connection_count_no_more(world: World) -> None:
    client = world.client()
    await world.topic()
    world.metadata.hold()
    for _ in range(20):
        client.request("GET_SCHEMA", topic=TOPIC)
    await settle()
    assert world.node.requests == 20
    client.lose()
    await settle()
    assert world.node.requests == 0
