"""Who may call as a broker, and what is believed (D2)."""

from __future__ import annotations

import pytest

from magnetar.admin.request import Request as Asked
from magnetar.admin.router import handle
from magnetar.base.errors import Misuse
from magnetar.base.ids import SegmentId, Term
from magnetar.base.names import TopicName, topic_name
from magnetar.base.secret import Secret
from magnetar.broker.peers.authentication import check_secret, is_peer
from magnetar.broker.peers.rpc import PeerRequest, answered
from magnetar.cluster.calls.topic_calls import Create, Delete, Fence, Seal
from magnetar.policy.settings import Settings
from tests.support import broker_cluster
from tests.support.broker_cluster import NAME, Cluster

KEY = "brokerClientAuthenticationParameters"
SCALABLE = topic_name("topic://public/default/x")
HUGE = Term(2**62)


def secret(given: str) -> Settings:
    return Settings(None, {KEY: given})


@pytest.mark.parametrize("given", ["", "token:", "token:short", "token:fifteen letters"])
def test_no_cluster_without_secret(given: str) -> None:
    with pytest.raises(Misuse, match="requires the secret"):
        check_secret(secret(given))
    check_secret(secret("token:" + 16 * "x"))


async def test_only_secret_makes_caller_broker(cluster: Cluster) -> None:
    node = cluster.members[0].node
    right = broker_cluster.SECRET[KEY].removeprefix("token:")
    assert is_peer(node, Secret(f"Bearer {right}"))
    for wrong in ("", "Bearer", "Bearer ", f"Bearer {right}x", f"Basic {right}", right, "Bearer \u00e9"):
        assert not is_peer(node, Secret(wrong)), wrong
    node.served.cluster = False
    assert not is_peer(node, Secret(f"Bearer {right}"))


async def test_caller_without_secret_is_refused_and_changes_nothing(cluster: Cluster) -> None:
    owner, _ = await cluster.find()
    await owner.node.peers.owner(NAME).create("op", Term(0))
    content = b'{"topic":"%s","request":{"type":"Seal","op":"x","term":0}}' % str(NAME).encode()
    headers = {"content-type": "application/json", "authorization": "Bearer of nobody"}
    response = await handle(owner.node, Asked("POST", "/admin/v2/peers", {}, headers, content))
    assert response.status == 401
    assert owner.topic().managed.terminated is None


@pytest.mark.parametrize("kind", [Create, Seal, Delete])
async def test_term_of_plain_topic_is_nothing_but_zero(cluster: Cluster, kind: type[Create | Seal | Delete]) -> None:
    owner, _ = await cluster.find()
    await owner.node.peers.owner(NAME).create("op", Term(0))
    for term in (HUGE, Term(1), Term(-1)):
        said = await answered(owner.node, PeerRequest(str(NAME), kind(op="op", term=term)))
        assert said.error == "Refused", said
    assert owner.topic().managed.terminated is None
    assert (await owner.node.peers.owner(NAME).delete("op", Term(0))).existed


@pytest.mark.setup(network=broker_cluster.Network)
async def test_term_of_segment_is_bounded_by_its_record(cluster: Cluster) -> None:
    leader = cluster.members[0].node
    await leader.scalable.create(SCALABLE, segments=1)
    await leader.scalable.split(SCALABLE, SegmentId(0))
    record = await leader.scalable.read(SCALABLE)
    assert record is not None
    segment: TopicName = record.layout.segment(SegmentId(1)).topic(SCALABLE)
    owner = (await cluster.follow(cluster.members[0], segment)).node
    for term in (HUGE, Term(record.term + 2)):
        for request in (Seal(op="x", term=term), Fence(op="x", term=term, incarnation=record.incarnation)):
            assert (await answered(owner, PeerRequest(str(segment), request))).error == "Refused"
    assert not (await answered(owner, PeerRequest(str(segment), Fence(op="x", term=record.term, incarnation=1)))).error
    await leader.scalable.split(SCALABLE, SegmentId(1))
    await leader.scalable.delete(SCALABLE, force=True)
