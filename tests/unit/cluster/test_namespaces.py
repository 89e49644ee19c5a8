"""Namespaces: creation, fixed buckets, deletion that can be interrupted anywhere."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from magnetar.base.errors import (
    AlreadyExists,
    Conflict,
    MagnetarError,
    Misuse,
    NotAuthorized,
    NotFound,
    QuotaExceeded,
    Unknown,
)
from magnetar.base.names import NamespaceName, TopicName, namespace_name, topic_name
from magnetar.policy.policies import Bundles, Policies
from simulation.stores.metadata import InjectedFault, MemoryStore, lost_answer
from tests.unit.cluster.world import World, a_world

pytestmark = pytest.mark.real_clock

NS = namespace_name("public/orders")


async def test_namespace_is_created_with_clusters_defaults(world: World) -> None:
    made = await world.namespaces.create(NS)
    assert made.replication_clusters == ["standalone"]
    assert made.bundles is not None
    assert made.bundles.numBundles == 4
    with pytest.raises(AlreadyExists, match="Namespace already exists"):
        await world.namespaces.create(NS)
    assert await world.namespaces.names("public") == ["public/default", "public/orders"]
    with pytest.raises(NotFound, match="Tenant not found"):
        await world.namespaces.names("nosuch")


@pytest.mark.parametrize(
    ("given", "boundaries"),
    [
        (Bundles(numBundles=2), ["0x00000000", "0x80000000", "0xffffffff"]),
        (Bundles(numBundles=-1), ["0x00000000", "0x40000000", "0x80000000", "0xc0000000", "0xffffffff"]),
        (Bundles(["0x00000000", "0x40000000", "0xffffffff"], 2), ["0x00000000", "0x40000000", "0xffffffff"]),
    ],
)
async def test_bundles_are_as_asked_for(world: World, given: Bundles, boundaries: list[str]) -> None:
    made = await world.namespaces.create(NS, Policies(bundles=given))
    assert made.bundles == Bundles(boundaries, len(boundaries) - 1)


@pytest.mark.parametrize(
    ("namespace", "policies", "words", "status"),
    [
        ("nosuch/ns", Policies(), "Tenant does not exist", 404),
        (
            "public/x",
            Policies(replication_clusters=["nosuch"]),
            r"Cluster \[nosuch\] is not in the list of allowed clusters list for tenant \[public\]",
            403,
        ),
        (
            "public/x",
            Policies(bundles=Bundles(["0x10000000", "0xffffffff"], 1)),
            "Input bundles do not cover the whole hash range. first:0x10000000, last:0xffffffff",
            400,
        ),
        ("public/" + "x" * 1017, Policies(), None, None),
        ("public/" + "x" * 1018, Policies(), "the name of a namespace must have at most 1024 bytes", 412),
        ("public/x", Policies(numberOfTopicBuckets=0), None, None),
        ("public/x", Policies(numberOfTopicBuckets=-3), "numberOfTopicBuckets must be from 1", 412),
        ("public/x", Policies(numberOfTopicBuckets=10**9), "numberOfTopicBuckets must be from 1", 412),
    ],
)
async def test_wrong_namespaces_are_refused_in_pulsars_words(
    world: World, namespace: str, policies: Policies, words: str | None, status: int | None
) -> None:
    if words is None:
        assert (await world.namespaces.create(namespace_name(namespace), policies)).buckets == 1
        return
    with pytest.raises(MagnetarError, match=words) as refused:
        await world.namespaces.create(namespace_name(namespace), policies)
    assert refused.value.http_status == status
    assert not await world.namespaces.exists(namespace_name(namespace))


async def test_number_of_buckets_is_fixed_at_creation(world: World) -> None:
    await world.namespaces.create(NS, Policies(numberOfTopicBuckets=3))

    for number in (None, 1, 4):
        with pytest.raises(Conflict, match=r"numberOfTopicBuckets .* is 3, .* cannot be changed: create") as refused:
            await world.namespaces.update(
                NS, lambda before, n=number: msgspec.structs.replace(before, numberOfTopicBuckets=n)
            )
        assert refused.value.http_status == 412
    after = await world.namespaces.update(
        NS, lambda before: msgspec.structs.replace(before, numberOfTopicBuckets=3, message_ttl_in_seconds=5)
    )
    assert (after.buckets, after.message_ttl_in_seconds) == (3, 5)
    with pytest.raises(Conflict):
        await world.namespaces.update(
            namespace_name("public/default"),
            lambda before: msgspec.structs.replace(before, numberOfTopicBuckets=2),
        )


async def test_changes_are_heard_of(world: World) -> None:
    heard: list[NamespaceName] = []
    stop = world.namespaces.on_change(heard.append)
    await world.namespaces.create(NS)
    await world.namespaces.update(NS, lambda before: msgspec.structs.replace(before, message_ttl_in_seconds=1))
    await world.namespaces.delete(NS)
    assert heard == [NS] * 4  # made, changed, marked, removed
    stop()
    await world.namespaces.create(NS)
    assert len(heard) == 4


async def test_resync_of_everything_is_no_namespace(world: World) -> None:
    heard: list[NamespaceName] = []
    failed: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failed.append(context))
    world.namespaces.on_change(heard.append)
    assert isinstance(world.store, MemoryStore)
    world.store.disconnect(noticed=True)
    world.store.reconnect()
    await asyncio.sleep(0)
    assert (heard, failed) == ([], [])


async def test_namespace_with_topics_is_not_deleted_and_stays_usable(world: World) -> None:
    await world.namespaces.create(NS, Policies(numberOfTopicBuckets=3))
    name = topic_name("persistent://public/orders/t")
    await world.catalogue.create(name)
    with pytest.raises(Conflict, match="Cannot delete non empty namespace") as refused:
        await world.namespaces.delete(NS)
    assert refused.value.http_status == 409
    with pytest.raises(Misuse, match="Broker doesn't allow forced deletion of namespaces"):
        await world.namespaces.delete(NS, force=True)
    assert await world.namespaces.exists(NS)
    await world.erase(name)
    await world.catalogue.create_partitioned(topic_name("non-persistent://public/orders/np"), 2)
    with pytest.raises(Conflict):
        await world.namespaces.delete(NS)
    await world.catalogue.forget_partitioned(topic_name("non-persistent://public/orders/np"))
    await world.namespaces.delete(NS)
    with pytest.raises(NotFound, match=r"Namespace public/orders does not exist\."):
        await world.namespaces.delete(NS)
    assert not [path for path in world.memory.content.records if "orders" in path]


@pytest.mark.setup(forceDeleteNamespaceAllowed="true")
async def test_forced_deletion_removes_every_topic_of_every_bucket(world: World) -> None:
    await world.namespaces.create(NS, Policies(numberOfTopicBuckets=5))
    await world.catalogue.create_partitioned(topic_name("persistent://public/orders/p"), 20)
    await world.catalogue.create(topic_name("persistent://public/orders/t"))
    removed: list[str] = []

    async def remove(name: TopicName) -> None:
        removed.append(str(name))
        await world.erase(name)

    # A deletion that stopped after its mark: topics could not be opened to be removed.
    await world.namespaces._mark(NS, deleted=True)
    await world.namespaces.delete(NS, force=True, remove=remove)
    assert len(removed) == 21
    assert not [path for path in world.memory.content.records if "orders" in path]


@pytest.mark.parametrize("happened", [True, False])
@pytest.mark.parametrize("step", range(16))
async def test_deletion_interrupted_at_any_step_is_finished_by_next(step: int, happened: bool) -> None:
    store = MemoryStore()
    world = await a_world(store)
    await world.namespaces.create(NS)
    store.faults.extend([InjectedFault(None, happened=True)] * step)
    store.faults.extend([lost_answer(happened=happened)] * 10)  # and then nothing answers for a while
    try:
        await world.namespaces.delete(NS)
    except Unknown:
        store.faults.clear()
        again = await a_world(store.reopen())
        try:
            await again.namespaces.delete(NS)
        except NotFound:
            pass  # the last step had happened
        assert not await again.namespaces.exists(NS)
        await again.namespaces.create(NS)
    assert "orders" not in str([path for path in store.content.records if "managed-ledgers" in path])


async def test_topic_created_during_namespace_deletion_is_removed() -> None:
    for turns in range(20):
        store = MemoryStore()
        world = await a_world(store)
        await world.namespaces.create(NS)
        deletion = asyncio.get_running_loop().create_task(world.namespaces.delete(NS))
        for _ in range(turns):
            await asyncio.sleep(0)
        creation = world.catalogue.admit(topic_name("persistent://public/orders/t"), create=True)
        made, gone = await asyncio.gather(creation, deletion, return_exceptions=True)
        left = [path for path in store.content.records if path.startswith("/managed-ledgers/public/orders")]
        exists = await world.namespaces.exists(NS)
        assert bool(left) == (made is None), turns
        assert exists == isinstance(gone, Conflict), turns
        assert not left or exists, turns


@pytest.mark.setup(maxNamespacesPerTenant="1")
async def test_limits_follow_settings(world: World) -> None:
    with pytest.raises(QuotaExceeded):
        await world.namespaces.create(NS)


async def test_tenant_without_right_cluster_may_not_have_it(world: World) -> None:
    with pytest.raises(NotAuthorized):
        await world.namespaces.create(NS, Policies(replication_clusters=["standalone", "else"]))
