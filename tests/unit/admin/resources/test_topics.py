"""Topics over REST while they are used: nobody's messages are lost by asking twice, at once, or too early."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.limits import STORED_PROPERTIES_BYTES_MAX
from magnetar.base.names import topic_name
from tests.unit.admin.world import a_world

pytestmark = pytest.mark.real_clock

NAME = "persistent://public/default/t"
ONE = "/admin/v2/persistent/public/default/t"


async def test_topic_in_use_is_deleted_by_force_only() -> None:
    async with a_world() as world:
        await world.publish(NAME, b"1")
        await world.consume(NAME, "s")
        answer = await world.ask("DELETE", ONE)
        assert (answer.status, "s" in answer.reason) == (412, True)
        await world.do("DELETE", f"{ONE}?force=true")
        assert (await world.ask("GET", f"{ONE}/stats")).status == 404


async def test_two_concurrent_deletions_end_as_done_and_not_found() -> None:
    async with a_world() as world:
        await world.publish(NAME, b"1")
        await world.do("PUT", f"{ONE}/unload")
        answers = await asyncio.gather(*(world.ask("DELETE", ONE) for _ in range(4)))
        assert sorted(answer.status for answer in answers) == [204, 404, 404, 404]
        assert await world.get("/admin/v2/persistent/public/default") == []


async def test_unloaded_topic_comes_back_with_its_messages_and_subscriptions() -> None:
    async with a_world() as world:
        await world.publish(NAME, b"1", b"2")
        _, sink = await world.consume(NAME, "s")
        sent = len(sink.written)
        await world.do("PUT", f"{ONE}/unload")
        assert len(sink.written) == sent + 1  # told to look the topic up again
        assert not world.node.topics.loaded
        stats = await world.get(f"{ONE}/stats")
        assert stats["subscriptions"]["s"]["msgBacklog"] == 2


async def test_terminated_topic_keeps_its_end_however_often_it_is_asked() -> None:
    async with a_world() as world:
        await world.publish(NAME, b"1", b"2")
        first = await world.ask("POST", f"{ONE}/terminate")
        assert first.document["entryId"] == 1
        await world.do("PUT", f"{ONE}/unload")
        assert (await world.ask("POST", f"{ONE}/terminate")).document == first.document
        assert (await world.get(f"{ONE}/internalStats"))["state"] == "Terminated"


async def test_partition_is_made_by_its_topic_and_goes_with_it() -> None:
    async with a_world() as world:
        await world.do("PUT", f"{ONE}/partitions", 2)
        await world.publish(f"{NAME}-partition-1", b"1")
        assert (await world.ask("DELETE", ONE)).status == 409
        assert (await world.ask("PUT", f"{ONE}-partition-2")).status == 412
        await world.do("POST", f"{ONE}/partitions", 3)
        assert len(await world.get("/admin/v2/persistent/public/default")) == 3
        await world.do("DELETE", f"{ONE}/partitions")
        assert await world.get("/admin/v2/persistent/public/default") == []
        assert (await world.ask("GET", f"{ONE}/partitions")).status == 404


async def test_asking_for_partitions_makes_topic_only_where_client_would() -> None:
    async with a_world() as world:
        policy = {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 3}
        await world.do("POST", "/admin/v2/namespaces/public/default/autoTopicCreation", policy)
        assert (await world.ask("GET", f"{ONE}/partitions")).status == 404
        assert (await world.get(f"{ONE}/partitions?checkAllowAutoCreation=true"))["partitions"] == 3
        assert (await world.get(f"{ONE}/partitions"))["partitions"] == 3


async def test_brokers_own_properties_are_neither_shown_nor_touched() -> None:
    async with a_world() as world:
        await world.do("PUT", ONE, {"owner": "blue"})
        topic = await world.topic(NAME)
        await topic.managed.set_properties({"magnetar.topic-epoch": "4"})
        await world.do("PUT", f"{ONE}/properties", {"cost": "7"})
        assert await world.get(f"{ONE}/properties") == {"owner": "blue", "cost": "7"}
        assert (await world.ask("PUT", f"{ONE}/properties", {"magnetar.topic-epoch": "9"})).status == 412
        await world.do("DELETE", f"{ONE}/properties?key=magnetar.topic-epoch")
        await world.do("DELETE", f"{ONE}/properties?key=owner")
        assert await world.get(f"{ONE}/properties") == {"cost": "7"}
        assert topic.managed.properties["magnetar.topic-epoch"] == "4"


async def test_size_behind_message_is_what_is_stored_there() -> None:
    async with a_world() as world:
        await world.publish(NAME, b"1", b"22", b"333")
        topic = await world.topic(NAME)
        ledger = topic.managed.last.ledger
        total = (await world.get(f"{ONE}/stats"))["storageSize"]
        sizes = [
            (await world.ask("PUT", f"{ONE}/backlogSize", {"ledgerId": ledger, "entryId": entry})).document
            for entry in (-1, 0, 1, 2, 9)
        ]
        assert sizes[0] == total
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[-2:] == [0, 0]


@pytest.mark.parametrize("name", ["seal-term", "topic-epoch", "guarded", "created-by", "sinks", "incarnation"])
async def test_topic_with_property_of_broker_is_not_created(name: str) -> None:
    """D10: such a topic could not be deleted, or no producer could use it."""
    given = {f"magnetar.{name}": "4611686018427387904"}

    async with a_world() as world:
        topic = "/admin/v2/persistent/public/default/r1"
        for path, document in (
            (topic, given),
            (f"{topic}/partitions", {"partitions": 2, "properties": given}),
            ("/admin/v2/scalable/public/default/s1", given),
        ):
            answer = await world.ask("PUT", path, document)
            assert (answer.status, "reserved for the broker" in answer.reason) == (412, True), path
        assert await world.get("/admin/v2/persistent/public/default") == []
        await world.do("PUT", f"{topic}/partitions", 2)
        assert (await world.ask("PUT", f"{topic}/properties", given)).status == 412


@pytest.mark.parametrize("value", ["4611686018427387904", "xyz"])
async def test_topic_that_has_such_property_can_be_used_and_deleted(value: str) -> None:
    """From before they were refused."""

    async with a_world() as world:
        name = topic_name("persistent://public/default/r1")
        own = {"magnetar.seal-term": value, "magnetar.topic-epoch": value}
        await world.node.catalogue.create(name, own=own)
        path = "/admin/v2/persistent/public/default/r1"
        await world.publish(str(name), b"x")
        assert (await world.ask("POST", f"{path}/terminate")).status == 200
        assert (await world.ask("DELETE", f"{path}?force=true")).status == 204


async def test_properties_beyond_limit_of_record_are_refused() -> None:
    """D5"""

    async with a_world() as world:
        path = "/admin/v2/persistent/public/default/t"
        large = {"k": "v" * STORED_PROPERTIES_BYTES_MAX}
        answer = await world.ask("PUT", path, large)
        assert (answer.status, str(STORED_PROPERTIES_BYTES_MAX) in answer.reason) == (412, True)
        half = {"a": "v" * (STORED_PROPERTIES_BYTES_MAX // 2)}
        await world.do("PUT", path, half)
        answer = await world.ask("PUT", f"{path}/properties", {"b": half["a"]})
        assert (answer.status, str(STORED_PROPERTIES_BYTES_MAX) in answer.reason) == (412, True)
        await world.do("PUT", f"{path}/properties", {"a": "v"})
        await world.do("PUT", f"{path}/subscription/s", "earliest")
        answer = await world.ask("PUT", f"{path}/subscription/s/properties", large)
        assert (answer.status, str(STORED_PROPERTIES_BYTES_MAX) in answer.reason) == (412, True)
