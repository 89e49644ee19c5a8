"""Subscriptions over REST while consumers are attached: what is cleared is not delivered, what is moved comes again."""

from __future__ import annotations

import pytest

from magnetar.admin.resources.subscriptions import nth_unacked
from magnetar.base.ids import Position
from magnetar.base.names import topic_name
from magnetar.topic.topic import Topic
from tests.unit.admin.world import World, a_world

pytestmark = pytest.mark.real_clock

NAME = "persistent://public/default/t"
ONE = "/admin/v2/persistent/public/default/t"
SUB = f"{ONE}/subscription/s"
EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED = range(4)


async def backlog(world: World) -> int:
    return int((await world.get(f"{ONE}/stats"))["subscriptions"]["s"]["msgBacklog"])


@pytest.mark.parametrize("kind", [EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED])
async def test_message_cleared_while_consumer_lacks_permits_is_not_delivered(kind: int) -> None:
    async with a_world(activeConsumerFailoverDelayTimeMillis="0") as world:
        await world.publish(NAME, b"old-1", b"old-2", b"old-3")
        consumer, sink = await world.consume(NAME, "s", kind, permits=0)
        await world.do("POST", f"{SUB}/skip_all")
        assert await backlog(world) == 0
        consumer.flow(100)
        await world.publish(NAME, b"new")
        seen = b"".join(sink.written)
        assert b"new" in seen
        assert b"old" not in seen


async def test_skipping_some_leaves_rest_and_survives_unload() -> None:
    async with a_world() as world:
        await world.publish(NAME, *[b"%d" % n for n in range(10)])
        await world.do("PUT", SUB, "earliest")
        await world.do("POST", f"{SUB}/skip/4")
        assert await backlog(world) == 6
        await world.do("PUT", f"{ONE}/unload")
        assert await backlog(world) == 6


async def test_holes_are_not_counted_when_entries_are_skipped() -> None:
    async with a_world() as world:
        await world.publish(NAME, *[b"%d" % n for n in range(10)])
        await world.do("PUT", SUB, "earliest")
        topic = await world.topic(NAME)
        one = topic.subscriptions.get("s")
        assert one is not None
        ledger = topic.managed.last.ledger
        one.cursor.ack([Position(ledger, 1), Position(ledger, 3)])
        assert [nth_unacked(one, n).entry for n in (1, 2, 3, 8)] == [0, 2, 4, 9]
        await world.do("POST", f"{SUB}/skip/3")
        assert await backlog(world) == 5


async def test_moved_subscription_sends_its_consumer_away_to_come_back() -> None:
    async with a_world() as world:
        await world.publish(NAME, b"1", b"2")
        consumer, _ = await world.consume(NAME, "s")
        await world.do("POST", f"{SUB}/skip_all")
        await world.do("POST", f"{SUB}/resetcursor/1")
        assert consumer.closed
        assert await backlog(world) == 2


async def test_subscription_over_maximum_is_refused_over_rest() -> None:
    async with a_world() as world:
        await world.do("POST", "/admin/v2/namespaces/public/default/maxSubscriptionsPerTopic", 1)
        await world.do("PUT", f"{ONE}/subscription/first")
        refused = await world.ask("PUT", f"{ONE}/subscription/second")
        assert (refused.status, "maximum number of subscriptions" in refused.reason) == (412, True)
        assert await world.get(f"{ONE}/subscriptions") == ["first"]
        await world.do("DELETE", "/admin/v2/namespaces/public/default/maxSubscriptionsPerTopic")
        await world.do("PUT", f"{ONE}/subscription/second")


async def test_scalable_topic_keeps_maximum_of_subscriptions() -> None:
    async with a_world() as world:
        topic = "/admin/v2/scalable/public/default/x"
        await world.do("PUT", topic)
        await world.do("POST", "/admin/v2/namespaces/public/default/maxSubscriptionsPerTopic", 1)
        await world.do("PUT", f"{topic}/subscriptions/first")
        assert (await world.ask("PUT", f"{topic}/subscriptions/second")).status == 412
        await world.do("PUT", f"{topic}/subscriptions/first")


