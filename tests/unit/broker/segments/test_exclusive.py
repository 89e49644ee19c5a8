"""Exclusive producers of a scalable topic: one for all its segments, through splits, departures and fencing (H-E11)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from magnetar.base.ids import SegmentId
from magnetar.base.limits import EXCLUSIVE_RETURN_S
from magnetar.base.names import topic_name
from magnetar.topic.producers.access import Mode
from magnetar.topic.topic import Topic
from magnetar.wire.proto import pb
from tests.support.broker_cluster import Cluster, Member, Network
from tests.support.virtual_clock import pass_s, settle
from tests.unit.broker.world import Client

NAME = topic_name("topic://public/default/orders")
SEGMENT = topic_name("segment://public/default/orders/0000-7fff-0")


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


@pytest.mark.setup(2, network=Network)
async def test_exclusive_producer_of_segment_is_exclusive_on_topic(cluster: Cluster) -> None:
    await topic(cluster, 8)
    a, b, c = Somebody(cluster, "a"), Somebody(cluster, "b"), Somebody(cluster, "c", pb.Shared)
    assert await a.attach(0) == "ready"
    assert await b.attach(1) == "ProducerFenced"
    assert await c.attach(2) == "ProducerBusy"
    for segment in range(1, 8):
        assert await a.attach(segment) == "ready"
    for one in (a, b, c):
        one.lose()


@pytest.mark.setup(1, network=Network)
async def test_shared_producer_of_any_segment_keeps_exclusive_one_out(cluster: Cluster) -> None:
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


@pytest.mark.setup(1, network=Network)
async def test_children_of_split_belong_to_exclusive_holder_h_e11(cluster: Cluster) -> None:
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


@pytest.mark.setup(1, network=Network)
async def test_holder_absent_after_split_is_not_awaited_without_bound(cluster: Cluster) -> None:
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


@pytest.mark.setup(1, network=Network)
async def test_leaving_holder_makes_room_for_next_and_shared_producers(cluster: Cluster) -> None:
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


@pytest.mark.setup(1, network=Network)
async def test_waiting_producer_gets_topic_when_last_segment_is_free(cluster: Cluster) -> None:
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


@pytest.mark.setup(2, network=Network)
async def test_who_fences_takes_all_segments_and_old_holder_stays_out(cluster: Cluster) -> None:
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


@pytest.mark.setup(1, network=Network)
async def test_producer_admitted_before_exclusive_holder_is_detected(cluster: Cluster) -> None:
    """Looking at the record and attaching are two steps: between them another claims the topic."""

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


@pytest.mark.setup(1, network=Network)
async def test_claim_that_finds_holder_back_gives_it_topic_again(cluster: Cluster) -> None:
    """Else the record names nobody, and a shared producer gets a child of the next split."""

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


class Unnamed:
    """A connection of a Java V5 client: its producers of segments are sent without a name."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.client = member.client()
        self.client.wire.polite = True

    async def attach(self, producer_id: int, segment: int, mode: int = pb.Exclusive, name: str = "") -> tuple[str, str]:
        """ "ready", "waiting" or the error's name, and the name that the broker gave."""
        record = await self.member.node.scalable.read(NAME)
        assert record is not None
        fields = {"producer_name": name} if name else {}
        said = await self.client.ask(
            "PRODUCER",
            topic=str(record.layout.segment(SegmentId(segment)).topic(NAME)),
            producer_id=producer_id,
            producer_access_mode=mode,
            user_provided_producer_name=False,
            **fields,
        )
        if said.HasField("producer_success"):
            answer = said.producer_success
            return "ready" if answer.producer_ready else "waiting", answer.producer_name
        return str(pb.ServerError.Name(said.error.error)), ""


@pytest.mark.parametrize("mode", [pb.Exclusive, pb.WaitForExclusive, pb.ExclusiveWithFencing])
@pytest.mark.setup(1, network=Network)
async def test_unnamed_exclusive_producer_holds_all_segments_and_their_children(cluster: Cluster, mode: int) -> None:
    member = await topic(cluster, 2)
    one = Unnamed(member)
    answers = [await one.attach(1, 0, mode), await one.attach(2, 1, mode)]
    await member.node.scalable.split(NAME, 0)
    answers += [await one.attach(3, 2, mode), await one.attach(4, 3, mode)]
    assert [answer for answer, _ in answers] == ["ready"] * 4
    assert len({name for _, name in answers}) == 1
    one.client.lose()


@pytest.mark.setup(1, network=Network)
async def test_unnamed_exclusive_producer_keeps_its_name_on_another_connection(cluster: Cluster) -> None:
    member = await topic(cluster, 2)
    old, new = Unnamed(member), Unnamed(member)
    _, name = await old.attach(1, 0)
    await old.attach(2, 1)
    old.client.lose()
    await settle()
    assert await new.attach(1, 0, name=name) == ("ready", name)
    assert await new.attach(2, 1, name=name) == ("ready", name)
    await member.node.scalable.split(NAME, 0)
    assert await new.attach(3, 2) == ("ready", name)
    new.client.lose()


@pytest.mark.setup(1, network=Network)
async def test_second_unnamed_exclusive_producer_of_connection_is_fenced(cluster: Cluster) -> None:
    member = await topic(cluster, 2)
    one = Unnamed(member)
    await one.attach(1, 0)
    await one.attach(2, 1)
    assert (await one.attach(3, 0))[0] == "ProducerFenced"
    assert (await Unnamed(member).attach(1, 1))[0] == "ProducerFenced"
    one.client.lose()


@pytest.mark.setup(1, network=Network)
async def test_second_unnamed_producer_that_waits_gets_one_name(cluster: Cluster) -> None:
    member = await topic(cluster, 2)
    one = Unnamed(member)
    _, first = await one.attach(1, 0)
    await one.attach(2, 1)
    waits = [await one.attach(3, 0, pb.WaitForExclusive), await one.attach(4, 1, pb.WaitForExclusive)]
    assert [answer for answer, _ in waits] == ["waiting", "waiting"]
    for producer in (1, 2):
        await one.client.ask("CLOSE_PRODUCER", producer_id=producer)
    await pass_s(10)
    granted = [one.client.connection.producers[producer] for producer in (3, 4)]
    assert granted[0].name == granted[1].name != first
    one.client.lose()


@pytest.mark.setup(1, network=Network)
async def test_unnamed_shared_producers_of_segment_get_different_names(cluster: Cluster) -> None:
    one = Unnamed(await topic(cluster, 1))
    answers = [await one.attach(1, 0, pb.Shared), await one.attach(2, 0, pb.Shared)]
    assert [answer for answer, _ in answers] == ["ready", "ready"]
    assert len({name for _, name in answers}) == 2
    one.client.lose()
