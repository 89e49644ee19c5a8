"""LOOKUP and PARTITIONED_METADATA: failures inside the responses, because clients ignore ERROR here."""

from __future__ import annotations

import pytest

from magnetar.base.names import topic_name
from magnetar.wire.proto import pb
from simulation.stores.metadata import lost_answer
from tests.unit.broker.world import TOPIC, World, settle

_T = pb.BaseCommand
_LOOKUP, _PARTITIONS = pb.CommandLookupTopicResponse, pb.CommandPartitionedTopicMetadataResponse


async def test_owner_is_this_broker(world: World) -> None:
    said = (await world.client().ask("LOOKUP", topic=TOPIC)).lookupTopicResponse
    assert said.response == _LOOKUP.Connect
    assert said.brokerServiceUrl == "pulsar://localhost:6650"
    assert said.authoritative
    assert world.loaded() is None  # asking where it is does not load it


async def test_unknown_topic_has_no_partitions_where_topics_make_themselves(world: World) -> None:
    said = (await world.client().ask("PARTITIONED_METADATA", topic=TOPIC)).partitionMetadataResponse
    assert (said.response, said.partitions) == (_PARTITIONS.Success, 0)
    assert said.HasField("response")


async def test_partitioned_topic_tells_how_many(world: World) -> None:
    await world.node.catalogue.create_partitioned(topic_name(TOPIC), 3)
    said = (await world.client().ask("PARTITIONED_METADATA", topic=TOPIC)).partitionMetadataResponse
    assert said.partitions == 3


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ("persistent://public/nowhere/t", pb.TopicNotFound),
        ("persistent://nobody/default/t", pb.TopicNotFound),
        ("persistent://a/b/c/d/e//", pb.NotAllowedError),  # InvalidTopicName would be repeated until the timeout
    ],
)
async def test_failures_travel_inside_responses(world: World, topic: str, code: int) -> None:
    client = world.client()
    partitions = await client.ask("PARTITIONED_METADATA", topic=topic)
    assert partitions.type == _T.PARTITIONED_METADATA_RESPONSE
    assert partitions.partitionMetadataResponse.response == _PARTITIONS.Failed
    assert partitions.partitionMetadataResponse.error == code
    assert partitions.partitionMetadataResponse.message
    found = await client.ask("LOOKUP", topic=topic)
    assert found.type == _T.LOOKUP_RESPONSE
    assert (found.lookupTopicResponse.response, found.lookupTopicResponse.error) == (_LOOKUP.Failed, code)


async def test_missing_topic_without_creation_is_not_found(world: World) -> None:
    said = await world.client().ask("PARTITIONED_METADATA", topic=TOPIC, metadata_auto_creation_enabled=False)
    assert said.partitionMetadataResponse.error == pb.TopicNotFound


async def test_unknown_listener_fails_with_words_clients_look_for(world: World) -> None:
    said = (await world.client().ask("LOOKUP", topic=TOPIC, advertised_listener_name="test")).lookupTopicResponse
    assert said.response == _LOOKUP.Failed
    assert "the broker do not have test listener" in said.message


async def test_lookup_and_producer_may_use_one_request_id_at_once(world: World) -> None:
    client = world.client()
    world.metadata.hold()
    first = client.request("PRODUCER", topic=TOPIC, producer_id=1)
    client._ids -= 1
    assert client.request("LOOKUP", topic="persistent://public/other/t") == first
    world.metadata.release()
    await settle()
    assert sorted(one.type for one in client.answers(first)) == sorted([_T.PRODUCER_SUCCESS, _T.LOOKUP_RESPONSE])


@pytest.mark.setup(maxConcurrentLookupRequest="2")
async def test_more_lookups_at_once_than_allowed_are_told_so(world: World) -> None:
    client = world.client()
    world.metadata.hold()
    requests = [client.request("LOOKUP", topic=f"persistent://public/fresh-{n}/t") for n in range(3)]
    await settle()
    said = client.answers(requests[2])[0].lookupTopicResponse
    assert said.error == pb.TooManyRequests
    world.metadata.release()
    await settle()
    assert [len(client.answers(one)) for one in requests] == [1, 1, 1]
    assert world.node.lookups == 0


async def test_store_that_is_away_is_service_not_ready_inside_response(world: World) -> None:
    client = world.client()
    world.metadata.faults.extend([lost_answer(happened=False)] * 10)
    said = await client.ask("PARTITIONED_METADATA", topic="persistent://public/away/t")
    assert said.partitionMetadataResponse.response == _PARTITIONS.Failed
    assert said.partitionMetadataResponse.error == pb.ServiceNotReady
    world.metadata.faults.clear()
