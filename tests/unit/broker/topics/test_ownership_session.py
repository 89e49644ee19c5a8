"""A lost session, a lost lock, a silent store: what is owned is served on, and nothing new is begun (PIP-57)."""

from __future__ import annotations

import pytest

from magnetar.base.errors import SessionLost
from magnetar.base.limits import MAINTENANCE_S, SESSION_S, TOPIC_IDLE_S
from magnetar.base.names import topic_name
from magnetar.broker.node import Node
from magnetar.ledger.managed import ManagedLedger
from magnetar.metadata import paths
from magnetar.wire.proto import pb
from tests.support.broker_cluster import NAME, Cluster, error_of
from tests.unit.broker.world import pass_s, settle

_T = pb.BaseCommand
_L = pb.CommandLookupTopicResponse


async def test_lock_that_somebody_else_has_unloads_bundle_without_writing(cluster: Cluster) -> None:
    old, new = await cluster.find()
    client = old.client()
    await client.produce()
    await client.subscribe(permits=10)
    client.send(0, "m0")
    await settle()
    client.ack(1, client.heard.delivered[0].position)
    path = paths.topic(NAME, 1)
    old.metadata.lose_session(server_side=True)
    await new.node.ownership.owner(*await new.place(), authoritative=True)
    before = new.below(path)
    old.metadata.regain_session()
    await settle()
    assert old.marks("ownership.lost")
    assert not old.loaded()
    assert "CLOSE_PRODUCER" in client.heard.kinds
    assert "CLOSE_CONSUMER" in client.heard.kinds
    assert new.below(path) == before
    assert old.node.ownership.held() == []


async def test_session_restored_in_time_is_unnoticed_by_clients(cluster: Cluster) -> None:
    owner, other = await cluster.find()
    client = owner.client()
    await client.produce()
    await client.subscribe(permits=10)
    owner.metadata.lose_session(server_side=True)
    client.send(0, "while it is away")
    await settle()
    owner.metadata.regain_session()
    await settle()
    client.send(1, "afterwards")
    await settle()
    assert client.heard.texts == ["while it is away", "afterwards"]
    assert not {"CLOSE_PRODUCER", "CLOSE_CONSUMER"} & set(client.heard.kinds)
    assert [await cluster.follow(member) for member in cluster.members] == [owner, owner]
    assert owner.marks("session.lost")
    assert owner.marks("session.reestablished")
    assert sorted(broker.id for broker in await other.node.ownership.brokers()) == sorted(
        member.id for member in cluster.members
    )


async def test_owner_regaining_lock_notices_intermediate_owner(cluster: Cluster) -> None:
    """The other one lost its session too, does not know it, and opens the topic when the lock is the first one's."""

    old, new = await cluster.find()
    reader = old.client()
    await reader.subscribe(permits=10)
    old.metadata.hold()  # without a session it asks nothing
    old.metadata.lose_session(server_side=True)
    await new.node.ownership.owner(*await new.place(), authoritative=True)
    new.metadata.content.end_session(new.metadata.session_id)  # and it does not know
    old.metadata.release()
    old.metadata.regain_session()
    await settle()
    await ManagedLedger.open(
        paths.topic(NAME, 1),
        ledgers=new.ledgers,
        metadata=new.metadata,
        runtime=new.runtime,
        config=new.node.managed_config,
    )
    assert not old.marks("ownership.lost")
    await pass_s(SESSION_S * 4 / 3 + 1)
    assert old.marks("fence.old_owner")
    assert "CLOSE_CONSUMER" in reader.heard.kinds


async def test_loaded_topics_are_served_without_session_and_nothing_starts(cluster: Cluster) -> None:
    owner, _ = await cluster.find()
    mine = [
        name
        for number in range(40)
        if await cluster.follow(owner, name := topic_name(f"persistent://public/default/t-{number}")) is owner
    ]
    client = owner.client()
    await client.produce()
    owner.metadata.lose_session(server_side=False)
    assert (await owner.client().produce(2)).type == _T.PRODUCER_SUCCESS
    assert (await cluster.lookup(owner)).response == _L.Connect
    client.send(0, "m0")
    await settle()
    assert [receipt.sequence for receipt in client.heard.receipts] == [0]
    assert error_of(await owner.client().produce(topic=str(mine[0]))) == pb.ServiceNotReady
    unknown = topic_name("persistent://pulsar/system/x")
    said = await cluster.lookup(owner, unknown)
    assert (said.response, said.error) == (_L.Failed, pb.ServiceNotReady)
    assert "Failed to acquire ownership" in said.message
    owner.metadata.regain_session()
    owner.metadata.forget_sessions()  # the server ends the old session
    await settle()
    assert (await owner.client().produce(topic=str(mine[0]))).type == _T.PRODUCER_SUCCESS


