"""SEEK_SUBSCRIPTION as a client meets it: for whoever announced our extensions, over all segments or not at all."""

from __future__ import annotations

from typing import Any

from magnetar.base.ids import Position, SegmentId
from magnetar.base.names import topic_name
from magnetar.layout.readable_range import DONE, START, ReadPosition
from magnetar.scalable.service import SubscriptionKind
from magnetar.wire.proto import pb
from magnetar.wire.scalable.plans import columns
from tests.support.scalable_topic import NAME, OURS, X, split
from tests.unit.broker.handlers.test_read_plan import answered, filled
from tests.unit.broker.world import Client, World, command

A, B, C = SegmentId(0), SegmentId(1), SegmentId(2)


async def seek(client: Client, places: Any = None, **fields: Any) -> pb.BaseCommand:
    said = command("SEEK_SUBSCRIPTION", request_id=9, **{"topic": X, "subscription": "s", **fields})
    if places is not None:
        said.seekSubscription.places.CopyFrom(columns(places))
    return await answered(client, said)


async def a_subscription(world: World) -> Client:
    await filled(world)
    await world.node.scalable.subscribe(NAME, "s", SubscriptionKind.QUEUE, earliest=True)
    return world.client(**OURS)


async def marks(world: World) -> dict[SegmentId, Position]:
    """How far each segment is acknowledged."""
    found = await world.node.scalable.read(NAME)
    assert found is not None
    topics = {one.id: await world.topic(str(one.topic(NAME))) for one in found.layout.segments}
    return {id: one.subscriptions.get("s").cursor.mark for id, one in topics.items()}  # type: ignore[union-attr]


async def test_words_times_and_positions_move_all_concerned_segments(world: World) -> None:
    client = await a_subscription(world)
    await split(world)
    start = await marks(world)
    last = (await world.topic("segment://public/default/x/0000-ffff-0")).managed.last
    assert (await seek(client, to=pb.FROM_LATEST)).type == pb.BaseCommand.SUCCESS
    assert (await marks(world))[A] == last
    assert (await seek(client)).type == pb.BaseCommand.SUCCESS
    assert (await marks(world))[A] == start[A]
    await seek(client, to=pb.FROM_TIME, publish_time=10**12)
    assert (await marks(world))[A] == last
    await seek(client, {A: ReadPosition(last.ledger, 2)})
    assert (await marks(world))[A] == Position(last.ledger, 1)
    await seek(client, {A: DONE, B: START, SegmentId(77): DONE})  # what was pruned was read before
    assert (await marks(world))[A] == last


async def test_contradictory_or_missing_target_is_refused_and_moves_nothing(world: World) -> None:
    client = await a_subscription(world)
    before = await marks(world)
    record = await world.node.scalable.read(NAME)
    assert record is not None
    gone = record.incarnation + 1
    for fields, code in (
        ({"to": pb.FROM_TIME}, pb.NotAllowedError),
        ({"places": {A: DONE}, "incarnation": gone}, pb.NotAllowedError),
        ({"places": {SegmentId(77): ReadPosition(1, 1)}}, pb.NotAllowedError),
        ({"places": {}}, pb.NotAllowedError),
        ({"subscription": "nobody"}, pb.SubscriptionNotFound),
        ({"topic": f"{X}-missing"}, pb.TopicNotFound),
        ({"topic": "persistent://public/default/plain"}, pb.TopicNotFound),
    ):
        said = await seek(client, **fields)  # type: ignore[arg-type]
        assert (said.type, said.error.error) == (pb.BaseCommand.ERROR, code), fields
    assert "magnetar subscription seek" in said.error.message, "what moves a plain topic's"
    assert await marks(world) == before
    places = {A: DONE}
    assert (await seek(client, places, incarnation=record.incarnation)).type == pb.BaseCommand.SUCCESS


async def test_peer_without_our_extensions_sent_command_that_nobody_knows(world: World) -> None:
    await a_subscription(world)
    before = await marks(world)
    client = world.client()
    client.say(command("SEEK_SUBSCRIPTION", request_id=9, topic=X, subscription="s", to=pb.FROM_LATEST))
    await client.produce(topic=str(topic_name("persistent://public/default/other")))  # answered behind it
    assert client.answers(9) == []
    assert await marks(world) == before


async def test_invalid_position_is_refused_permanently_and_moves_nothing(world: World) -> None:
    client = await a_subscription(world)
    before = await marks(world)
    refused = await seek(client, {A: ReadPosition(-7, 3)})
    assert (refused.type, refused.error.error) == (pb.BaseCommand.ERROR, pb.NotAllowedError)
    assert await marks(world) == before
