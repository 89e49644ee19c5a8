"""The node: it starts and stops in order, and what one client does never reaches another."""

from __future__ import annotations

import subprocess
import sys

import pytest

from magnetar.base.errors import Closed, StorageFailed, StorageFull
from magnetar.broker.connection.limits import ConnectionLimits
from magnetar.wire.proto import pb
from tests.unit.broker.world import TOPIC, World, pass_s, settle

_T = pb.BaseCommand


async def test_stopping_with_requests_in_air_leaves_no_task_behind(world: World) -> None:
    client, waiter = world.client(), world.client()
    await client.produce(1, producer_name="x", producer_access_mode=pb.Exclusive)
    waiter.request("PRODUCER", topic=TOPIC, producer_id=1, producer_access_mode=pb.WaitForExclusive)
    await settle()
    await world.node.stop()
    world.stopped = True
    await settle()
    assert client.wire.closing
    assert waiter.wire.closing
    assert world.node.connections == {}
    assert waiter.connection.owner.closed


async def test_disk_that_fails_stops_node_once(world: World) -> None:
    assert world.node.ready
    world.node.fail(StorageFull("no space"))
    world.node.fail(StorageFailed("and more"))
    assert isinstance(world.node.failure, StorageFull)
    assert not world.node.ready
    assert world.node.stopping.is_set()


async def test_lost_connection_takes_its_producers_consumers_and_watches_with_it(world: World) -> None:
    client = world.client()
    await client.produce()
    await client.subscribe()
    await client.ask("WATCH_TOPIC_LIST", namespace="public/default", watcher_id=1, topics_pattern="public/default/.*")
    topic = await world.topic()
    client.lose()
    assert topic.idle
    await settle()
    assert client.connection.owner.closed
    assert client.connection.producers == client.connection.consumers == client.connection.watchers == {}


@pytest.mark.setup(maxMessagePublishBufferSizeInMB="1")
async def test_paused_connection_is_resumed_when_others_have_let_go(world: World) -> None:
    first, second = world.client(), world.client()
    first.wire.polite = second.wire.polite = True
    await first.produce(1, topic="persistent://public/default/a")
    await second.produce(1, topic="persistent://public/default/b")
    world.ledgers.hold()
    first.send(0, "x" * (2 * 1024 * 1024))
    second.send(0, "y")
    assert not second.wire.reading  # the broker as a whole holds too much
    world.ledgers.release()
    await pass_s(6)
    assert first.wire.reading
    assert second.wire.reading
    assert world.node.paused == {}


@pytest.mark.setup(brokerMaxConnections="2")
async def test_nobody_is_let_in_beyond_maximum_of_connections(world: World) -> None:
    world.client(address="10.0.0.1")
    world.client(address="10.0.0.2")
    third = world.bare_client()
    assert third.wire.aborted
    await settle()
    assert len(world.node.connections) == 2


async def test_connections_above_descriptor_limit_are_refused_and_others_stay(world: World) -> None:
    world.node.sockets_max = ConnectionLimits(clients=2)
    first, second, third = (world.bare_client() for _ in range(3))
    assert [one.wire.aborted for one in (first, second, third)] == [False, False, True]
    await settle()
    first.lose()
    await settle()
    assert not world.bare_client().wire.aborted


async def test_absent_ledger_store_does_not_block_stop_and_session_ends(world: World) -> None:
    client = world.client()
    await client.produce()
    client.send(0)
    await settle()
    world.ledgers.outage(3600.0)
    world.ledgers.fault_rates.outage_hangs = 0.0
    await world.node.stop()
    world.stopped = True
    with pytest.raises(Closed):
        await world.metadata.get("/a")


def test_broker_without_stages_and_peers_starts_without_client():
    asked = "import sys, magnetar.broker.standalone; print({'magnetar.client.client', 'httpx2'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True).stdout == b"set()\n"
