"""The catalogue: what exists, who may make it, in which order it is listed."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.base.errors import (
    AlreadyExists,
    Conflict,
    InvalidName,
    MagnetarError,
    Misuse,
    QuotaExceeded,
    TopicNotFound,
)
from magnetar.base.hashes import topic_bucket
from magnetar.base.names import NamespaceName, TopicName, encode, namespace_name, topic_name
from magnetar.metadata import paths
from magnetar.metadata.embedded import EmbeddedStore
from magnetar.metadata.store import ABSENT
from magnetar.policy.policies import AutoTopicCreation, Policies
from magnetar.runtime.system_runtime import RealRuntime
from simulation.stores.metadata import MemoryStore, lost_answer
from tests.unit.cluster.world import World, a_world, run

pytestmark = pytest.mark.real_clock

NS = namespace_name("public/default")


def a_topic(local_name: str, namespace: NamespaceName = NS) -> TopicName:
    return topic_name(f"persistent://{namespace}/{local_name}")


async def listed(world: World, namespace: NamespaceName = NS, **how: object) -> list[str]:
    found = [topic async for topic in world.catalogue.topics(namespace, **how)]  # type: ignore[arg-type]
    return [topic.rpartition("/")[2] for topic in found]


async def test_topic_exists_from_its_creation_to_its_deletion(world: World) -> None:
    name = a_topic("a b")
    assert not await world.catalogue.exists(name)
    await world.catalogue.create(name, {"owner": "blue"})
    assert await world.catalogue.exists(name)
    node = await world.store.get("/managed-ledgers/public/default/persistent/a+b")
    assert node is not None
    assert json.loads(node.value)["properties"] == {"owner": "blue"}
    with pytest.raises(AlreadyExists, match="This topic already exists"):
        await world.catalogue.create(name)
    await world.erase(name)
    assert not await world.catalogue.exists(name)
    await world.erase(name)


@pytest.mark.parametrize(
    ("name", "words", "status"),
    [
        ("persistent://public/nosuch/t", "Namespace not found", 404),
        (
            "persistent://public/default/parts-partition-7",
            'Can\'t create topic parts-partition-7 with "-partition-" followed by a number smaller than number of '
            "partition of partitioned topic parts",
            412,
        ),
        (
            "persistent://public/default/lone-partition-0",
            "Can't create topic lone-partition-0 with \"-partition-\" followed by numeric value if there isn't a "
            "partitioned topic lone created.",
            412,
        ),
        ("persistent://public/default/parts", "This topic already exists", 409),
        (
            "persistent://public/default/" + "x" * 997,
            "the name of a topic must have at most 1024 bytes: choose a shorter one",
            412,
        ),
    ],
)
async def test_creation_is_refused_in_pulsars_words(world: World, name: str, words: str, status: int) -> None:
    await world.catalogue.create_partitioned(a_topic("parts"), 3)
    with pytest.raises(MagnetarError) as refused:
        await world.catalogue.create(topic_name(name))
    assert (refused.value.what, refused.value.http_status) == (words, status)


async def test_topic_with_longest_name_is_created(world: World) -> None:
    await world.catalogue.create(a_topic("x" * 996))
    await world.catalogue.create_partitioned(a_topic("y" * 996), 3)
    assert await world.catalogue.count(NS) == 4


async def test_existing_topic_with_longer_name_is_used(world: World) -> None:
    name = a_topic("x" * 3_000)
    await world.store.put(paths.topic(name, 1), b"", expected=ABSENT)
    await world.catalogue.admit(name, create=True)
    with pytest.raises(InvalidName, match="1024 bytes"):
        await world.catalogue.admit(a_topic("y" * 3_000), create=True)


async def test_using_topic_makes_it_where_that_is_allowed(world: World) -> None:
    with pytest.raises(TopicNotFound):
        await world.catalogue.admit(a_topic("t"), create=False)
    await world.catalogue.admit(a_topic("t"), create=True)
    await world.catalogue.admit(a_topic("t"), create=False)
    await asyncio.gather(*(world.catalogue.admit(a_topic("raced"), create=True) for _ in range(10)))
    assert await listed(world) == ["raced", "t"]
    for create in (True, False):
        with pytest.raises(TopicNotFound):
            await world.catalogue.admit(topic_name("persistent://public/nosuch/t"), create=create)
    await world.catalogue.admit(topic_name("non-persistent://public/default/np"), create=True)
    await world.namespaces.update(
        NS,
        lambda before: msgspec.structs.replace(before, autoTopicCreationOverride=AutoTopicCreation(False)),
    )
    with pytest.raises(TopicNotFound):
        await world.catalogue.admit(a_topic("other"), create=True)
    await world.catalogue.admit(a_topic("t"), create=True)


async def test_lost_answer_while_making_topic_ends_with_one_topic(world: World) -> None:
    world.memory.faults.append(lost_answer(happened=False))
    with pytest.raises(MagnetarError):
        await world.catalogue.admit(a_topic("t"), create=True)
    await world.catalogue.admit(a_topic("t"), create=True)
    assert await listed(world) == ["t"]


async def test_partitions_of_existing_and_missing_topics_are_listed(world: World) -> None:
    partitions = world.catalogue.partitions
    assert await partitions(a_topic("new"), create=True) == 0
    assert not await world.catalogue.exists(a_topic("new"))  # asking alone makes nothing
    with pytest.raises(TopicNotFound):
        await partitions(a_topic("new"), create=False)
    with pytest.raises(TopicNotFound):
        await partitions(topic_name("persistent://nosuch/ns/t"), create=True)
    await world.catalogue.create(a_topic("plain"))
    assert await partitions(a_topic("plain"), create=False) == 0
    await world.catalogue.create_partitioned(a_topic("parts"), 3)
    assert await partitions(a_topic("parts"), create=False) == 3
    assert await partitions(a_topic("parts-partition-1"), create=False) == 0

    def partitioned(before: Policies) -> Policies:
        return msgspec.structs.replace(before, autoTopicCreationOverride=AutoTopicCreation(True, "partitioned", 4))

    await world.namespaces.update(NS, partitioned)
    asked = await asyncio.gather(*(partitions(a_topic("auto"), create=True) for _ in range(5)))
    assert asked == [4] * 5
    assert "auto-partition-3" in await listed(world)


async def test_partitioned_topic_grows_and_never_shrinks(world: World) -> None:
    catalogue = world.catalogue
    await catalogue.create_partitioned(a_topic("p"), 2, {"k": "v"})
    found = await catalogue.partitioned(a_topic("p"))
    assert found is not None
    assert found.document() == {"partitions": 2, "deleted": False, "properties": {"k": "v"}}
    await catalogue.grow(a_topic("p"), 4)
    await catalogue.grow(a_topic("p"), 4)
    assert await listed(world) == [f"p-partition-{n}" for n in range(4)]
    with pytest.raises(Conflict, match=r"Desired partitions 2 can't be less than the current partitions 4\.") as few:
        await catalogue.grow(a_topic("p"), 2)
    assert few.value.http_status == 422
    with pytest.raises(Conflict, match="is not the partitioned topic"):
        await catalogue.grow(a_topic("nosuch"), 2)
    assert await catalogue.partitioned_topics(NS) == ["persistent://public/default/p"]
    with pytest.raises(Misuse, match="Number of partitions should be more than 0") as none:
        await catalogue.create_partitioned(a_topic("z"), 0)
    assert none.value.http_status == 406
    with pytest.raises(Misuse, match="should not contain '-partition-'"):
        await catalogue.create_partitioned(a_topic("p-partition-7"), 2)
    with pytest.raises(AlreadyExists):
        await catalogue.create_partitioned(a_topic("p"), 2)
    await catalogue.update_properties(a_topic("p"), {"a": "b"})
    found = await catalogue.partitioned(a_topic("p"))
    assert found is not None
    assert found.properties == {"k": "v", "a": "b"}
    await catalogue.forget_partitioned(a_topic("p"))
    with pytest.raises(TopicNotFound, match="not found"):
        await catalogue.forget_partitioned(a_topic("p"))


async def test_interrupted_creation_of_partitions_is_finished_later(world: World) -> None:
    # The record is written, then the store falls silent for the partitions.
    creation = asyncio.get_running_loop().create_task(world.catalogue.create_partitioned(a_topic("p"), 5))
    while not await world.store.exists(paths.partitioned(a_topic("p"))):
        pass
    world.memory.faults.extend([lost_answer(happened=False)] * 4)
    with pytest.raises(MagnetarError):
        await creation
    world.memory.faults.clear()
    await world.catalogue.create_missing_partitions(a_topic("p"))
    assert await listed(world) == [f"p-partition-{n}" for n in range(5)]


async def test_limit_of_namespace_counts_partitions_in_all_buckets(world: World) -> None:
    namespace = namespace_name("public/small")
    await world.namespaces.create(namespace, Policies(numberOfTopicBuckets=3, max_topics_per_namespace=5))
    catalogue = world.catalogue
    await catalogue.create_partitioned(a_topic("p", namespace), 3)
    await catalogue.create(a_topic("a", namespace))
    with pytest.raises(QuotaExceeded, match="Exceed maximum number of topics in namespace"):
        await catalogue.create_partitioned(a_topic("q", namespace), 2)
    await catalogue.admit(a_topic("b", namespace), create=True)
    for attempt in (
        catalogue.admit(a_topic("c", namespace), create=True),
        catalogue.create(a_topic("c", namespace)),
        catalogue.grow(a_topic("p", namespace), 4),
    ):
        with pytest.raises(QuotaExceeded):
            await attempt
    assert await catalogue.count(namespace) == 5
    await catalogue.admit(a_topic("a", namespace), create=True)
    await catalogue.create_missing_partitions(a_topic("p", namespace))


async def test_namespace_is_listed_by_bucket_and_name_in_exact_pages(
    world: World,
) -> None:
    namespace = namespace_name("public/buckets")
    await world.namespaces.create(namespace, Policies(numberOfTopicBuckets=7))
    names = [f"topic {n}" for n in range(100)]
    for name in names:
        await world.catalogue.create(a_topic(name, namespace))
    whole = await listed(world, namespace)
    assert whole == sorted(names, key=lambda name: (topic_bucket(name, 7), encode(name)))
    for size in (1, 3, 33, 100, 1000):
        paged: list[str] = []
        while page := await listed(
            world, namespace, limit=size, after=f"persistent://{namespace}/{paged[-1]}" if paged else None
        ):
            assert len(page) <= size
            paged += page
        assert paged == whole
    # What was deleted meanwhile is no obstacle to going on after it.
    await world.erase(a_topic(whole[49], namespace))
    assert await listed(world, namespace, after=f"persistent://{namespace}/{whole[49]}") == whole[50:]
    with pytest.raises(Misuse):
        await listed(world, namespace, after="persistent://public/default/else")
    with pytest.raises(TopicNotFound, match="Namespace does not exist"):
        await listed(world, namespace_name("public/nosuch"))


@settings(max_examples=30)
@given(
    st.sets(
        st.text(
            st.characters(exclude_categories=["Cs", "Z", "C"], exclude_characters="/"), min_size=1, max_size=6
        ).filter(lambda name: name not in (".", "..")),
        max_size=20,
    ),
    st.integers(1, 5),
    st.integers(1, 7),
)
def test_any_names_in_any_buckets_are_paged_exactly_once(names: set[str], buckets: int, size: int) -> None:
    async def body(world: World) -> None:
        namespace = namespace_name("public/any")
        await world.namespaces.create(namespace, Policies(numberOfTopicBuckets=buckets))
        topics = {str(a_topic(name, namespace)) for name in names}
        for topic in sorted(topics):
            await world.catalogue.admit(topic_name(topic), create=True)
        found: list[str] = []
        while True:
            after = found[-1] if found else None
            page = [one async for one in world.catalogue.topics(namespace, after=after, limit=size)]
            if not page:
                break
            found += page
        assert sorted(found) == sorted(topics)
        assert await world.catalogue.count(namespace) == len(topics)

    run(body)


@pytest.mark.parametrize("buckets", [1, 4])
async def test_who_watches_hears_of_topics_and_not_of_their_cursors(world: World, buckets: int) -> None:
    namespace = namespace_name("public/watched")
    await world.namespaces.create(namespace, Policies(numberOfTopicBuckets=buckets))
    heard: list[tuple[bool, str]] = []
    missed: list[str] = []
    stop = world.catalogue.watch(
        namespace, lambda came, name: heard.append((came, name)), lambda: missed.append("some")
    )
    name = a_topic("t", namespace)
    await world.catalogue.create(name)
    await world.store.put(paths.cursor(paths.topic(name, buckets), "s"), b"")
    await world.store.put(paths.topic(name, buckets), b"changed")
    await world.catalogue.create(a_topic("elsewhere"))
    await world.erase(name)
    assert heard == [(True, str(name)), (False, str(name))]
    world.memory.reconnect()
    world.memory.resync()
    assert len(missed) == 2
    stop()
    await world.catalogue.create(name)
    assert len(heard) == 2


def test_thousands_of_topics_are_created_and_listed_in_page_memory(tmp_path: Path) -> None:
    """On sqlite: what the whole list would need is several times what listing it takes."""
    runtime = RealRuntime()

    async def body() -> None:
        store = await EmbeddedStore.open(str(tmp_path / "metadata.db"), runtime)
        world = await a_world(store)
        namespace = namespace_name("public/many")
        await world.namespaces.create(namespace, Policies(numberOfTopicBuckets=64))
        await world.catalogue.create_partitioned(a_topic("a-topic-with-a-rather-long-name", namespace), 10_000)
        tracemalloc.start()
        seen = 0
        async for _ in world.catalogue.topics(namespace):
            seen += 1
        streamed = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        whole = [topic async for topic in world.catalogue.topics(namespace)]
        kept = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert seen == len(whole) == len(set(whole)) == 10_000
        assert streamed * 2 < kept
        await store.close()

    try:
        asyncio.run(body())
    finally:
        runtime.close()


async def test_store_reopened_after_crash_lists_same() -> None:
    store = MemoryStore()
    world = await a_world(store)
    await world.catalogue.create_partitioned(a_topic("p"), 3)
    before = await listed(world)
    assert await listed(await a_world(store.reopen())) == before
