"""The scalable topics of a namespace as a client watches them: the whole list, then every change, in order."""

from __future__ import annotations

from typing import Any

import pytest

from magnetar.base.hashes import topics_hash
from magnetar.base.limits import MEMBERS_GATHER_S
from magnetar.base.names import namespace_name, topic_name
from magnetar.wire.proto import pb
from tests.support.recorded_traces import as_fields, trace
from tests.support.scalable_topic import M1
from tests.unit.broker.world import Client, World, command, pass_s, settle

ONE = topic_name("topic://public/default/one")
TWO = topic_name("topic://public/default/two")


def told(client: Client, watch_id: int = 1) -> list[pb.CommandWatchScalableTopicsUpdate]:
    said = [said for said, _ in client.heard.heard if said.type == pb.BaseCommand.WATCH_SCALABLE_TOPICS_UPDATE]
    return [one.watchScalableTopicsUpdate for one in said if one.watchScalableTopicsUpdate.watch_id == watch_id]


async def watch(client: Client, namespace: str = "public/default", watch_id: int = 1, **fields: Any) -> None:
    client.say(command("WATCH_SCALABLE_TOPICS", watch_id=watch_id, namespace=namespace, **fields))
    await settle()


async def gathered() -> None:
    await settle()
    await pass_s(MEMBERS_GATHER_S)
    await settle()


async def test_full_list_comes_first_then_changes_until_close(world: World) -> None:
    await world.node.scalable.create(ONE)
    client = world.client(client_version=M1)
    await watch(client)
    [first] = told(client)
    assert list(first.snapshot.topics) == [str(ONE)]
    await world.node.scalable.create(TWO)
    await gathered()
    await world.node.scalable.delete(TWO, force=True)
    await gathered()
    assert [(list(one.diff.added), list(one.diff.removed)) for one in told(client)[1:]] == [
        ([str(TWO)], []),
        ([], [str(TWO)]),
    ]
    client.say(command("WATCH_SCALABLE_TOPICS_CLOSE", watch_id=1))
    await world.node.scalable.create(TWO)
    await gathered()
    assert len(told(client)) == 3
    assert client.connection.memberships == {}


async def test_it_is_told_as_real_broker_told_real_client(world: World) -> None:
    recorded = [one.fields for one in trace("namespace") if one.command == "WATCH_SCALABLE_TOPICS_UPDATE"]
    [asked] = [one.fields for one in trace("namespace") if one.command == "WATCH_SCALABLE_TOPICS"]
    namespace = asked["namespace"]
    one, two = (topic_name(f"topic://{namespace}/{local}") for local in ("one", "two"))
    await world.node.namespaces.create(namespace_name(namespace))
    await world.node.scalable.create(one)
    client = world.client(client_version=M1)
    await watch(client, **asked)
    await world.node.scalable.create(two)
    await gathered()
    await world.node.scalable.delete(two, force=True)
    await gathered()
    assert [as_fields(said) for said in told(client)] == recorded


async def test_changes_of_short_interval_are_merged_and_cancelled_out(
    world: World,
) -> None:
    await world.node.scalable.create(ONE)
    client = world.client()
    await watch(client)
    await world.node.scalable.create(TWO)
    await world.node.scalable.delete(ONE, force=True)
    await world.node.scalable.create(ONE)
    await gathered()
    [_, news] = told(client)
    assert (list(news.diff.added), list(news.diff.removed)) == ([str(ONE), str(TWO)], [str(ONE)])


async def test_only_topics_with_all_properties_are_told(world: World) -> None:
    await world.node.scalable.create(ONE, properties={"team": "a", "tier": "1"})
    client = world.client()
    await watch(client, property_filters=[{"key": "team", "value": "a"}, {"key": "tier", "value": "1"}])
    assert list(told(client)[0].snapshot.topics) == [str(ONE)]
    await world.node.scalable.create(TWO, properties={"team": "a"})
    await gathered()
    assert len(told(client)) == 1


async def test_watcher_with_current_hash_receives_changes_only(world: World) -> None:
    await world.node.scalable.create(ONE)
    client = world.client()
    await watch(client, current_hash=topics_hash([str(ONE)]))
    assert told(client) == []
    await watch(client, watch_id=2, current_hash=topics_hash([str(TWO)]))
    assert list(told(client, 2)[0].snapshot.topics) == [str(ONE)]
    await world.node.scalable.create(TWO)
    await gathered()
    assert [list(one.diff.added) for one in told(client)] == [[str(TWO)]]


async def test_slow_peer_receives_missed_changes_when_it_reads(world: World) -> None:
    client = world.client()
    await watch(client)
    client.connection.pause_writing()
    await world.node.scalable.create(ONE)
    await gathered()
    await world.node.scalable.create(TWO)
    await gathered()
    assert len(told(client)) == 1
    client.connection.resume_writing()
    await gathered()
    assert [list(one.diff.added) for one in told(client)[1:]] == [[str(ONE), str(TWO)]]


async def test_watch_replaces_equal_number_and_ends_with_connection(world: World) -> None:
    client = world.client()
    await watch(client)
    await watch(client, property_filters=[{"key": "k", "value": "v"}])
    await world.node.scalable.create(ONE)
    await gathered()
    assert [one.WhichOneof("event") for one in told(client)] == ["snapshot", "snapshot"]
    client.wire.close()
    await settle()
    assert world.node.scalable.members._followed == {}


@pytest.mark.parametrize(
    ("namespace", "code"),
    [("public/nowhere", pb.TopicNotFound), ("public", pb.InvalidTopicName), ("", pb.InvalidTopicName)],
)
async def test_refused_watch_gets_own_error_and_leaves_nothing(world: World, namespace: str, code: int) -> None:
    client = world.client()
    await watch(client, namespace)
    [refused] = told(client)
    assert (refused.error, refused.WhichOneof("event")) == (code, None)
    assert client.connection.memberships == {}
    assert not client.wire.closing


@pytest.mark.setup(scalableTopicsEnabled="false")
async def test_switched_off_it_is_not_allowed(world: World) -> None:
    client = world.client()
    await watch(client)
    assert told(client)[0].error == pb.NotAllowedError
