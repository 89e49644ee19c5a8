"""Plans and holds through the client, on a broker of its own process: exact ranges through reshapes and `kill -9`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from magnetar import Client, aio, errors
from magnetar.base.ids import SegmentId
from magnetar.client.batch_read.plan import Plan
from magnetar.layout.readable_range import DONE, START, ReadPosition
from tests.servers.standalone import Standalone

pytestmark = pytest.mark.real_clock

PATIENCE_S = 120
# What nobody needs goes as soon as somebody looks.
DROP = {
    "defaultRetentionTimeInMinutes": 0,
    "defaultRetentionSizeInMB": 0,
    "managedLedgerMaxEntriesPerLedger": 5,
    "managedLedgerMinLedgerRolloverTimeMinutes": 0,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("plan")) as running:
        yield running


async def send(client: aio.Client, topic: str, messages: int) -> None:
    """Each an entry of its own."""
    producer = await client.create_producer(topic, batching=None)
    for number in range(messages):
        await producer.send(b"x" * 10, key=str(number))
    await producer.close()


def behind(plan: Plan) -> int:
    return sum(one.messages for one in plan.stretches.values())


async def test_plan_counts_same_range_before_and_after_split(server: Standalone) -> None:
    topic = "topic://public/default/plan-split"
    async with aio.Client(server.url) as client, aio.Admin(server.http) as admin:
        await admin.scalable.create(topic, segments=2)
        await client.hold(topic, "reader")
        await send(client, topic, 200)
        first = await client.plan(topic)
        assert behind(first) == 200
        places = {id: one.marks[0].place for id, one in first.stretches.items()}
        rest = 200 - sum(one.marks[0].messages for one in first.stretches.values())
        assert behind(await client.plan(topic, places)) == rest
        await admin.scalable.split(topic, 0)
        await send(client, topic, 100)
        after = await client.plan(topic, places, targets={id: one.end for id, one in first.stretches.items()})
        old = [after.stretches[SegmentId(id)] for id in (0, 1)]
        assert sum(one.messages for one in old) == rest
        assert after.epoch > first.epoch
        assert after.incarnation == first.incarnation
        assert sorted(after.layout.segment(SegmentId(0)).children) == [2, 3]
        whole = await client.plan(topic, places)
        assert behind(whole) == rest + 100
        assert [one.sealed for _, one in sorted(whole.stretches.items())] == [True, False, False, False]
        few = await client.plan(topic, {SegmentId(0): START}, messages_max=7)
        assert few.stretches[SegmentId(0)].marks[-1].messages == 7


def test_blocking_client_plans_and_holds_too(server: Standalone) -> None:
    topic = "topic://public/default/plan-blocking"
    with Client(server.url) as client:
        with client.create_producer(topic) as producer:
            producer.send(b"x")
        plan = client.plan(topic, start="earliest")
        assert behind(plan) == 1
        ends = {id: one.end for id, one in plan.stretches.items()}
        held = client.hold(topic, "reader", ends, incarnation=plan.incarnation)
        assert (held.places, held.moved, held.lost) == (ends, True, ())
        nowhere = {id: ReadPosition(end.ledger, end.entry + 1) for id, end in ends.items() if end != START}
        with pytest.raises(errors.Refused, match="the nearest position is"):
            client.hold(topic, "reader", nowhere)
        client.release(topic, "reader")
        with pytest.raises(errors.SubscriptionNotFound):
            client.release(topic, "reader")
        with pytest.raises(errors.TopicNotFound):
            client.plan("topic://public/default/plan-nowhere")
        with pytest.raises(errors.Misuse):
            client.plan(topic, messages_max=-1)


@pytest.mark.slow
def test_hold_survives_kill_and_keeps_messages_beyond_retention(tmp_path: Path) -> None:
    held, free = "topic://public/default/held", "topic://public/default/free"

    async def dropped(client: aio.Client) -> None:
        """Until the topic that nobody holds lost what it was just given: a broker went round over all topics."""
        await send(client, free, 20)
        asked = await client.plan(free, start="latest")
        before = {id: ReadPosition(one.end.ledger, 0) for id, one in asked.stretches.items() if one.end != START}
        async with asyncio.timeout(PATIENCE_S):
            while not all(one.lost for one in (await client.plan(free, before)).stretches.values()):
                await send(client, free, 5)
                await asyncio.sleep(0.2)

    async def rounds(client: aio.Client) -> None:
        for _ in range(2):  # one of them began after this was asked for
            await dropped(client)

    async def body(server: Standalone) -> None:
        async with aio.Client(server.url) as client, aio.Admin(server.http) as admin:
            await admin.scalable.create(held, segments=2)
            await admin.scalable.create(free)
            await client.hold(held, "reader", owner="the test", expires_s=3600)
            await send(client, held, 60)
            await admin.scalable.split(held, 0)
            await send(client, held, 40)
            await rounds(client)
            places = {id: one.start for id, one in (await client.plan(held)).stretches.items()}
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
            await rounds(client)
            [listed] = (await admin.holds.list(held)).values()
            assert (listed.owner, listed.lagMessages, listed.state) == ("the test", 100, "KEEPS")
            plan = await client.plan(held, {SegmentId(0): places[SegmentId(0)], SegmentId(1): places[SegmentId(1)]})
            assert behind(plan) == 100
            assert not any(one.lost for one in plan.stretches.values())
            ends = {id: DONE if one.sealed else one.end for id, one in plan.stretches.items()}
            moved = await client.hold(held, "reader", ends, incarnation=plan.incarnation)
            assert moved.moved
            assert behind(await client.plan(held, ends)) == 0

    with Standalone(tmp_path / "held", DROP) as server:
        asyncio.run(body(server))
