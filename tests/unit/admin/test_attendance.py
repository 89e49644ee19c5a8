"""Queues as REST shows them: who is attached and what is left, from the owners of their segments."""

from __future__ import annotations

from magnetar.admin.attendance import Attendance, attendance
from magnetar.base.ids import SegmentId
from magnetar.scalable.subscription import Type
from tests.unit.admin.world import a_world
from tests.unit.admin.world import run as run_world
from tests.unit.broker.world import Client
from tests.unit.clock import settle
from tests.unit.scalable.world import NAME, Cluster, run

X = "/admin/v2/scalable/public/default/x"
SEGMENTS = ["segment://public/default/x/0000-7fff-0", "segment://public/default/x/8000-ffff-1"]


def test_the_consumers_of_a_queue_are_counted_once_each_and_its_lag_is_that_of_all_segments() -> None:
    async def body() -> None:
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
            assert found == (await world.get(f"{X}/stats"))["subscriptions"]
            assert (found["work"]["consumerCount"], found["work"]["lag"]) == (2, 3)
            assert [(one["consumerName"], one["segmentIds"]) for one in found["work"]["consumers"]] == [
                ("w1", [0, 1]),
                ("w2", [0, 1]),
            ]
            assert (found["s"]["consumerCount"], found["s"]["lag"]) == (0, None)
            plan = await world.get(f"{X}/subscriptions/work")
            assert [(one["consumerName"], one["left"]) for one in plan["segments"]] == [("w1, w2", 0), ("w1, w2", 3)]
            assert [one["connected"] for one in plan["consumers"]] == [True, True]

    run_world(body())


def test_a_subscription_that_was_carried_over_is_undecided_until_its_first_consumer_comes() -> None:
    async def body() -> None:
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

    run_world(body())


def test_an_owner_that_does_not_answer_makes_its_segments_unknown_and_nothing_else() -> None:
    async def body(cluster: Cluster) -> None:
        [member] = cluster.members
        await member.service.create(NAME, segments=3)
        for name, kind in (("work", Type.QUEUE), ("s", Type.STREAM)):
            await member.service.subscribe(NAME, name, kind, earliest=True)
        record, subscriptions = await cluster.record(), await member.service.subscriptions(NAME)
        whole = {SegmentId(0): 0, SegmentId(1): 0, SegmentId(2): 0}
        assert await attendance(member.node, NAME, record, subscriptions) == {"work": Attendance({}, {**whole})}
        member.carrier.losing = 1  # the first call arrives, two are lost
        [seen] = (await attendance(member.node, NAME, record, subscriptions)).values()
        assert seen.left == {SegmentId(0): 0, SegmentId(1): None, SegmentId(2): None}
        assert seen.lag is None

    run(body)
