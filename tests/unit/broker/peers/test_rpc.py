"""Calls between brokers over REST: the owner acts, errors come back as they were, silence says what it means."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import httpx2
import msgspec
import pytest

from magnetar.base.errors import (
    Conflict,
    ConnectionLost,
    Fenced,
    MagnetarError,
    NotReady,
    Refused,
    SubscriptionNotFound,
    TimedOut,
    Unknown,
)
from magnetar.base.ids import SegmentId, Term
from magnetar.base.names import topic_name
from magnetar.broker.peers.rpc import PeerReply, PeerRequest, answered
from magnetar.cluster.calls.topic_calls import Create, Flush
from magnetar.cluster.ownership import Candidate
from magnetar.policy.settings import Settings
from magnetar.scalable.record.subscription import Type
from magnetar.topic.topic import Topic
from magnetar.wire.proto import pb
from tests.support import broker_cluster
from tests.support.broker_cluster import NAME, Cluster, Member, Network
from tests.support.scalable_topic import consume, ids, pushes
from tests.support.virtual_clock import settle

PLAIN = Term(0)  # nobody leads a plain topic
SCALABLE = topic_name("topic://public/default/x")


def run(body: Callable[[Cluster, Network], Coroutine[Any, Any, None]]) -> None:
    made: list[Network] = []

    def network(cluster: Cluster) -> Network:
        made.append(Network(cluster))
        return made[0]

    broker_cluster.run(lambda cluster: body(cluster, made[0]), network=network)


def test_what_another_broker_asks_is_done_by_owner() -> None:
    async def body(cluster: Cluster, network: Network) -> None:
        owner, other = await cluster.find()
        asked = other.node.peers.owner(NAME)
        assert (await asked.create("op", PLAIN, ("a", "b"))).cursors == ("a", "b")
        assert owner.loaded()
        assert not other.loaded()
        assert await asked.flush("op", PLAIN, "a") == owner.topic().subscriptions.get("a").cursor.mark  # type: ignore[union-attr]
        assert (await asked.seal("op", PLAIN)).end == owner.topic().managed.last
        assert (await asked.delete("op", PLAIN, force=True)).existed
        assert network.calls == 4

    run(body)


def test_unowned_topic_is_acquired_by_chosen_broker() -> None:
    async def body(cluster: Cluster, network: Network) -> None:
        one, other = cluster.members
        for number in range(100):
            name = topic_name(f"persistent://public/default/t-{number}")
            found = await one.node.ownership.owner(*await one.place(name))
            if isinstance(found, Candidate) and found.broker.id == other.id:
                break
        await one.node.peers.owner(name).create("op", PLAIN)
        assert other.loaded(name)
        assert not one.loaded(name)

    run(body)


def test_error_of_owner_arrives_as_it_was() -> None:
    async def body(cluster: Cluster, network: Network) -> None:
        owner, other = await cluster.find()
        asked = other.node.peers.owner(NAME)
        await asked.create("op", PLAIN)
        with pytest.raises(SubscriptionNotFound):
            await asked.flush("op", PLAIN, "nobody")
        with pytest.raises(Conflict):
            await asked.create("another", PLAIN)
        await owner.node.handlers.handle(NAME, Create(op="op", term=Term(5)))
        with pytest.raises(Fenced, match="term 0 is fenced") as fenced:
            await asked.create("op", PLAIN)
        assert fenced.value.wire_code == 6

    run(body)


@pytest.mark.parametrize(
    ("how", "means"),
    [
        (httpx2.ConnectError("refused"), NotReady),
        (httpx2.ReadTimeout("slow"), TimedOut),
        (httpx2.RemoteProtocolError("cut"), ConnectionLost),
    ],
    ids=["nobody there", "no answer", "broken"],
)
def test_silence_says_whether_it_may_have_happened(how: Exception, means: type[MagnetarError]) -> None:
    async def body(cluster: Cluster, network: Network) -> None:
        _, other = await cluster.find()
        network.fails = how
        with pytest.raises(means):
            await other.node.peers.owner(NAME).create("op", PLAIN)

    run(body)


@pytest.mark.parametrize(
    ("status", "content", "means"),
    [
        (404, b'{"reason": "there is no such path"}', NotReady),  # an older version: nothing happened
        (403, b'{"reason": "who are you"}', NotReady),
        (500, b"", Unknown),
        (200, b'{"error": "NewKind", "what": "of a newer version"}', Unknown),
        (200, b'{"error": "TimedOut", "what": "its own store"}', Unknown),
    ],
)
def test_strange_answers_are_no_answers(status: int, content: bytes, means: type[MagnetarError]) -> None:
    async def body(cluster: Cluster, network: Network) -> None:
        _, other = await cluster.find()
        network.answers = httpx2.Response(status, content=content)
        with pytest.raises(means):
            await other.node.peers.owner(NAME).create("op", PLAIN)

    run(body)


def test_call_at_wrong_broker_has_no_effect() -> None:
    async def body(cluster: Cluster, network: Network) -> None:
        owner, other = await cluster.find()
        await owner.node.peers.owner(NAME).create("op", PLAIN, ("a",))
        for request in (Create(op="op", term=PLAIN), Flush(op="op", term=PLAIN, cursor="a")):
            assert (await answered(other.node, PeerRequest(str(NAME), request))).error == "NotReady"
        assert not other.loaded()
        assert (await answered(owner.node, PeerRequest("bad://x", request))).error == "InvalidName"

    run(body)


def test_what_goes_over_survives_way() -> None:
    call = PeerRequest(str(NAME), Create(op="op", term=PLAIN, cursors=("a",)))
    assert msgspec.json.decode(msgspec.json.encode(call), type=PeerRequest) == call
    reply = PeerReply(error="Refused", what="no", wire=22, http=412)
    assert msgspec.json.decode(msgspec.json.encode(reply), type=PeerReply) == reply
    assert issubclass(Fenced, Refused)


# A scalable topic whose segments are on two brokers


async def owners(cluster: Cluster) -> dict[int, Member]:
    record = await cluster.members[0].node.scalable.read(SCALABLE)
    assert record is not None
    found = {}
    for segment in record.layout.segments:
        found[segment.id] = await cluster.follow(cluster.members[0], segment.topic(SCALABLE))
    return found


def test_topic_over_two_brokers_is_created_reshaped_and_deleted() -> None:
    async def body(cluster: Cluster, network: Network) -> None:
        one, other = cluster.members
        await one.node.scalable.create(SCALABLE, segments=8)
        served = await owners(cluster)
        assert {member.id for member in served.values()} == {one.id, other.id}
        await one.node.scalable.subscribe(SCALABLE, "s", Type.STREAM, earliest=True)
        await one.node.scalable.split(SCALABLE, SegmentId(0))
        await one.node.scalable.merge(SCALABLE, [SegmentId(1), SegmentId(2), SegmentId(3)])
        record = await other.node.scalable.read(SCALABLE)
        assert record is not None
        assert len(record.layout.active) == 7
        for id, member in (await owners(cluster)).items():
            name = record.layout.segment(SegmentId(id)).topic(SCALABLE)
            topic = await member.node.topics.get(name, create=False)
            assert isinstance(topic, Topic)
            assert topic.subscriptions.get("s") is not None
            assert (topic.managed.terminated is None) == record.layout.segment(SegmentId(id)).is_active
        await one.node.scalable.delete(SCALABLE, force=True)
        assert await other.node.scalable.read(SCALABLE) is None
        assert not [path for path, _ in one.below("/managed-ledgers/public/default/segment")]

    run(body)


def test_stream_consumer_learns_children_when_remote_parent_is_drained() -> None:
    async def body(cluster: Cluster, network: Network) -> None:
        one, other = cluster.members
        await one.node.scalable.create(SCALABLE, segments=8)
        far = next(id for id, member in (await owners(cluster)).items() if member is other)
        await one.node.scalable.split(SCALABLE, SegmentId(far))  # the first broker leads from here on
        client = one.client()
        first = await consume(client, "a")
        assert first.error == pb.UnknownError
        await settle()
        newest = ids(pushes(client)[-1].assignment) if pushes(client) else ids(first.assignment)
        assert {8, 9} <= set(newest)  # the parent was empty: it is drained as soon as it is asked

    run(body)


def test_stream_consumer_registers_and_leaves_through_other_broker() -> None:
    async def body(cluster: Cluster, network: Network) -> None:
        leader, other = cluster.members
        await leader.node.scalable.create(SCALABLE, segments=2)
        await leader.node.scalable.controller(SCALABLE).lead()
        far, near = other.client(), leader.client()
        assert ids((await consume(far, "a")).assignment) == [0, 1]
        await consume(near, "b", consumer_id=5)
        await settle()
        assert ids(pushes(far)[-1].assignment) == [0]
        gone = await far.ask("SCALABLE_TOPIC_UNSUBSCRIBE", consumer_id=0)
        assert gone.type == pb.BaseCommand.SUCCESS
        await settle()
        assert ids(pushes(near)[-1].assignment) == [0, 1]
        assert leader.node.scalable.controller(SCALABLE).leading
        for client in (far, near):
            client.lose()

    run(body)


@pytest.mark.setup(network=Network)
async def test_calls_are_made_with_secret_of_cluster(cluster: Cluster) -> None:
    owner, other = await cluster.find()
    asked = other.node.peers.owner(NAME)
    assert (await asked.create("op", PLAIN)).cursors == ()
    owner.node.settings = Settings(None, {"brokerClientAuthenticationParameters": "token:of another cluster"})
    with pytest.raises(NotReady, match="rejected the call: only brokers of this cluster"):
        await asked.create("op", PLAIN)
