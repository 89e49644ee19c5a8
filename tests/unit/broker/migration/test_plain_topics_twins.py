"""A plain topic and a scalable one of the same name: clients make no second one, whichever kind was there first."""

from __future__ import annotations

import pytest

from magnetar.base.names import topic_name
from magnetar.broker.migration.migration import migrate
from magnetar.wire.proto import pb
from tests.support.scalable_topic import NAME, OURS, X, watch
from tests.unit.broker.migration.test_plain_topics import PLAIN
from tests.unit.broker.world import World


@pytest.mark.parametrize("partitions", [0, 2])
async def test_client_that_names_scalable_topic_makes_none_beside_plain_one(world: World, partitions: int) -> None:
    """Clients that know scalable topics would leave the plain one for it without a word."""

    if partitions:
        await world.node.catalogue.create_partitioned(PLAIN, partitions)
    else:
        await world.client().produce(1, topic=str(PLAIN))
    refused = await watch(world.client(**OURS), X)
    assert (refused.error, f"magnetar topic migrate {PLAIN}" in refused.message) == (pb.NotAllowedError, True)
    assert await world.node.scalable.read(NAME) is None
    await migrate(world.node, PLAIN, force=True)
    assert not (await watch(world.client(**OURS), X)).HasField("error")


async def test_client_that_names_plain_topic_makes_none_beside_scalable_one(world: World) -> None:
    await world.node.scalable.create(NAME)
    client = world.client()
    for name in (str(PLAIN), f"{PLAIN}-partition-0"):
        for said in (await client.produce(1, topic=name), await client.subscribe(1, topic=name)):
            assert (said.error.error, f"use {NAME}" in said.error.message) == (pb.NotAllowedError, True)
    assert not await world.node.catalogue.exists(PLAIN)
    await world.node.catalogue.create(PLAIN)  # by an administrator, as in Pulsar
    assert (await client.produce(2, topic=str(PLAIN))).HasField("producer_success")


@pytest.mark.parametrize("ending", ["-s-RETRY", "-DLQ"])
async def test_clients_have_retry_and_dead_letter_topics_by_both_names(world: World, ending: str) -> None:
    """Those of a topic that was migrated are named after it as each consumer was asked for it."""

    plain, scalable = f"{PLAIN}{ending}", f"{X}{ending}"
    assert (await world.client().produce(1, topic=plain)).HasField("producer_success")
    assert not (await watch(world.client(**OURS), scalable)).HasField("error")
    assert await world.node.scalable.read(topic_name(scalable)) is not None
    other = plain.replace("/x-", "/y-")
    assert not (await watch(world.client(**OURS), other.replace("persistent", "topic"))).HasField("error")
    assert (await world.client().produce(1, topic=other)).HasField("producer_success")
