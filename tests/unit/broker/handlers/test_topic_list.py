"""Which topics there are: by mode, by pattern, by hash, and from now on."""

from __future__ import annotations

import pytest

from magnetar.base.hashes import topics_hash
from magnetar.base.names import topic_name
from magnetar.wire.proto import pb
from simulation.stores.metadata import lost_answer
from tests.unit.broker.world import Client, World, settle

_T = pb.BaseCommand
MODE = pb.CommandGetTopicsOfNamespace
PREFIX = "persistent://public/default"


async def create(world: World, *names: str) -> None:
    for name in names:
        await world.topic(f"{PREFIX}/{name}")


async def listed(client: Client, **fields: object) -> pb.CommandGetTopicsOfNamespaceResponse:
    answer = await client.ask("GET_TOPICS_OF_NAMESPACE", namespace="public/default", **fields)
    return answer.getTopicsOfNamespaceResponse


async def test_modes_tell_kept_and_unkept_topics_apart(world: World) -> None:
    await create(world, "a")
    await world.node.catalogue.create_partitioned(topic_name(f"{PREFIX}/p"), 2)
    client = world.client()
    await client.produce(topic="non-persistent://public/default/n")
    kept = [f"{PREFIX}/a", f"{PREFIX}/p-partition-0", f"{PREFIX}/p-partition-1"]
    assert sorted((await listed(client)).topics) == kept
    unkept = "non-persistent://public/default/n"
    assert list((await listed(client, mode=MODE.NON_PERSISTENT)).topics) == [unkept]
    assert sorted((await listed(client, mode=MODE.ALL)).topics) == [unkept, *kept]


async def test_pattern_is_matched_whole_on_name_without_domain_and_partition(world: World) -> None:
    await create(world, "orders-1", "orders-2", "old-orders-1")
    await world.node.catalogue.create_partitioned(topic_name(f"{PREFIX}/orders-p"), 1)
    client = world.client()
    said = await listed(client, topics_pattern="persistent://public/default/orders-.*")
    assert said.filtered
    assert sorted(said.topics) == [f"{PREFIX}/orders-1", f"{PREFIX}/orders-2", f"{PREFIX}/orders-p-partition-0"]
    assert list((await listed(client, topics_pattern="public/default/orders")).topics) == []


async def test_equal_hash_saves_list(world: World) -> None:
    await create(world, "a", "b")
    client = world.client()
    said = await listed(client)
    assert said.topics_hash == topics_hash([f"{PREFIX}/a", f"{PREFIX}/b"])
    again = await listed(client, topics_hash=said.topics_hash)
    assert (again.changed, list(again.topics)) == (False, [])
    await create(world, "c")
    assert (await listed(client, topics_hash=said.topics_hash)).changed


async def test_long_pattern_gets_whole_list_and_no_watch(world: World) -> None:
    """As in Pulsar: a refusal would end the pattern consumers of its Java client."""

    await create(world, "a", "b")
    client = world.client()
    pattern = "public/default/a|" + "x" * 50
    said = await listed(client, topics_pattern=pattern)
    assert (sorted(said.topics), said.filtered) == ([f"{PREFIX}/a", f"{PREFIX}/b"], False)
    answer = await client.ask("WATCH_TOPIC_LIST", namespace="public/default", watcher_id=1, topics_pattern=pattern)
    assert answer.error.error == pb.NotAllowedError
    assert client.connection.watchers == {}


@pytest.mark.parametrize("pattern", ["public/default/(", "public/default/[z-a]"])
async def test_pattern_that_is_none_is_not_allowed(world: World, pattern: str) -> None:
    client = world.client()
    answer = await client.ask("GET_TOPICS_OF_NAMESPACE", namespace="public/default", topics_pattern=pattern)
    assert answer.error.error == pb.NotAllowedError
    answer = await client.ask("WATCH_TOPIC_LIST", namespace="public/default", watcher_id=1, topics_pattern=pattern)
    assert answer.error.error == pb.NotAllowedError
    assert client.connection.watchers == {}


async def watch(
    client: Client, watcher_id: int = 1, pattern: str = "public/default/.*", **more: object
) -> pb.BaseCommand:
    return await client.ask(
        "WATCH_TOPIC_LIST", namespace="public/default", watcher_id=watcher_id, topics_pattern=pattern, **more
    )


def updates(client: Client) -> list[tuple[list[str], list[str]]]:
    said = [one.watchTopicUpdate for one in client.heard.of(_T.WATCH_TOPIC_UPDATE)]
    return [(list(one.new_topics), list(one.deleted_topics)) for one in said]


