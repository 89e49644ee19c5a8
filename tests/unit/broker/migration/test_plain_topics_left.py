"""Consumers of old clients that a forced migration left on the sealed topics: they keep nobody away who follows."""

from __future__ import annotations

from functools import partial

import pytest

from magnetar.broker.migration.migration import migrate
from magnetar.wire.proto import pb
from tests.support.scalable_topic import OURS, consume
from tests.unit.broker.migration.test_plain_topics import EXCLUSIVE, PLAIN, attach, payloads
from tests.unit.broker.world import Client, World, settle

CLOSE = pb.BaseCommand.CLOSE_CONSUMER
SHARED, FAILOVER = pb.CommandSubscribe.Shared, pb.CommandSubscribe.Failover
KEY_SHARED = pb.CommandSubscribe.Key_Shared


def closed(client: Client) -> list[int]:
    return [said.close_consumer.consumer_id for said, _ in client.heard.heard if said.type == CLOSE]


@pytest.mark.parametrize("kind", [EXCLUSIVE, FAILOVER])
async def test_old_consumer_on_sealed_topic_yields_to_planned_stream_consumer(world: World, kind: int) -> None:
    """It may have stopped reading: the new one would wait for it without a word."""

    old, new = world.client(), world.client(**OURS)
    await old.produce(1, topic=str(PLAIN))
    asking = partial(old.subscribe, topic=str(PLAIN), subType=kind, permits=2)
    await asking(1)
    for text in "abcd":
        old.send(ord(text), text)
    await settle()
    old.ack(1, (await world.topic(str(PLAIN))).managed.first)
    await migrate(world.node, PLAIN, force=True)
    await attach(new, (await consume(new, topic=str(PLAIN))).assignment, "a")
    await settle()
    assert closed(old) == [1]
    assert b"".join(payloads(new)) == b"bcd"
    again = (await asking(1)).error
    assert (again.error, "taken over by stream consumer a" in again.message) == (pb.ConsumerBusy, True)
    new.lose()
    assert (await asking(1)).error.error == pb.ConsumerBusy, "it is waited for, and its order kept"


@pytest.mark.parametrize(("kind", "goes"), [(KEY_SHARED, True), (SHARED, False)])
@pytest.mark.parametrize("read", [True, False])
async def test_old_consumer_on_sealed_topic_admits_queue_consumer(
    world: World, kind: int, goes: bool, read: bool
) -> None:
    old, new = world.client(), world.client(**OURS)
    old.wire.polite = True
    await old.produce(1, topic=str(PLAIN))
    await old.subscribe(1, topic=str(PLAIN), subType=kind, permits=1)
    old.send(0, "a")
    await settle()
    if read:
        old.ack(1, (await world.topic(str(PLAIN))).managed.last)
    await migrate(world.node, PLAIN, force=True)
    follows = [{"key": "__pulsar.v5.managed", "value": "true"}]
    asking = partial(new.subscribe, topic=str(PLAIN), subType=SHARED, permits=1)
    said = await asking(1)
    assert said.HasField("error") == goes, "one that does not follow sends nobody away"
    said = await asking(2, metadata=follows)
    assert said.HasField("success"), said
    await settle()
    assert bool(closed(old)) == goes
    assert payloads(new) == [b"a"] * (goes and not read)


async def test_harmless_and_foreign_old_consumers_stay(world: World) -> None:
    old, new, third = world.client(), world.client(**OURS), world.client(**OURS)
    old.wire.polite = new.wire.polite = True
    await old.subscribe(1, topic=str(PLAIN), subscription="other", subType=EXCLUSIVE)
    await old.subscribe(2, topic=str(PLAIN), subscription="mine", subType=EXCLUSIVE, durable=False)
    await world.node.segments.plains.stand_in(PLAIN)
    await migrate(world.node, PLAIN, force=True)
    told = (await consume(new, topic=str(PLAIN), initial_position=pb.CommandSubscribe.Earliest)).assignment
    await attach(new, told, "a")
    assert closed(old) == []
    said = await third.subscribe(1, topic=str(PLAIN), subType=EXCLUSIVE, consumer_name="b-seg-0", metadata=[])
    assert said.error.error == pb.ConsumerBusy, "two that follow agree by their plan"
    assert closed(new) == []
