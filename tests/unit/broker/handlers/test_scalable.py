"""Layouts of scalable topics as a client meets them: looked up, watched, refused; names in classic commands."""

from __future__ import annotations

import pytest

from magnetar.base.ids import SegmentId, Term
from magnetar.base.limits import SEALED_LAYOUT_S
from magnetar.base.names import topic_name
from magnetar.layout.routing import Routing
from magnetar.scalable.record.codec import rest
from magnetar.scalable.record.record import Lifecycle
from magnetar.wire.proto import pb
from tests.support.recorded_traces import as_fields, trace
from tests.support.scalable_topic import M1, NAME, OURS, X, consume, pushes, split, updates, watch
from tests.unit.broker.world import Client, World, command, pass_s, run, settle

# The watch


async def test_watch_receives_layout_and_each_change_until_closed(world: World) -> None:
    await world.node.scalable.create(NAME)
    client = world.client(client_version=M1)
    first = await watch(client)
    assert (first.resolved_topic_name, first.dag.epoch, len(first.dag.segments)) == (X, 0, 1)
    assert first.dag.segment_brokers[0].broker_url == "pulsar://localhost:6650"
    await split(world)
    await settle()
    newest = updates(client)[-1].dag
    assert [one.state for one in newest.segments] == [pb.SEALED, pb.ACTIVE, pb.ACTIVE]
    assert {one.segment_id for one in newest.segment_brokers} == {1, 2}
    assert newest.controller_broker_url == "pulsar://localhost:6650"
    epochs = [one.dag.epoch for one in updates(client)]
    assert epochs == sorted(epochs)
    client.say(command("SCALABLE_TOPIC_CLOSE", session_id=1))
    told = len(updates(client))
    await split(world, 1)
    await settle()
    assert len(updates(client)) == told
    assert not client.wire.closing


@pytest.mark.setup(advertisedListeners="outside:pulsar://outside:6651")
async def test_watch_has_addresses_of_requested_listener(world: World) -> None:
    await world.node.scalable.create(NAME)
    client, other = world.client(**OURS), world.client(**OURS)
    await watch(client, advertised_listener_name="outside")
    await watch(other)
    await consume(client)  # a broker leads
    await settle()
    found, usual = updates(client)[-1].dag, updates(other)[-1].dag
    assert (found.controller_broker_url, found.segment_brokers[0].broker_url) == ("pulsar://outside:6651",) * 2
    assert (usual.controller_broker_url, usual.segment_brokers[0].broker_url) == ("pulsar://localhost:6650",) * 2
    refused = await watch(client, session_id=2, advertised_listener_name="elsewhere")
    assert "the broker do not have elsewhere listener" in refused.message
    assert list(client.connection.layouts) == [1]


async def test_epochs_count_layout_changes_alone_on_wire_and_rest(world: World) -> None:
    """0 at the creation, one more for each change: neither a take-over nor the pinning of the routing counts."""

    await world.node.scalable.create(NAME)
    stock, ours = world.client(client_version=M1), world.client(**OURS)
    await watch(stock)
    await watch(ours)
    await consume(stock)  # somebody leads
    await stock.produce(1, "segment://public/default/x/0000-ffff-0")  # pins the routing
    await split(world, 0)
    await split(world, 1)
    await world.node.scalable.merge(NAME, [SegmentId(3), SegmentId(4)])
    await settle()
    record = await world.node.scalable.read(NAME)
    assert record is not None
    shown = rest(record)
    assert shown["epoch"] == updates(stock)[-1].dag.epoch == 3
    assert pushes(stock)[-1].assignment.layout_epoch == 3
    segments = shown["segments"].values()
    expected = {0: (0, 1), 1: (1, 2), 2: (1, -1), 3: (2, 3), 4: (2, 3), 5: (3, -1)}
    assert {one["segmentId"]: (one["createdAtEpoch"], one["sealedAtEpoch"]) for one in segments} == expected
    assert [past.epoch for past in record.history] == [1, 2, 3]
    heard = [one.dag.epoch for one in updates(ours)]
    assert heard == sorted(heard)
    assert heard[-1] > 3, "our own clients order by a number that every change raises"


async def test_first_layout_is_what_real_broker_told_real_client(world: World) -> None:
    said = trace("producer-split")
    [asked, *_] = [one.fields for one in said if one.command == "SCALABLE_TOPIC_LOOKUP"]
    [told, *_] = [one.fields for one in said if one.command == "SCALABLE_TOPIC_UPDATE"]
    await world.node.scalable.create(topic_name(asked["topic"]))
    ours = as_fields(await watch(world.client(client_version=M1), **asked))
    ours["dag"].pop("controller_broker_url", None)  # there may be one already: it is told sooner than by Pulsar
    for segment in ours["dag"]["segments"]:
        del segment["entry_bucket_splits"]  # came after that release, and is passed over there
    assert ours == told