async def test_watch_tells_what_comes_and_goes(world: World) -> None:
    await create(world, "a")
    client = world.client()
    said = (await watch(client)).watchTopicListSuccess
    assert list(said.topic) == [f"{PREFIX}/a"]
    await create(world, "b")
    await world.node.topics.delete(topic_name(f"{PREFIX}/a"), force=True)
    await settle()
    assert updates(client) == [([f"{PREFIX}/b"], []), ([], [f"{PREFIX}/a"])]
    last = client.heard.of(_T.WATCH_TOPIC_UPDATE)[-1].watchTopicUpdate
    assert last.topics_hash == topics_hash([f"{PREFIX}/b"])


async def test_what_does_not_match_is_not_told(world: World) -> None:
    client = world.client()
    await watch(client, pattern="public/default/x-.*")
    await create(world, "a", "x-1")
    await settle()
    assert updates(client) == [([f"{PREFIX}/x-1"], [])]


async def test_equal_hash_saves_watched_list_too(world: World) -> None:
    await create(world, "a")
    client = world.client()
    known = topics_hash([f"{PREFIX}/a"])
    said = (await watch(client, topics_hash=known)).watchTopicListSuccess
    assert (list(said.topic), said.topics_hash) == ([], known)


async def test_changes_during_listing_are_told_once_after_answer(world: World) -> None:
    await create(world, "a", "b")
    client = world.client()
    world.metadata.hold_looks()
    request = client.request(
        "WATCH_TOPIC_LIST", namespace="public/default", watcher_id=1, topics_pattern="public/default/.*"
    )
    await settle()
    assert client.answers(request) == []
    making = world.spawn(create(world, "c"))
    deleting = world.spawn(world.node.topics.delete(topic_name(f"{PREFIX}/a"), force=True))
    await settle()
    world.metadata.release_looks()
    await making
    await deleting
    await settle()
    names = set(client.answers(request)[0].watchTopicListSuccess.topic)
    for new, gone in updates(client):
        assert not names & set(new)
        names |= set(new)
        assert set(gone) <= names
        names -= set(gone)
    assert names == {f"{PREFIX}/b", f"{PREFIX}/c"}
    kinds = client.heard.kinds
    if "WATCH_TOPIC_UPDATE" in kinds:
        assert kinds.index("WATCH_TOPIC_LIST_SUCCESS") < kinds.index("WATCH_TOPIC_UPDATE")


async def test_closed_watch_and_lost_connection_hear_nothing_more(world: World) -> None:
    client, gone = world.client(), world.client()
    await watch(client)
    await watch(gone)
    assert (await client.ask("WATCH_TOPIC_LIST_CLOSE", watcher_id=1)).type == _T.SUCCESS
    assert (await client.ask("WATCH_TOPIC_LIST_CLOSE", watcher_id=1)).type == _T.SUCCESS
    gone.lose()
    await create(world, "a")
    await settle()
    assert updates(client) == updates(gone) == []


async def test_same_watch_again_replaces_first(world: World) -> None:
    client = world.client()
    await watch(client)
    await watch(client)
    await create(world, "a")
    await settle()
    assert len(updates(client)) == 1


async def test_watch_whose_listing_fails_is_not_left_behind(world: World) -> None:
    client = world.client()
    await listed(client)  # the namespace is known
    world.metadata.faults.extend([lost_answer(happened=False)] * 20)
    answer = await watch(client)
    world.metadata.faults.clear()
    assert answer.type == _T.ERROR
    assert client.connection.watchers == {}
    await create(world, "a")
    await settle()
    assert updates(client) == []


@pytest.mark.setup(enableBrokerTopicListWatcher="false")
async def test_watches_can_be_switched_off(world: World) -> None:
    assert (await watch(world.client())).error.error == pb.NotAllowedError


async def test_peer_that_does_not_read_holds_one_list(world: World) -> None:
    await create(world, "a", "b")
    client = world.client()
    client.connection.pause_writing()
    before = client.wire.raw
    for _ in range(50):
        client.request("GET_TOPICS_OF_NAMESPACE", namespace="public/default")
    for number in range(50):
        client.request(
            "WATCH_TOPIC_LIST", namespace="public/default", topics_pattern="public/default/.*", watcher_id=number
        )
    await settle(100)
    assert client.wire.raw == before
    client.connection.resume_writing()
    await settle(1_000)
    assert len(client.heard.of(_T.GET_TOPICS_OF_NAMESPACE_RESPONSE)) == 50
    assert len(client.heard.of(_T.WATCH_TOPIC_LIST_SUCCESS)) == 50
    await create(world, "c")
    await settle(20)
    assert len(client.heard.of(_T.WATCH_TOPIC_UPDATE)) == 50
    client.lose()
    await settle()
    assert len(world.node.topics.lists) == 0


async def test_watch_that_waits_for_its_reader_is_released_with_it(world: World) -> None:
    client = world.client()
    client.connection.pause_writing()
    client.request("WATCH_TOPIC_LIST", namespace="public/default", topics_pattern="public/default/.*", watcher_id=1)
    await settle(20)
    assert len(world.node.topics.lists) == 1
    client.lose()
    await settle(20)
    assert len(world.node.topics.lists) == 0
