"""A client whose requests are refused again and again is not read for a while, and then served as before."""

from __future__ import annotations

from magnetar.base.limits import CONNECTION_REFUSALS_PER_S_MAX, REFUSALS_PAUSE_S
from magnetar.wire.proto import pb
from tests.unit.broker.world import Client, World, pass_s, settle

NOWHERE = "persistent://no/where/t"
_T = pb.BaseCommand


async def refuse(client: Client, count: int) -> None:
    for _ in range(count):
        client.request("GET_TOPICS_OF_NAMESPACE", namespace="no")
    await settle(200)


async def test_refusals_beyond_rate_pause_reading_for_second(world: World) -> None:
    client, neighbour = world.client(), world.client()
    await refuse(client, CONNECTION_REFUSALS_PER_S_MAX)
    assert client.wire.reading
    await refuse(client, 1)
    assert not client.wire.reading
    await refuse(client, 5)
    assert len(client.heard.of(_T.ERROR)) == CONNECTION_REFUSALS_PER_S_MAX + 1
    assert (await neighbour.produce()).HasField("producer_success")
    await pass_s(REFUSALS_PAUSE_S + 0.1)
    assert client.wire.reading
    assert len(client.heard.of(_T.ERROR)) == CONNECTION_REFUSALS_PER_S_MAX + 6
    assert (await client.produce()).HasField("producer_success")


async def test_refusals_spread_over_seconds_do_not_pause(world: World) -> None:
    client = world.client()
    for _ in range(4):
        await refuse(client, CONNECTION_REFUSALS_PER_S_MAX // 2)
        await pass_s(0.6)
        assert client.wire.reading


async def test_paused_connection_that_is_lost_leaves_no_timer(world: World) -> None:
    client = world.client()
    await refuse(client, CONNECTION_REFUSALS_PER_S_MAX + 1)
    assert client.connection.refused.pausing
    client.lose()
    assert not client.connection.refused.pausing
    await pass_s(REFUSALS_PAUSE_S + 0.1)
