"""Several brokers: who serves a topic, how a bundle is given up, and what they share without getting in each other's
way.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from magnetar.base.errors import Moved, NotReady
from magnetar.base.limits import ORPHAN_SUSPECT_S
from magnetar.base.names import namespace_name, topic_name
from magnetar.cluster.rendezvous import choose
from magnetar.ledger.orphans import data_custom
from magnetar.metadata import paths
from magnetar.policy.policies import Policies
from magnetar.wire.proto import pb
from tests.support.broker_cluster import NAME, Cluster, Member, Network, error_of, spawn
from tests.unit.broker.world import Client, pass_s, settle

_T = pb.BaseCommand
_L = pb.CommandLookupTopicResponse


@pytest.mark.setup(brokers=3)
async def test_whoever_is_asked_topic_is_served_by_one(cluster: Cluster) -> None:
    found = [await cluster.follow(member) for member in cluster.members]
    assert len({member.id for member in found}) == 1
    owner = found[0]
    record = await owner.metadata.get(await owner.lock_path())
    assert record is not None
    assert record.stat.ephemeral
    assert record.stat.mine


@pytest.mark.setup(brokers=3)
async def test_topics_spread_and_every_broker_agrees_where(cluster: Cluster) -> None:
    names = [topic_name(f"persistent://public/default/t-{number}") for number in range(40)]
    first = [(await cluster.follow(cluster.members[0], name)).id for name in names]
    assert first == [(await cluster.follow(cluster.members[2], name)).id for name in names]
    assert len(set(first)) > 1


async def test_broker_that_is_not_owner_makes_client_look_up_again(cluster: Cluster) -> None:
    owner, other = await cluster.find()
    client = other.client()
    assert error_of(await client.produce()) == pb.ServiceNotReady
    assert error_of(await client.subscribe()) == pb.ServiceNotReady
    assert not other.loaded()
    assert (await owner.client().produce()).type == _T.PRODUCER_SUCCESS
    assert owner.loaded()


@pytest.mark.parametrize(("version", "told"), [("Pulsar-CPP-v4.2.0", ["CLOSE_CONSUMER", "ERROR"]), ("Java", ["ERROR"])])
async def test_client_that_never_repeats_refused_subscribe_is_made_to(
    cluster: Cluster, version: str, told: list[str]
) -> None:
    _, other = await cluster.find()
    client = Client(other.node).connect(client_version=version)
    await client.subscribe()
    assert [kind for kind in client.heard.kinds if kind != "CONNECTED"] == told


async def test_nobody_loads_topic_before_it_is_looked_up(cluster: Cluster) -> None:
    for member in cluster.members:
        assert error_of(await member.client().produce()) == pb.ServiceNotReady


@pytest.mark.setup(brokers=3)
async def test_broker_asked_with_authority_takes_what_nobody_has(cluster: Cluster) -> None:
    chosen = choose(await cluster.members[0].lock_path(), [member.id for member in cluster.members])
    other = next(member for member in cluster.members if member.id != chosen)
    said = await cluster.lookup(other)
    assert (said.response, said.authoritative) == (_L.Redirect, True)
    assert cluster.at(said.brokerServiceUrl).id == chosen
    assert (await cluster.lookup(other, authoritative=True)).response == _L.Connect
    assert [await cluster.follow(member) for member in cluster.members] == [other] * 3


async def test_owner_stops_and_another_serves_what_it_stored(cluster: Cluster) -> None:
    owner, other = await cluster.find()
    client = owner.client()
    await client.produce()
    await client.subscribe(permits=10)
    for number in range(3):
        client.send(number, f"m{number}")
    await settle()
    client.ack(1, client.heard.delivered[0].position)
    await owner.stop()
    await settle()
    assert "CLOSE_PRODUCER" in client.heard.kinds
    assert await cluster.follow(other) is other
    again = other.client()
    await again.subscribe(permits=10)
    await settle()
    assert again.heard.texts == ["m1", "m2"]


async def test_crashed_owner_is_followed_when_its_session_ends(cluster: Cluster) -> None:
    owner, other = await cluster.find()
    await owner.client().produce()
    owner.node.cut()
    owner.metadata.lose_session(server_side=True)
    await settle()
    assert await cluster.follow(other) is other


# Unloading


async def test_unloaded_bundle_is_free_for_next_broker(cluster: Cluster) -> None:
    owner, other = await cluster.find()
    client = owner.client()
    await client.produce()
    client.send(0, "m0")
    place = await owner.place()
    await owner.node.served.unload(place)
    assert "CLOSE_PRODUCER" in client.heard.kinds
    assert not owner.loaded()
    assert owner.node.ownership.held() == []
    assert await owner.metadata.get(await owner.lock_path()) is None
    assert await other.node.ownership.owner(*place, authoritative=True) == other.node.ownership.me
    assert (await other.client().produce()).type == _T.PRODUCER_SUCCESS
    assert await cluster.follow(owner) is other


async def test_nothing_is_loaded_while_its_bundle_is_being_unloaded(cluster: Cluster) -> None:
    owner, _ = await cluster.find()
    client = owner.client()
    await client.produce()
    client.send(0, "m0")
    await settle()
    owner.metadata.hold()
    unloading = spawn(owner.node.served.unload(await owner.place()))
    again = spawn(owner.node.served.unload(await owner.place()))
    await settle()
    said = await cluster.lookup(owner)
    assert (said.response, said.error) == (_L.Failed, pb.ServiceNotReady)
    assert "is being unloaded" in said.message
    with pytest.raises(NotReady):
        await owner.node.ownership.owns(*await owner.place())
    owner.metadata.release()
    await unloading
    await again
    assert len(owner.marks("ownership.released")) == 1


async def test_load_under_way_is_waited_for_and_unloaded_too(cluster: Cluster) -> None:
    owner, _ = await cluster.find()
    owner.metadata.hold(passes=4)
    loading = spawn(owner.node.topics.get(NAME, create=True))
    await settle()
    unloading = spawn(owner.node.served.unload(await owner.place()))
    await settle()
    assert not unloading.done()
    owner.metadata.release()
    await loading
    await unloading
    assert not owner.loaded()


async def test_caller_that_can_be_sent_elsewhere_is(cluster: Cluster) -> None:
    owner, other = await cluster.find()
    await owner.node.served.claim(NAME)
    with pytest.raises(Moved) as told:
        await other.node.served.claim(NAME)
    assert told.value.facts["http"] == owner.node.addresses.http_url
    with pytest.raises(Moved):
        await other.node.served.claim_bundle(*await owner.place())
    assert [broker.id for broker in await other.node.served.others(NAME.namespace)] == [owner.id]
    assert await owner.node.served.others(NAME.namespace) == []


async def test_bundles_of_namespace_that_is_deleted_are_given_up(cluster: Cluster) -> None:
    namespace = namespace_name("public/short")
    await cluster.members[0].node.namespaces.create(namespace)
    owner = await cluster.follow(cluster.members[0], topic_name("persistent://public/short/t"))
    assert [place[0] for place in owner.node.ownership.held()] == [namespace]
    await cluster.members[0].node.namespaces.delete(namespace)
    await settle()
    assert owner.node.ownership.held() == []


# What several share


@pytest.mark.setup(brokers=3, network=Network)
async def test_one_broker_lists_ledgers_and_owner_deletes_orphans(cluster: Cluster) -> None:
    owner, _ = await cluster.find()
    await owner.client().produce()
    named = await owner.ledgers.list({})
    writer = await owner.ledgers.create(data_custom(paths.topic(NAME, 1)))  # made, not yet in the record
    listings: dict[str, int] = {}
    for member in cluster.members:
        member.node.ledgers.list = _counted(member, listings)  # type: ignore[method-assign]
        member.node._sweep_at = 0.0
    await pass_s(ORPHAN_SUSPECT_S / 2)
    assert writer.ledger in await owner.ledgers.list({})  # it may be named late
    await pass_s(3 * ORPHAN_SUSPECT_S)
    assert sorted(await owner.ledgers.list({})) == named
    assert len(listings) == 1


def _counted(member: Member, listings: dict[str, int]) -> Any:
    listed = type(member.ledgers).list

    async def counted(custom: dict[str, str], **page: Any) -> list[int]:
        if page:
            listings[member.id] = listings.get(member.id, 0) + 1
        return await listed(member.ledgers, custom, **page)

    return counted


async def test_policy_changed_during_gap_of_events_reaches_what_is_loaded(cluster: Cluster) -> None:
    owner, other = await cluster.find()
    await owner.client().produce()
    assert owner.topic().dedup is None
    while owner.node._stops:  # deaf: as if the events were lost
        owner.node._stops.pop()()
    await other.node.namespaces.update(NAME.namespace, _deduplicating)
    await settle()
    assert owner.topic().dedup is None
    owner.metadata.resync()
    await settle()
    assert owner.topic().dedup is not None


@pytest.mark.setup(brokers=0)
async def test_brokers_starting_together_on_empty_store_get_own_incarnations(cluster: Cluster) -> None:
    joining = [spawn(cluster.join()) for _ in range(3)]
    for one in joining:
        await one
    names = {member.node.producer_name() for member in cluster.members}
    assert len(names) == 3
    assert len(await cluster.members[0].node.ownership.brokers()) == 3


def _deduplicating(before: Policies) -> Policies:
    return msgspec.structs.replace(before, deduplicationEnabled=True)


@pytest.mark.setup(brokers=3)
async def test_every_topic_is_minded_by_one_live_broker(cluster: Cluster) -> None:
    names = [topic_name(f"persistent://public/default/t-{number}") for number in range(40)]

    async def minders() -> list[list[str]]:
        live = [member for member in cluster.members if not member.stopped]
        return [[member.id for member in live if await member.node.served.minds(name)] for name in names]

    async def check() -> None:
        assert [len(found) for found in await minders()] == [1] * len(names)

    await check()  # no bundle has an owner
    await cluster.follow(cluster.members[0], names[0])
    await check()  # some have one
    for number, name in enumerate(names):  # every bundle has an owner, and not always the one that all would choose
        place = await cluster.members[0].place(name)
        await cluster.members[number % 3].node.ownership.owner(*place, authoritative=True)
    await check()
    await cluster.members[0].stop()
    await check()
    await cluster.join()
    await check()
    lost = cluster.members[1]
    lost.metadata.lose_session(server_side=True)
    with pytest.raises(NotReady):  # the others mind its topics
        await lost.node.served.minds(names[0])
    lost.metadata.regain_session()
    await pass_s(60)
    await check()


async def test_topic_of_missing_namespace_is_minded_by_one_broker(cluster: Cluster) -> None:
    name = topic_name("topic://public/deleted/x")
    assert sum([await member.node.served.minds(name) for member in cluster.members]) == 1
