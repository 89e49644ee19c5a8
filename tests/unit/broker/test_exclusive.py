"""Exclusive producers of a scalable topic: one for all its segments, through splits, departures and fencing (H-E11)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from magnetar.base.ids import SegmentId
from magnetar.base.limits import EXCLUSIVE_RETURN_S
from magnetar.base.names import topic_name
from magnetar.topic.access import Mode
from magnetar.topic.topic import Topic
from magnetar.wire.proto import pb
from tests.unit.broker import several
from tests.unit.broker.several import Cluster, Member, Network
from tests.unit.broker.world import Client
from tests.unit.clock import pass_s, settle

NAME = topic_name("topic://public/default/orders")
SEGMENT = topic_name("segment://public/default/orders/0000-7fff-0")


def run(body: Callable[[Cluster], Coroutine[Any, Any, None]], brokers: int = 1) -> None:
    several.run(body, brokers, network=Network)


class Somebody:
    """A producer of that name, with a connection to every broker it needs."""

    def __init__(self, cluster: Cluster, name: str, mode: int = pb.Exclusive) -> None:
        self.cluster = cluster
        self.name = name
        self.mode = mode
        self.clients: dict[str, Client] = {}

    async def attach(self, segment: int, mode: int | None = None) -> str:
        """ "ready", "waiting" or the error's name."""
        client, fields = await self._way(segment, mode)
        said = await client.ask("PRODUCER", **fields)
        if said.HasField("producer_success"):
            return "ready" if said.producer_success.producer_ready else "waiting"
        return str(pb.ServerError.Name(said.error.error))

    async def leave(self, segment: int) -> None:
        client, fields = await self._way(segment, None)
        await client.ask("CLOSE_PRODUCER", producer_id=fields["producer_id"])

    async def ready(self, segment: int) -> bool:
        client, fields = await self._way(segment, None)
        return fields["producer_id"] in client.connection.producers

    def lose(self) -> None:
        for client in self.clients.values():
            client.lose()
        self.clients.clear()

    async def _way(self, segment: int, mode: int | None) -> tuple[Client, dict[str, Any]]:
        record = await self.cluster.members[0].node.scalable.read(NAME)
        assert record is not None
        topic = record.layout.segment(SegmentId(segment)).topic(NAME)
        owner = await self.cluster.follow(self.cluster.members[0], topic)
        client = self.clients.get(owner.id)
        if client is None:
            client = self.clients[owner.id] = owner.client()
            client.wire.polite = True
        return client, {
            "topic": str(topic),
            "producer_id": segment + 1,
            "producer_name": f"{self.name}-seg-{segment}",
            "producer_access_mode": self.mode if mode is None else mode,
        }


async def topic(cluster: Cluster, segments: int) -> Member:
    member = cluster.members[0]
    await member.node.scalable.create(NAME, segments=segments)
    return member


def test_who_is_exclusive_on_one_segment_is_exclusive_on_all_of_them() -> None:
    async def body(cluster: Cluster) -> None:
        await topic(cluster, 8)
        a, b, c = Somebody(cluster, "a"), Somebody(cluster, "b"), Somebody(cluster, "c", pb.Shared)
        assert await a.attach(0) == "ready"
        assert await b.attach(1) == "ProducerFenced"
        assert await c.attach(2) == "ProducerBusy"
        for segment in range(1, 8):
            assert await a.attach(segment) == "ready"
        for one in (a, b, c):
            one.lose()

    run(body, 2)


def test_a_shared_producer_of_any_segment_keeps_an_exclusive_one_out() -> None:
    async def body(cluster: Cluster) -> None:
        member = await topic(cluster, 2)
        a, c = Somebody(cluster, "a"), Somebody(cluster, "c", pb.Shared)
        assert await c.attach(1) == "ready"
        assert await a.attach(0) == "ProducerFenced"
        record = await member.node.scalable.read(NAME)
        assert record is not None
        assert record.exclusive == ""
        await c.leave(1)
        assert await a.attach(0) == "ready"
        for one in (a, c):
            one.lose()

    run(body)


def test_the_children_of_a_split_go_to_the_holder_and_to_nobody_else_h_e11() -> None:
    async def body(cluster: Cluster) -> None:
        member = await topic(cluster, 1)
        a, b = Somebody(cluster, "a"), Somebody(cluster, "b")
        assert await a.attach(0) == "ready"
        await member.node.scalable.split(NAME, 0)
        assert await b.attach(1) == "ProducerFenced", "the holder is on its way"
        assert await a.attach(2) == "ready"
        assert await b.attach(1) == "ProducerFenced"
        assert await a.attach(1) == "ready"
        for one in (a, b):
            one.lose()

    run(body)