@pytest.mark.setup(managedLedgerMaxEntriesPerLedger="2", managedLedgerMinLedgerRolloverTimeMinutes="0")
async def test_ledger_that_is_due_is_kept_while_store_is_away(cluster: Cluster) -> None:
    owner, _ = await cluster.find()
    client = owner.client()
    await client.produce()
    client.send(0)
    await settle()
    owner.metadata.lose_session(server_side=False)
    owner.metadata.hold()
    for number in range(1, 6):
        client.send(number)
    await settle()
    assert [receipt.sequence for receipt in client.heard.receipts] == list(range(6))
    owner.metadata.release()
    owner.metadata.regain_session()
    await settle()
    client.send(6)
    client.send(7)
    await settle()
    assert [receipt.sequence for receipt in client.heard.receipts] == list(range(8))
    assert len({receipt.position.ledger for receipt in client.heard.receipts}) > 1


async def test_idle_topic_stays_loaded_while_store_is_away(cluster: Cluster) -> None:
    owner, _ = await cluster.find()
    await owner.node.topics.get(NAME, create=True)
    owner.metadata.lose_session(server_side=False)
    await pass_s(TOPIC_IDLE_S + 3 * MAINTENANCE_S)
    assert owner.loaded()
    owner.metadata.regain_session()
    await pass_s(TOPIC_IDLE_S + 3 * MAINTENANCE_S)
    assert not owner.loaded()


async def test_silent_store_is_reported_to_client_as_retryable(cluster: Cluster) -> None:
    first = cluster.members[0]
    await first.node.served.place(NAME)
    first.metadata.hold()
    client = first.client()
    request = client.request("LOOKUP", topic=str(NAME), authoritative=True)
    await pass_s(11)
    said = client.answers(request)[0].lookupTopicResponse
    assert (said.response, said.error) == (_L.Failed, pb.ServiceNotReady)
    assert "Failed to acquire ownership" in said.message
    first.metadata.release()
    await settle()
    assert (await cluster.lookup(first, authoritative=True)).response == _L.Connect


async def test_clients_of_lost_bundle_are_sent_to_its_new_owner(cluster: Cluster) -> None:
    old, new = await cluster.find()
    client = old.client()
    await client.produce()
    await client.subscribe(permits=10)
    old.metadata.lose_session(server_side=True)
    assert await new.node.ownership.owner(*await new.place(), authoritative=True) == new.node.ownership.me
    old.metadata.regain_session()
    await settle()
    closed = [command for command, _ in client.heard.heard if command.type in (_T.CLOSE_PRODUCER, _T.CLOSE_CONSUMER)]
    urls = [
        command.close_producer.assignedBrokerServiceUrl or command.close_consumer.assignedBrokerServiceUrl
        for command in closed
    ]
    assert urls == [new.url, new.url]
    assert not old.loaded()


async def test_outage_of_store_lets_clients_of_loaded_topics_reconnect(cluster: Cluster) -> None:
    owner, _ = await cluster.find()
    first = owner.client()
    await first.produce()
    await first.subscribe(permits=10)
    first.send(0, "m0")
    await settle()
    owner.metadata.disconnect()
    first.lose()
    again = owner.client()
    assert (await cluster.lookup(owner)).response == _L.Connect
    assert (await again.produce()).type == _T.PRODUCER_SUCCESS
    again.send(1, "m1")
    await settle()
    assert [receipt.sequence for receipt in again.heard.receipts] == [1]


async def test_new_session_is_counted_and_timed_in_metrics(cluster: Cluster) -> None:
    owner, _ = await cluster.find()
    await owner.node.topics.get(NAME, create=True)
    owner.metadata.lose_session(server_side=True)
    await pass_s(5)
    assert "magnetar_metadata_session{" in owner.node.registry.text()
    assert value(owner.node, "magnetar_metadata_session") == 0
    owner.metadata.regain_session()
    await settle()
    assert value(owner.node, "magnetar_metadata_session") == 1
    assert value(owner.node, "magnetar_metadata_sessions_lost_total") == 1
    assert value(owner.node, "magnetar_metadata_away_seconds_total") == pytest.approx(5, abs=1)
    assert value(owner.node, "magnetar_bundles_owned") == len(owner.node.ownership.held())
    assert value(owner.node, "magnetar_bundles_lost_total") == 0


@pytest.mark.setup(zookeeperSessionExpiredPolicy="shutdown")
async def test_policy_shutdown_ends_broker(cluster: Cluster) -> None:
    owner, _ = await cluster.find()
    owner.metadata.lose_session(server_side=True)
    assert isinstance(owner.node.failure, SessionLost)
    assert owner.node.stopping.is_set()
    assert not owner.node.ready
    owner.metadata.regain_session()


@pytest.mark.setup(metadataStoreSessionReconnectAttempts="3")
async def test_used_up_attempts_end_broker(cluster: Cluster) -> None:
    owner, _ = await cluster.find()
    owner.metadata.lose_session(server_side=True)
    await pass_s(6)
    assert owner.node.failure is None
    await pass_s(2)
    assert isinstance(owner.node.failure, SessionLost)
    owner.metadata.regain_session()


def value(node: Node, name: str) -> float:
    lines = [line for line in node.registry.text().splitlines() if line.startswith(name + "{")]
    return float(lines[0].rsplit(" ", 1)[1])
