"""Plain topics made scalable over REST: looked at first, refused where somebody would be left behind, done for good."""

from __future__ import annotations

from dataclasses import replace

import pytest

from magnetar.base.ids import SegmentId, Term
from magnetar.base.names import topic_name
from magnetar.cluster.calls.topic_calls import Fence
from magnetar.layout.plain_layout import children_of
from magnetar.scalable.record.record import Intent, Kind, Record
from magnetar.wire.proto import pb
from tests.support.virtual_clock import settle
from tests.unit.admin.world import World, a_world
from tests.unit.broker.world import Client

pytestmark = pytest.mark.real_clock

PLAIN = "/admin/v2/persistent/public/default/x"
X = "/admin/v2/scalable/public/default/x"
NAME = "persistent://public/default/x"


async def connected(world: World) -> Client:
    client = Client(world.node).connect()
    await client.produce(1, topic=f"{NAME}-partition-0", producer_name="old")
    await client.subscribe(1, topic=f"{NAME}-partition-1", subscription="s", subType=pb.CommandSubscribe.Exclusive)
    return client


async def test_what_migration_would_mean_is_told_and_nothing_is_changed() -> None:
    async with a_world() as world:
        await world.do("PUT", f"{PLAIN}/partitions", 2)
        await connected(world)
        found = await world.get(f"{X}/migrate")
        assert found["topics"] == [f"{NAME}-partition-0", f"{NAME}-partition-1"]
        assert [(one["segmentId"], one["state"]) for one in found["segments"]] == [
            (0, "SEALED"),
            (1, "SEALED"),
            (2, "ACTIVE"),
            (3, "ACTIVE"),
        ]
        assert found["subscriptions"] == [{"subscription": "s", "type": "STREAM"}]
        assert found["forceNeeded"]
        old = found["clients"][0]
        assert (old["name"], old["subscription"], old["follows"]) == ("old", None, False)
        assert (await world.ask("GET", X)).status == 404
        assert await world.node.scalable.read(topic_name("topic://public/default/x")) is None


async def test_existing_topic_is_migrated_once_and_strands_no_client() -> None:
    async with a_world() as world:
        assert (await world.ask("POST", f"{X}/migrate")).status == 404
        assert (await world.ask("GET", f"{X}/migrate")).status == 404
        await world.do("PUT", f"{PLAIN}/partitions", 2)
        client = await connected(world)
        refused = await world.ask("POST", f"{X}/migrate")
        assert refused.status == 409
        assert b"producer old" in refused.body
        assert b"force" in refused.body
        assert (await world.ask("POST", f"{X}/migrate?force=true")).status == 204
        await settle()
        shown = (await world.get(X))["segments"]
        assert [shown[id]["legacyTopicName"] for id in ("0", "1")] == [f"{NAME}-partition-0", f"{NAME}-partition-1"]
        assert (await world.ask("POST", f"{X}/migrate?force=true")).status == 409
        assert (await world.get(f"{X}/operations"))[0]["kind"] == "MIGRATE"
        assert not client.connection.closed


async def test_migrated_topic_keeps_plain_name_and_parts_taken() -> None:
    async with a_world() as world:
        await world.do("PUT", f"{PLAIN}/partitions", 1)
        await world.do("PUT", f"{PLAIN}-partition-0/subscription/s", {})
        told = await world.get(f"{X}/migrate")
        assert told["subscriptions"] == [{"subscription": "s", "type": None}]
        done = await world.ask("POST", f"{X}/migrate?show=operation")
        assert done.status == 200
        assert (await world.ask("POST", f"{PLAIN}/partitions", 3)).status == 409, "it has no partitions any more"
        assert (await world.ask("PUT", PLAIN, {})).status == 409
        assert (await world.ask("DELETE", f"{PLAIN}-partition-0/subscription/s")).status == 409
        for method, path in (
            ("DELETE", f"{PLAIN}-partition-0?force=true"),
            ("DELETE", f"{PLAIN}/partitions?force=true"),
            ("POST", f"{PLAIN}-partition-0/terminate"),
        ):
            refused = await world.ask(method, path)
            assert (
                refused.status,
                f"{NAME} was migrated: use, terminate and delete it as topic://" in refused.reason,
            ) == (409, True), refused
        await world.do("DELETE", f"{X}?force=true")
        assert (await world.ask("GET", f"{PLAIN}/stats")).status == 404
        await world.do("PUT", PLAIN, {})


async def test_topic_under_migration_is_deleted_only_after_cancellation() -> None:
    async with a_world() as world:
        await world.do("PUT", PLAIN, {})
        plains, records = world.node.segments.plains, world.node.scalable.records
        await plains.stand_in(topic_name(NAME))
        begun = await records.change(topic_name(NAME).scalable, migrating)
        assert (await world.ask("DELETE", f"{PLAIN}?force=true")).status == 409
        assert (await world.ask("POST", f"{PLAIN}/terminate")).status == 409
        await records.change(topic_name(NAME).scalable, lambda one: one.abandoned("why").cleared(now_ms=9))
        request = Fence(op="x", term=begun.term, incarnation=begun.incarnation)
        await world.node.peers.owner(topic_name(NAME)).ask(request)  # as it is done before a plan is taken back
        await world.do("DELETE", f"{PLAIN}?force=true")


def migrating(record: Record) -> Record:
    layout, children = record.layout.burned(children_of(record.layout))
    intent = Intent("m", Kind.MIGRATE, (SegmentId(0),), children, Term(7))
    return replace(record, term=Term(7)).intended(intent, layout)


async def test_plain_topic_with_stream_consumers_shows_subscription_and_stays_plain() -> None:
    async with a_world() as world:
        await world.do("PUT", PLAIN, {})
        await world.node.segments.plains.stand_in(topic_name(NAME))
        assert (await world.ask("GET", X)).status == 404
        assert (await world.ask("POST", f"{X}/split/0")).status == 404
        assert (await world.ask("DELETE", X)).status == 404
        assert await world.get(f"{X}/subscriptions") == {}
        assert await world.get("/admin/v2/scalable/public/default") == []
        assert (await world.ask("PUT", X, {})).status == 409
        await world.do("DELETE", PLAIN)
        await world.do("PUT", X, {})