async def test_lookup_of_missing_topic_creates_it_if_allowed(
    world: World,
) -> None:
    client = world.client()
    refused = await watch(client, create_if_missing=False)
    assert (refused.error, refused.message) == (pb.TopicNotFound, f"Scalable topic not found: {X}")
    assert not refused.HasField("resolved_topic_name")
    assert client.connection.layouts == {}
    made = await watch(client)
    assert (made.dag.epoch, len(made.dag.segments)) == (0, 1)


@pytest.mark.setup(allowAutoTopicCreation="false")
async def test_missing_topic_is_reported_as_by_pulsar_without_creation(world: World) -> None:
    said = trace("missing")
    [asked] = [one.fields for one in said if one.command == "SCALABLE_TOPIC_LOOKUP"]
    [told] = [one.fields for one in said if one.command == "SCALABLE_TOPIC_UPDATE"]
    assert as_fields(await watch(world.client(client_version=M1), **asked)) == told


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ("non-persistent://public/default/x", pb.NotAllowedError),
        ("topic://public/default/x-partition-1", pb.TopicNotFound),
        ("segment://public/default/x/0000-ffff-0", pb.TopicNotFound),
        ("topic://public/nowhere/x", pb.TopicNotFound),
        ("strange://public/default/x", pb.InvalidTopicName),
        ("", pb.InvalidTopicName),
    ],
)
async def test_what_has_no_layout_is_refused_and_connection_stays(world: World, topic: str, code: int) -> None:
    client = world.client()
    answer = await watch(client, topic)
    assert answer.error == code, answer
    assert answer.message
    assert not client.wire.closing
    assert client.connection.layouts == {}


async def test_deleted_topic_ends_its_watches_with_word(world: World) -> None:
    await world.node.scalable.create(NAME)
    client = world.client()
    await watch(client)
    await world.node.scalable.delete(NAME, force=True)
    await settle()
    assert updates(client)[-1].error == pb.TopicNotFound
    assert client.connection.layouts == {}


async def test_watches_end_with_their_connection(world: World) -> None:
    client = world.client()
    await watch(client)
    await watch(client, session_id=2)
    assert len(world.node.watches) == 2
    client.lose()
    assert len(world.node.watches) == 0


async def test_watch_closed_before_it_was_answered_stays_closed(world: World) -> None:
    await world.node.scalable.create(NAME)
    client = world.client()
    client.say(command("SCALABLE_TOPIC_LOOKUP", session_id=1, topic=X))
    client.say(command("SCALABLE_TOPIC_CLOSE", session_id=1))
    client.say(command("SCALABLE_TOPIC_CLOSE", session_id=99))
    await settle()
    assert (updates(client), len(world.node.watches)) == ([], 0)


async def test_own_fields_go_only_to_clients_that_announced_them(world: World) -> None:
    await world.node.scalable.create(NAME, routing=Routing.HIGH16)
    plain, ours = world.client(), world.client(**OURS)
    assert not (await watch(plain)).dag.HasField("routing")
    told = (await watch(ours)).dag
    assert (told.routing, told.HasField("term"), told.incarnation > 0) == ("high16", True, True)
    assert not (await consume(plain, "plain")).assignment.HasField("generation")
    assert (await consume(ours, "ours")).assignment.HasField("generation")


# Names in classic commands


async def test_lookups_of_scalable_topics_and_segments_are_answered_normally(world: World) -> None:
    client = world.client(client_version=M1)
    for name in (X, "segment://public/default/x/0000-ffff-0"):
        answer = (await client.ask("LOOKUP", topic=name)).lookupTopicResponse
        assert answer.response == pb.CommandLookupTopicResponse.Connect
        assert (answer.brokerServiceUrl, answer.authoritative) == ("pulsar://localhost:6650", True)
        parts = (await client.ask("PARTITIONED_METADATA", topic=name)).partitionMetadataResponse
        assert (parts.response, parts.partitions) == (pb.CommandPartitionedTopicMetadataResponse.Success, 0)


async def test_classic_client_of_scalable_topic_is_told_alternatives(world: World) -> None:
    await world.node.scalable.create(NAME)
    client = world.client()
    for answer in (await client.produce(topic=X), await client.subscribe(topic=X)):
        assert answer.error.error == pb.NotAllowedError
        assert "is a scalable topic" in answer.error.message
        assert "SCALABLE_TOPIC_LOOKUP" in answer.error.message
    assert not client.wire.closing


