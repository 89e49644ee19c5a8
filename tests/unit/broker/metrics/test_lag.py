"""Lag in messages of streams, queues, groups and holds, and who is attached, from the owners of the segments."""

from __future__ import annotations

from typing import Any

import pytest

from magnetar.base.errors import NotReady, SubscriptionNotFound, TopicNotFound
from magnetar.base.ids import SegmentId
from magnetar.base.names import topic_name
from magnetar.broker.batch_read.holds import HoldRequest
from magnetar.broker.metrics.lag import lag_behind, lag_of, subscription_lags
from magnetar.layout.lag import NO_LAG
from magnetar.layout.readable_range import ReadPosition
from magnetar.scalable.record.subscription import Type
from tests.support.virtual_clock import settle
from tests.unit.admin.world import a_world
from tests.unit.broker.world import Client
from tests.unit.scalable.world import NAME, Cluster

X = "/admin/v2/scalable/public/default/x"
SEGMENTS = ["segment://public/default/x/0000-7fff-0", "segment://public/default/x/8000-ffff-1"]


def _ageless(found: dict[str, Any]) -> dict[str, Any]:
    return {name: {**one, "lagAgeS": 0} for name, one in found.items()}


@pytest.mark.real_clock
async def test_queue_consumers_count_once_and_lag_covers_all_segments() -> None:
    async with a_world() as world:
        await world.do("PUT", f"{X}?numInitialSegments=2")
        await world.do("PUT", f"{X}/subscriptions/s")
        client = Client(world.node).connect()
        for id, segment in enumerate(SEGMENTS):
            for place, name in enumerate(("w1", "w2")):
                answer = await client.subscribe(
                    10 * id + place, topic=segment, subscription="work", consumer_name=f"{name}-seg-{id}"
                )
                assert answer.HasField("success"), answer
        await client.produce(1, topic=SEGMENTS[1])
        for number in range(3):
            client.send(number)
        await settle()
        found = await world.get(f"{X}/subscriptions")
        assert _ageless(found) == _ageless((await world.get(f"{X}/stats"))["subscriptions"])
        assert (found["work"]["consumerCount"], found["work"]["lag"]) == (2, 3)
        assert [(one["consumerName"], one["segmentIds"]) for one in found["work"]["consumers"]] == [
            ("w1", [0, 1]),
            ("w2", [0, 1]),
        ]
        assert (found["s"]["consumerCount"], found["s"]["lag"]) == (0, 3)
        plan = await world.get(f"{X}/subscriptions/work")
        assert [(one["consumerName"], one["left"]) for one in plan["segments"]] == [("w1, w2", 0), ("w1, w2", 3)]
        assert [one["connected"] for one in plan["consumers"]] == [True, True]


@pytest.mark.real_clock
async def test_carried_subscription_is_undecided_until_first_consumer() -> None:
    async with a_world() as world:
        plain = "persistent://public/default/x"
        client = Client(world.node).connect()
        await client.subscribe(1, topic=plain, subscription="idle")
        client.lose()
        await settle()
        await world.do("POST", f"{X}/migrate")
        assert (await world.get(f"{X}/subscriptions"))["idle"]["undecided"]
        assert (await world.get(f"{X}/subscriptions/idle"))["undecided"]
        again = Client(world.node).connect()
        assert (await again.subscribe(1, topic=plain, subscription="idle")).HasField("success")
        assert not (await world.get(f"{X}/subscriptions"))["idle"]["undecided"]


async def test_silent_owner_leaves_only_its_segments_unknown(cluster: Cluster) -> None:
    [member] = cluster.members
    await member.service.create(NAME, segments=3)
    for name, kind in (("work", Type.QUEUE), ("s", Type.STREAM)):
        await member.service.subscribe(NAME, name, kind, earliest=True)
    record, subscriptions = await cluster.record(), await member.service.subscriptions(NAME)
    [seen, stream] = (await subscription_lags(member.node, NAME, record, subscriptions)).values()
    assert (seen.lag, stream.lag, seen.consumers) == (NO_LAG, NO_LAG, {})
    member.carrier.losing = 1  # the first call arrives, two are lost
    [seen, stream] = (await subscription_lags(member.node, NAME, record, subscriptions)).values()
    assert seen.left == {SegmentId(0): NO_LAG, SegmentId(1): None, SegmentId(2): None}
    assert seen.lag is None
    member.carrier.losing = 1
    with pytest.raises(NotReady, match="does not respond"):
        await lag_of(member.node, NAME, "work")


@pytest.mark.real_clock
async def test_lag_counts_messages_of_stream_queue_and_hold() -> None:
    async with a_world() as world:
        node = world.node
        await world.do("PUT", f"{X}?numInitialSegments=2")
        await world.do("PUT", f"{X}/subscriptions/s")
        await world.do("PUT", f"{X}/subscriptions/q?type=QUEUE")
        name = topic_name("topic://public/default/x")
        await node.handlers.holds.hold(name, HoldRequest("h", {}))
        for segment in SEGMENTS:
            await world.publish_batches(segment, [3, 1, 4])
        assert [(await lag_of(node, name, one)).messages for one in ("s", "q", "h")] == [16, 16, 16]
        found = await world.get(f"{X}/subscriptions")
        assert {key: one["lag"] for key, one in found.items()} == {"s": 16, "q": 16, "h": 16}
        assert {one["lagOldestMs"] for one in found.values()} == {1000}
        assert all(one["lagAgeS"] > 1 for one in found.values())
        assert (await world.get(f"{X}/holds/h"))["lagOldestMs"] == 1000
        topic = await world.topic(SEGMENTS[0])
        one = topic.subscriptions.get("s")
        assert one is not None
        one.ack_to(None, topic.managed.first, None)
        assert (await lag_of(node, name, "s")).messages == 13
        plan = await world.get(f"{X}/subscriptions/s")
        assert plan["drainedSegmentIds"] == []
        second = ReadPosition(topic.managed.first.ledger, 1)
        assert (await lag_behind(node, name, {SegmentId(0): second})).messages == 13


@pytest.mark.real_clock
async def test_lag_of_plain_topic_is_that_of_its_partitions() -> None:
    async with a_world() as world:
        plain = topic_name("persistent://public/default/p")
        await world.do("PUT", "/admin/v2/persistent/public/default/p/partitions", 2)
        await world.do("PUT", "/admin/v2/persistent/public/default/p/subscription/s", "earliest")
        for index in range(2):
            await world.publish_batches(str(plain.partition(index)), [2, 5])
        assert (await lag_of(world.node, plain, "s")).messages == 14
        assert (await lag_of(world.node, plain.partition(1), "s")).messages == 7
        stats = await world.get("/admin/v2/persistent/public/default/p/partitioned-stats")
        one = stats["subscriptions"]["s"]
        assert (one["msgBacklog"], one["lagMessages"], one["earliestMsgPublishTimeInBacklog"]) == (4, 14, 1000)
        assert stats["oldestBacklogMessageAgeSeconds"] > 0
        with pytest.raises(SubscriptionNotFound):
            await lag_of(world.node, plain, "other")
        for missing in ("persistent://public/default/none", "topic://public/default/none"):
            with pytest.raises(TopicNotFound):
                await lag_of(world.node, topic_name(missing), "s")
        assert await lag_of(world.node, topic_name("non-persistent://public/default/n"), "s") == NO_LAG