async def test_subscription_in_use_is_deleted_by_force_only() -> None:
    async with a_world() as world:
        consumer, _ = await world.consume(NAME, "s")
        assert (await world.ask("DELETE", SUB)).status == 412
        await world.do("DELETE", f"{SUB}?force=true")
        assert consumer.closed
        assert await world.get(f"{ONE}/subscriptions") == []


async def test_partial_subscription_of_partitioned_topic_is_completed_then_refused() -> None:
    async with a_world() as world:
        await world.do("PUT", f"{ONE}/partitions", 3)
        await world.do("PUT", f"{ONE}-partition-1/subscription/s")
        await world.do("PUT", SUB)
        assert (await world.ask("PUT", SUB)).status == 409
        assert [await world.get(f"{ONE}-partition-{n}/subscriptions") for n in range(3)] == [["s"]] * 3
        await world.do("DELETE", SUB)
        assert await world.get(f"{ONE}/subscriptions") == []


@pytest.mark.parametrize(
    ("start", "left"),
    [
        (None, 0),
        ("latest", 0),
        ("earliest", 5),
        ({"ledgerId": -1, "entryId": -1}, 5),
        ({"ledgerId": 2**63 - 1, "entryId": 2**63 - 1}, 0),
        ({"ledgerId": 0, "entryId": 2}, 3),
        ({"ledgerId": 0, "entryId": 2, "excluded": True}, 2),
        ({"ledgerId": 0, "entryId": 99}, 0),
    ],
)
async def test_new_subscription_starts_where_it_was_told(start: object, left: int) -> None:
    async with a_world() as world:
        await world.publish(NAME, *[b"%d" % n for n in range(5)])
        wanted = start
        if isinstance(wanted, dict) and wanted["ledgerId"] == 0:
            wanted = {**wanted, "ledgerId": (await world.topic(NAME)).managed.last.ledger}
        await world.do("PUT", SUB, wanted)
        assert await backlog(world) == left


async def test_properties_of_ours_are_neither_shown_nor_given_nor_lost() -> None:
    async with a_world() as world:
        await world.do("PUT", SUB, {"ledgerId": -1, "entryId": -1, "properties": {"magnetar.life": "7", "a": "b"}})
        topic = await world.node.topics.get(topic_name(NAME), create=False)
        assert isinstance(topic, Topic)
        [found] = topic.subscriptions
        assert found.cursor.properties == {"a": "b"}
        await found.cursor.set_properties({"magnetar.life": "3", "a": "b"})
        await world.do("PUT", f"{SUB}/properties", {"x": "y", "magnetar.life": "8"})
        assert found.cursor.properties == {"x": "y", "magnetar.life": "3"}
        assert await world.get(f"{SUB}/properties") == {"x": "y"}


async def test_properties_of_subscription_are_replaced_and_kept() -> None:
    async with a_world() as world:
        await world.do("PUT", SUB, {"ledgerId": -1, "entryId": -1, "properties": {"team": "a"}})
        assert await world.get(f"{SUB}/properties") == {"team": "a"}
        await world.do("PUT", f"{SUB}/properties", {"x": "y"})
        await world.do("PUT", f"{ONE}/unload")
        assert await world.get(f"{SUB}/properties") == {"x": "y"}


@pytest.mark.parametrize("path", ["skip/1", "skip_all", "resetcursor/1", "expireMessages/1"])
async def test_looking_for_missing_subscription_makes_none(path: str) -> None:
    async with a_world() as world:
        await world.publish(NAME, b"1")
        assert (await world.ask("POST", f"{SUB}/{path}")).status == 404
        assert (await world.ask("GET", f"{SUB}/position/1")).status == 404
        assert await world.get(f"{ONE}/subscriptions") == []