# Switched off


@pytest.mark.setup(scalableTopicEnabled="false")
async def test_switched_off_flag_is_down_and_everything_is_refused(world: World) -> None:
    client = world.client()
    connected = client.heard.heard[0][0].connected
    assert not connected.feature_flags.supports_scalable_topics
    assert (await watch(client)).error == pb.NotAllowedError
    assert (await consume(client)).error == pb.NotAllowedError
    for name in (X, "segment://public/default/x/0000-ffff-0"):
        assert (await client.ask("LOOKUP", topic=name)).lookupTopicResponse.error == pb.NotAllowedError
        assert (await client.produce(topic=name)).error.error == pb.NotAllowedError
        assert (await client.subscribe(topic=name)).error.error == pb.NotAllowedError


@pytest.mark.parametrize(
    ("enabled", "after"), [("false", Lifecycle.DELETING), ("true", Lifecycle.GONE)], ids=["off", "on"]
)
def test_switched_off_what_was_left_unfinished_is_not_touched(enabled: str, after: Lifecycle) -> None:
    async def story(world: World) -> None:
        records = world.node.scalable.records
        await world.node.scalable.create(NAME)
        made, version = await records.fresh(NAME)
        assert made is not None
        await records.write(NAME, made.deleting(), version)
        await pass_s(120)
        await settle()
        left, _ = await records.fresh(NAME)
        assert left is not None
        assert left.lifecycle is after

    run(story, scalableTopicsEnabled=enabled)


async def test_flag_is_up_where_scalable_topics_are_on(world: World) -> None:
    connected = world.client().heard.heard[0][0].connected
    assert connected.feature_flags.supports_scalable_topics


async def test_replaced_watch_receives_only_under_new_request(world: World) -> None:
    await world.node.scalable.create(NAME)
    client = world.client()
    await watch(client)
    other = topic_name("topic://public/default/other")
    await world.node.scalable.create(other)
    assert (await watch(client, str(other))).resolved_topic_name == str(other)
    await split(world)
    await settle()
    assert updates(client)[-1].resolved_topic_name == str(other)


# The end of a segment, for its producers

SEGMENT = "segment://public/default/x/0000-ffff-0"


async def watching_producer(world: World) -> Client:
    await world.node.scalable.create(NAME)
    client = world.client(client_version=M1)
    await watch(client)
    await client.produce(1, SEGMENT)
    client.heard.clear()
    return client


async def test_split_shows_layout_before_it_closes_producers(world: World) -> None:
    """Between the two a Java V5 client has no segment for a message, and sends it late, behind newer ones."""

    client = await watching_producer(world)
    await split(world)
    await settle()
    layouts = [
        place
        for place, (said, _) in enumerate(client.heard.heard)
        if said.HasField("scalableTopicUpdate") and len(said.scalableTopicUpdate.dag.segments) == 3
    ]
    closed = client.heard.kinds.index("CLOSE_PRODUCER")
    assert layouts
    assert layouts[0] < closed
    assert client.heard.kinds.count("CLOSE_PRODUCER") == 1


async def test_sealed_segment_without_new_layout_closes_producers_soon(world: World) -> None:
    client = await watching_producer(world)
    await (await world.topic(SEGMENT)).seal("op", Term(9))
    client.send(0)
    await settle()
    assert client.heard.kinds == [], "neither a receipt nor an error: it is sent again elsewhere"
    await pass_s(SEALED_LAYOUT_S)
    assert client.heard.kinds == ["CLOSE_PRODUCER"]


@pytest.mark.parametrize("ends", ["close", "lose"])
async def test_watch_that_ends_after_seal_closes_producers(world: World, ends: str) -> None:
    client = await watching_producer(world)
    producer = world.client(client_version=M1)
    await producer.produce(1, SEGMENT)
    await (await world.topic(SEGMENT)).seal("op", Term(9))
    if ends == "close":
        client.say(command("SCALABLE_TOPIC_CLOSE", session_id=1))
    else:
        client.lose()
    assert producer.heard.kinds[-1] == "CLOSE_PRODUCER"


async def test_segment_that_nobody_watches_closes_its_producers_at_its_end(world: World) -> None:
    await world.node.scalable.create(NAME)
    client = world.client(client_version=M1)
    await client.produce(1, SEGMENT)
    await (await world.topic(SEGMENT)).seal("op", Term(9))
    assert client.heard.kinds[-1] == "CLOSE_PRODUCER"
