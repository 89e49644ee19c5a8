"""A migrated topic's subscription, moved by the name that the topic had: on all segments as one plan, or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from magnetar.base.ids import AFTER_ALL, BEFORE_ALL, Position
from magnetar.base.names import topic_name
from magnetar.broker.migration.migration import migrate
from tests.support.broker_cluster import Cluster, Network
from tests.unit.admin.resources.scalable.test_migration import NAME, PLAIN, X, migrating
from tests.unit.admin.test_router_cluster import ask
from tests.unit.admin.world import World, a_world

SCALABLE = topic_name(NAME).scalable
SUB = f"{PLAIN}/subscription/s"


async def prepared(world: World, partitions: int = 0) -> None:
    """Three messages before the migration and two after it, all of them acknowledged."""
    parts = [f"{NAME}-partition-{index}" for index in range(partitions)] or [NAME]
    if partitions:
        await world.do("PUT", f"{PLAIN}/partitions", partitions)
    await world.publish(parts[0], b"0", b"1", b"2")
    await world.do("PUT", SUB, "earliest")
    await world.do("POST", f"{X}/migrate")
    await world.publish(await _after(world), b"3", b"4")
    for topic in (parts[0], await _after(world)):
        loaded = await world.topic(topic)
        one = loaded.subscriptions.get("s")
        assert one is not None
        one.cursor.ack_to(loaded.managed.last)
    assert await left(world) == (0, 0)


async def _after(world: World) -> str:
    """The first segment that came after the migration."""
    record = await world.node.scalable.read(SCALABLE)
    assert record is not None
    return str(record.layout.active[0].topic(SCALABLE))


async def left(world: World) -> tuple[int, int]:
    """Of the first part that was migrated, and of the first segment after it."""
    record = await world.node.scalable.read(SCALABLE)
    assert record is not None
    found = []
    for name in (record.layout.segments[0].topic(SCALABLE), record.layout.active[0].topic(SCALABLE)):
        one = (await world.topic(str(name))).subscriptions.get("s")
        assert one is not None
        found.append(one.backlog)
    return found[0], found[1]


async def seeks(world: World) -> int:
    """How often the subscription was moved as one of the whole topic."""
    one, _ = await world.node.scalable.records.subscription(SCALABLE, "s")
    assert one is not None
    return one.seeks


def _id(place: Position, **more: Any) -> dict[str, Any]:
    return {"ledgerId": place.ledger, "entryId": place.entry, **more}


@pytest.mark.parametrize("partitions", [0, 2])
@pytest.mark.parametrize(("tail", "place"), [("/1", None), ("", BEFORE_ALL)])
@pytest.mark.real_clock
async def test_seek_by_old_name_moves_every_segment(partitions: int, tail: str, place: Position | None) -> None:
    async with a_world() as world:
        await prepared(world, partitions)
        await world.do("POST", f"{SUB}/resetcursor{tail}", None if place is None else _id(place))
        assert (await left(world), await seeks(world)) == ((3, 2), 1)


@pytest.mark.real_clock
async def test_seek_before_migration_redelivers_everything_since() -> None:
    async with a_world() as world:
        await prepared(world)
        last = (await world.topic(NAME)).managed.last
        await world.do("POST", f"{SUB}/resetcursor", _id(last))
        assert await left(world) == (1, 2)
        await world.do("POST", f"{SUB}/resetcursor", _id(Position(last.ledger, 0), excluded=True))
        assert (await left(world), await seeks(world)) == ((2, 2), 2)
        after = (await world.topic(await _after(world))).managed.last
        refused = await world.ask("POST", f"{SUB}/resetcursor", _id(after))
        assert (refused.status, f"seek {SCALABLE} SUBSCRIPTION --to SEGMENT" in refused.reason) == (412, True)
        assert (await left(world), await seeks(world)) == ((2, 2), 2)


@pytest.mark.parametrize(("tail", "place"), [("skip_all", None), ("resetcursor", AFTER_ALL)])
@pytest.mark.real_clock
async def test_clear_by_old_name_clears_every_segment(tail: str, place: Position | None) -> None:
    async with a_world() as world:
        await prepared(world)
        await world.do("POST", f"{X}/subscriptions/s/seek?to=earliest")
        assert await left(world) == (3, 2)
        await world.do("POST", f"{SUB}/{tail}", None if place is None else _id(place))
        assert (await left(world), await seeks(world)) == ((0, 0), 2)


@pytest.mark.parametrize(
    "path",
    [
        "subscription/s/skip/1",
        "subscription/s/expireMessages/0",
        "subscription/s/expireMessages",
        "all_subscription/expireMessages/0",
    ],
)
@pytest.mark.real_clock
async def test_operation_refused_for_scalable_topic_is_refused_for_sealed_part(path: str) -> None:
    """Done to that part alone it would be outside the plan, and nobody would get what it leaves."""

    async with a_world() as world:
        await prepared(world)
        await world.do("POST", f"{X}/subscriptions/s/seek?to=earliest")
        refused = await world.ask("POST", f"{PLAIN}/{path}", {"ledgerId": 0, "entryId": 0})
        assert (refused.status, f"magnetar subscription seek {SCALABLE} " in refused.reason) == (409, True)
        assert await left(world) == (3, 2)


@pytest.mark.parametrize("path", ["resetcursor/1", "resetcursor", "skip_all", "skip/1", "expireMessages/0"])
@pytest.mark.real_clock
async def test_one_partition_of_what_was_migrated_is_not_moved_alone(path: str) -> None:
    async with a_world() as world:
        await prepared(world, 2)
        refused = await world.ask("POST", f"{PLAIN}-partition-0/subscription/s/{path}", _id(BEFORE_ALL))
        assert (refused.status, str(SCALABLE) in refused.reason) == (409, True)
        assert (await left(world), await seeks(world)) == ((0, 0), 0)


@pytest.mark.real_clock
async def test_nothing_is_moved_while_topic_is_being_migrated() -> None:
    async with a_world() as world:
        await world.publish(NAME, b"0")
        await world.do("PUT", SUB, "latest")
        await world.node.segments.plains.stand_in(topic_name(NAME))
        await world.do("POST", f"{SUB}/resetcursor/1")  # a plain topic's, as ever
        await world.node.scalable.records.change(SCALABLE, migrating)
        for tail in ("resetcursor/1", "skip_all", "skip/1"):
            assert (await world.ask("POST", f"{SUB}/{tail}")).status == 409


@pytest.mark.setup(network=Network)
async def test_seek_is_executed_by_leader_whoever_owns_part(cluster: Cluster) -> None:
    owner, other = await cluster.find()  # of persistent://public/default/orders
    plain = "/admin/v2/persistent/public/default/orders"
    assert (await ask(owner, "PUT", plain)).status == 204
    assert (await ask(owner, "PUT", f"{plain}/subscription/s", "earliest")).status == 204
    name = topic_name("persistent://public/default/orders")
    await migrate(other.node, name, force=False)
    sent = await ask(owner, "POST", f"{plain}/subscription/s/skip_all")
    assert sent.status == 307
    assert sent.headers["location"] == f"{other.node.addresses.http_url}{plain}/subscription/s/skip_all"
    assert (await ask(other, "POST", f"{plain}/subscription/s/skip_all")).status == 204
    one, _ = await other.node.scalable.records.subscription(name.scalable, "s")
    assert one is not None
    assert one.seeks == 1


@pytest.mark.real_clock
async def test_properties_belong_to_whole_topic_and_not_sealed_part() -> None:
    async with a_world() as world:
        await world.do("PUT", SUB, _id(BEFORE_ALL, properties={"team": "x"}))
        await world.do("POST", f"{X}/migrate")
        refused = await world.ask("PUT", f"{SUB}/properties", {"team": "y"})
        assert (refused.status, str(SCALABLE) in refused.reason, "seek" in refused.reason) == (409, True, False)
        assert await world.get(f"{SUB}/properties") == {"team": "x"}