def test_a_holder_that_never_came_back_after_a_split_is_not_waited_for_for_ever() -> None:
    async def body(cluster: Cluster) -> None:
        member = await topic(cluster, 1)
        a, b = Somebody(cluster, "a"), Somebody(cluster, "b")
        assert await a.attach(0) == "ready"
        await member.node.scalable.split(NAME, 0)
        a.lose()
        await pass_s(EXCLUSIVE_RETURN_S + 1)
        assert await b.attach(1) == "ready"
        assert await a.attach(2) == "ProducerFenced"
        for one in (a, b):
            one.lose()

    run(body)


def test_a_holder_that_left_makes_room_for_the_next_and_for_shared_ones() -> None:
    async def body(cluster: Cluster) -> None:
        await topic(cluster, 2)
        a, b, c = Somebody(cluster, "a"), Somebody(cluster, "b"), Somebody(cluster, "c", pb.Shared)
        for segment in (0, 1):
            assert await a.attach(segment) == "ready"
        await a.leave(0)
        assert await b.attach(0) == "ProducerFenced", "it has the other one still"
        await a.leave(1)
        assert await b.attach(0) == "ready"
        b.lose()
        await settle()
        assert await c.attach(1) == "ready"
        assert await a.attach(0, pb.Shared) == "ready", "who was exclusive once may share"
        for one in (a, c):
            one.lose()

    run(body)


def test_who_waits_for_the_topic_gets_it_when_the_last_segment_is_free() -> None:
    async def body(cluster: Cluster) -> None:
        await topic(cluster, 2)
        a, b = Somebody(cluster, "a"), Somebody(cluster, "b", pb.WaitForExclusive)
        for segment in (0, 1):
            assert await a.attach(segment) == "ready"
        assert await b.attach(0) == "waiting"
        await a.leave(0)
        await pass_s(30)
        assert not await b.ready(0), "segment 1 is not free"
        await a.leave(1)
        await pass_s(10)
        assert await b.ready(0)
        assert await b.attach(1) == "ready"
        for one in (a, b):
            one.lose()

    run(body)


def test_who_fences_takes_all_segments_and_the_old_holder_stays_out() -> None:
    async def body(cluster: Cluster) -> None:
        await topic(cluster, 8)
        a, b = Somebody(cluster, "a"), Somebody(cluster, "b", pb.ExclusiveWithFencing)
        for segment in range(8):
            assert await a.attach(segment) == "ready"
        assert await b.attach(3) == "ready"
        await settle()
        closed = [
            said.close_producer.producer_id
            for client in a.clients.values()
            for said, _ in client.heard.heard
            if said.HasField("close_producer")
        ]
        assert sorted(closed) == list(range(1, 9))
        assert await a.attach(5) == "ProducerFenced"
        for one in (a, b):
            one.lose()

    run(body, 2)


def test_a_producer_that_was_let_in_before_another_took_the_topic_is_found_out() -> None:
    """Looking at the record and attaching are two steps: between them another claims the topic."""

    async def body(cluster: Cluster) -> None:
        member = await topic(cluster, 2)
        segment = await member.node.topics.get(SEGMENT, create=True)
        assert isinstance(segment, Topic)
        asked = segment.admission

        async def late(base: str, mode: Mode) -> None:
            await member.node.scalable.hold(NAME, before="", after="a")
            await asked.produced(base, mode)

        segment.admission = replace(asked, produced=late)
        c = Somebody(cluster, "c", pb.Shared)
        assert await c.attach(0) == "ProducerBusy"
        assert len(segment.producers) == 0
        c.lose()

    run(body)


def test_a_claim_that_finds_the_holder_back_gives_it_the_topic_again() -> None:
    """Else the record names nobody, and a shared producer gets a child of the next split."""

    async def body(cluster: Cluster) -> None:
        member = await topic(cluster, 2)
        holder = Somebody(cluster, "p")
        assert await holder.attach(0) == "ready"
        record = await member.node.scalable.hold(NAME, before="p", after="q")  # as one that asked while p was away
        refusal = await member.node.segments.exclusive._taken(NAME, record, "q", Mode.EXCLUSIVE)
        assert refusal is not None
        found = await member.node.scalable.read(NAME)
        assert found is not None
        assert found.exclusive == "p"
        assert await Somebody(cluster, "s", pb.Shared).attach(1) == "ProducerBusy"

    run(body)
