"""A hundred stream subscriptions of one topic on three brokers: their waits delay no other call between brokers."""

from __future__ import annotations

import asyncio
from collections import Counter

import httpx2
import pytest

from magnetar.base.ids import SegmentId
from magnetar.base.limits import HTTP_ADDRESS_CONNECTIONS_MAX
from magnetar.base.names import topic_name
from magnetar.scalable.machines.read_plan import MeasureRequest
from magnetar.scalable.record.subscription import Type
from tests.support.broker_cluster import Cluster, Network
from tests.support.scalable_topic import consume
from tests.support.virtual_clock import pass_s

SCALABLE = topic_name("topic://public/default/x")
SUBSCRIPTIONS, SEGMENTS = 100, 8
TRIP_S = 0.001  # of a call


class Crowded(Network):
    """A broker answers as many calls at a time as its REST server has connections for one address."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.most = 0
        self._open: Counter[str] = Counter()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        host = request.url.host
        self._open[host] += 1
        self.most = max(self.most, self._open[host])
        try:
            loop = asyncio.get_running_loop()
            arrived = loop.create_future()
            loop.call_later(TRIP_S, arrived.set_result, None)
            await arrived
            if self._open[host] > HTTP_ADDRESS_CONNECTIONS_MAX:
                return httpx2.Response(503, json={"reason": "too many connections"})
            return await super().handle_async_request(request)
        finally:
            self._open[host] -= 1


@pytest.mark.setup(3, network=Crowded)
async def test_hundred_subscriptions_delay_no_split_and_no_plan(cluster: Cluster) -> None:
    leader = cluster.members[0]
    scalable = leader.node.scalable
    await scalable.create(SCALABLE, segments=SEGMENTS)
    client = leader.client()
    record = await scalable.read(SCALABLE)
    assert record is not None
    for segment in record.layout.segments:  # a message that no consumer acknowledges
        name = segment.topic(SCALABLE)
        sender = (await cluster.follow(leader, name)).client()
        await sender.produce(topic=str(name))
        sender.send(1)
    for number in range(SUBSCRIPTIONS):
        await scalable.subscribe(SCALABLE, f"s{number}", Type.STREAM, earliest=True)
        await consume(client, "a", subscription=f"s{number}", consumer_id=number)
    loop = asyncio.get_running_loop()
    times: list[tuple[float, float]] = []
    for segment in range(SEGMENTS):
        begin = loop.time()
        await scalable.split(SCALABLE, SegmentId(segment))
        split = loop.time()
        plan = await leader.node.handlers.plans.plan(SCALABLE, MeasureRequest())
        times.append((split - begin, loop.time() - split))
        assert len(plan.stretches)
        await pass_s(0.5)
    waits = sum(len(member.node.handlers.wait_server) for member in cluster.members)
    assert isinstance(cluster.network, Crowded)
    assert waits > 2 * HTTP_ADDRESS_CONNECTIONS_MAX
    assert cluster.network.most < 10
    assert max(max(pair) for pair in times) < 1.0, f"split and plan in s: {times}"
