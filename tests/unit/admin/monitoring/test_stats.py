"""Statistics say what the topic counts, in the fields that were recorded of a real Pulsar."""

from __future__ import annotations

import pytest

from tests.unit.admin.world import a_world, like, recorded

pytestmark = pytest.mark.real_clock

NAME = "persistent://public/default/t"
ONE = "/admin/v2/persistent/public/default/t"


async def test_every_recorded_field_of_topic_with_clients_is_there() -> None:
    [shape] = [one.document for one in recorded("non-persistent") if one.path.endswith("/np/stats")]

    async with a_world() as world:
        loose = "non-persistent://acme/shop/np".replace("acme/shop", "public/default")
        await world.consume(loose, "s")
        await world.produce(loose, "p")
        stats = await world.get("/admin/v2/non-persistent/public/default/np/stats")
        assert [said for said in like(shape, stats) if "msgDropRate" not in said] == []
        [consumer] = stats["subscriptions"]["s"]["consumers"]
        assert (consumer["consumerName"], consumer["availablePermits"], consumer["metadata"]) == (
            "of-s",
            100,
            {"app": "x"},
        )
        [publisher] = stats["publishers"]
        assert (publisher["producerName"], publisher["address"]) == ("p", "/127.0.0.1:50412")


@pytest.mark.parametrize(("kind", "word"), [(0, "Exclusive"), (1, "Shared"), (2, "Failover"), (3, "Key_Shared")])
async def test_subscription_is_shown_with_its_type_backlog_and_counts(kind: int, word: str) -> None:
    async with a_world() as world:
        await world.publish(NAME, b"1", b"2")
        consumer, _ = await world.consume(NAME, "s", kind)
        await world.publish(NAME, b"3")
        one = (await world.get(f"{ONE}/stats"))["subscriptions"]["s"]
        assert (one["type"], one["msgBacklog"]) == (word, 3)
        assert one["msgOutCounter"] == consumer.messages_out
        assert one["backlogSize"] > 0
        assert ("activeConsumerName" in one) == (kind in (0, 2))
        assert ("keySharedMode" in one) == (kind == 3)
        (await world.topic(NAME)).subscriptions.remove([consumer])
        after = (await world.get(f"{ONE}/stats"))["subscriptions"]["s"]
        assert after["type"] == "None"
        assert after["msgOutCounter"] == one["msgOutCounter"]  # what went out stays counted


async def test_last_publish_time_is_kept_after_unload() -> None:
    async with a_world() as world:
        await world.do("PUT", f"{ONE}/partitions", 2)
        await world.do("PUT", f"{ONE}/subscription/s", "earliest")
        assert (await world.get(f"{ONE}-partition-0/stats"))["lastPublishTimeStamp"] == 0
        before = world.runtime.wall()
        await world.publish(f"{NAME}-partition-0", b"1", b"2")
        for _ in range(2):
            told = (await world.get(f"{ONE}-partition-0/stats"))["lastPublishTimeStamp"]
            assert before <= told <= world.runtime.wall()
            assert (await world.get(f"{ONE}/partitioned-stats"))["lastPublishTimeStamp"] == told
            await world.do("PUT", f"{ONE}-partition-0/unload")


async def test_when_topic_was_made_is_told_and_does_not_change() -> None:
    async with a_world() as world:
        before = world.runtime.wall()
        await world.do("PUT", ONE)
        made = (await world.get(f"{ONE}/stats"))["topicCreationTimeStamp"]
        assert before <= made <= world.runtime.wall()
        await world.publish(NAME, b"1")
        await world.do("PUT", f"{ONE}/unload")
        assert (await world.get(f"{ONE}/stats"))["topicCreationTimeStamp"] == made


async def test_partitions_add_up() -> None:
    async with a_world() as world:
        await world.do("PUT", f"{ONE}/partitions", 3)
        await world.do("PUT", f"{ONE}/subscription/s", "earliest")
        for number in range(3):
            await world.publish(f"{NAME}-partition-{number}", *[b"x"] * (number + 1))
        total = await world.get(f"{ONE}/partitioned-stats")
        assert (total["msgInCounter"], total["subscriptions"]["s"]["msgBacklog"]) == (6, 6)
        assert total["metadata"]["partitions"] == 3
        assert [one["msgInCounter"] for one in total["partitions"].values()] == [1, 2, 3]
        assert (await world.get(f"{ONE}/partitioned-stats?perPartition=false"))["partitions"] == {}
        inside = await world.get(f"{ONE}/partitioned-internalStats")
        assert [one["numberOfEntries"] for one in inside["partitions"].values()] == [1, 2, 3]


async def test_ledgers_and_cursors_are_shown_as_they_are() -> None:
    async with a_world() as world:
        await world.publish(NAME, b"1", b"2", b"3")
        await world.do("PUT", f"{ONE}/subscription/s", "earliest")
        await world.do("POST", f"{ONE}/subscription/s/skip/1")
        shown = await world.get(f"{ONE}/internalStats")
        ledger = (await world.topic(NAME)).managed.last.ledger
        assert shown["lastConfirmedEntry"] == f"{ledger}:2"
        assert shown["cursors"]["s"]["markDeletePosition"] == f"{ledger}:0"
        assert [one["entries"] for one in shown["ledgers"]] == [3]
