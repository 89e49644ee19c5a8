"""REST requests that concern several brokers: the same answer from each of three brokers, the effect at each owner."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

import httpx2
import msgspec
import pytest

from magnetar.admin.request import Request, Response, whole
from magnetar.admin.router import handle
from magnetar.base.names import TopicName, topic_name
from magnetar.broker.peers.rpc import PATH, PeerRequest
from magnetar.cluster.calls.broker_calls import AdminCall
from magnetar.wire.proto import pb
from tests.support.broker_cluster import SECRET, Cluster, Member, Network
from tests.support.virtual_clock import pass_s, settle

pytestmark = pytest.mark.setup(3, network=Network)

PARTS = 12
PATH_OF = "/admin/v2/persistent/public/default"
ONE = f"{PATH_OF}/orders"
LOOSE = "/admin/v2/non-persistent/public/default"
NAMESPACE = "/admin/v2/namespaces/public/default"
NAME = topic_name("persistent://public/default/orders")


async def ask(member: Member, method: str, path: str, body: Any = None) -> Response:
    plain, _, query = path.partition("?")
    data = b"" if body is None else msgspec.json.encode(body)
    return await handle(
        member.node, Request(method, plain, dict(parse_qsl(query)), {"content-type": "application/json"}, data)
    )


async def said(member: Member, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    answer = await ask(member, method, path, body)
    content = await whole(answer)
    return answer.status, msgspec.json.decode(content) if content else None


@dataclass
class Parts:
    """A partitioned topic whose partitions are owned by all brokers, with two messages and a subscription in each."""

    cluster: Cluster
    owners: dict[TopicName, Member]

    def topic(self, part: TopicName) -> Any:
        return self.owners[part].topic(part)

    def cursors(self) -> list[Any]:
        return [self.topic(part).subscriptions.get("s").cursor for part in self.owners]

    def backlogs(self) -> list[int]:
        return [cursor.backlog for cursor in self.cursors()]


async def partitioned(cluster: Cluster) -> Parts:
    first = cluster.members[0]
    assert (await ask(first, "PUT", f"{ONE}/partitions", PARTS)).status == 204
    owners: dict[TopicName, Member] = {}
    for index in range(PARTS):
        part = NAME.partition(index)
        owner = owners[part] = await cluster.follow(cluster.members[index % 3], part)
        client = owner.client()
        await client.produce(topic=str(part))
        client.send(0)
        await settle()
        client.send(1)
        await settle()
        client.lose()
        assert (await ask(owner, "PUT", f"{PATH_OF}/{part.local_name}/subscription/s", "earliest")).status == 204
    assert len({owner.id for owner in owners.values()}) == 3
    return Parts(cluster, owners)


# Each route from each broker

Check = Callable[[Parts, Any], Awaitable[None]]


async def _two_of_each(parts: Parts, document: Any) -> None:
    assert document["msgInCounter"] == 2 * PARTS
    assert sorted(document["partitions"]) == sorted(str(part) for part in parts.owners)
    for part, owner in parts.owners.items():
        assert document["partitions"][str(part)]["ownerBroker"] == owner.id


async def _entries_of_each(parts: Parts, document: Any) -> None:
    assert [document["partitions"][str(part)]["numberOfEntries"] for part in parts.owners] == [2] * PARTS


async def _only_s(parts: Parts, document: Any) -> None:
    assert document == ["s"]


async def _unloaded(parts: Parts, document: Any) -> None:
    assert not any(owner.loaded(part) for part, owner in parts.owners.items())


async def _terminated(parts: Parts, document: Any) -> None:
    assert sorted(document, key=int) == [str(index) for index in range(PARTS)]
    for index, part in enumerate(parts.owners):
        end = parts.topic(part).managed.terminated
        assert document[str(index)]["ledgerId"] == end.ledger
        assert document[str(index)]["entryId"] == end.entry


async def _created(parts: Parts, document: Any) -> None:
    assert all(parts.topic(part).subscriptions.get("t") is not None for part in parts.owners)


async def _removed(parts: Parts, document: Any) -> None:
    assert all(parts.topic(part).subscriptions.get("s") is None for part in parts.owners)


async def _cleared(parts: Parts, document: Any) -> None:
    assert parts.backlogs() == [0] * PARTS


async def _full(parts: Parts, document: Any) -> None:
    assert parts.backlogs() == [2] * PARTS


async def _owned_by(parts: Parts, document: Any) -> None:
    assert [dict(cursor.properties)["owner"] for cursor in parts.cursors()] == ["x"] * PARTS


async def _no_bundles(parts: Parts, document: Any) -> None:
    held = [member.node.ownership.held() for member in parts.cluster.members]
    assert [place for places in held for place in places if str(place[0]) == "public/default"] == []


@pytest.mark.parametrize("asked", range(3))
@pytest.mark.parametrize(
    ("method", "path", "body", "status", "check"),
    [
        ("GET", f"{ONE}/partitioned-stats", None, 200, _two_of_each),
        ("GET", f"{ONE}/partitioned-internalStats", None, 200, _entries_of_each),
        ("GET", f"{ONE}/subscriptions", None, 200, _only_s),
        ("PUT", f"{ONE}/unload", None, 204, _unloaded),
        ("POST", f"{ONE}/terminate/partitions", None, 200, _terminated),
        ("PUT", f"{ONE}/subscription/t", "latest", 204, _created),
        ("DELETE", f"{ONE}/subscription/s", None, 204, _removed),
        ("POST", f"{ONE}/subscription/s/skip_all", None, 204, _cleared),
        ("POST", f"{ONE}/subscription/s/resetcursor/0", None, 204, _full),
        ("POST", f"{ONE}/subscription/s/expireMessages/1", None, 204, _cleared),
        ("POST", f"{ONE}/all_subscription/expireMessages/1", None, 204, _cleared),
        ("PUT", f"{ONE}/subscription/s/properties", {"owner": "x"}, 204, _owned_by),
        ("PUT", f"{NAMESPACE}/unload", None, 204, _no_bundles),
    ],
    ids=lambda each: each.rpartition("default")[2] if isinstance(each, str) and each.startswith("/") else "",
)
async def test_each_broker_does_whole_request(
    cluster: Cluster, asked: int, method: str, path: str, body: Any, status: int, check: Check
) -> None:
    parts = await partitioned(cluster)
    await pass_s(5)
    found, document = await said(cluster.members[asked], method, path, body)
    assert found == status, document
    await check(parts, document)


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", f"{ONE}/subscription/none/properties", None, 404),
        ("POST", f"{ONE}/subscription/none/skip_all", None, 404),
        ("DELETE", f"{ONE}/subscription/none", None, 404),
        ("PUT", f"{ONE}/subscription/s", None, 409),
        ("GET", f"{PATH_OF}/none/partitioned-stats", None, 404),
    ],
)
async def test_each_broker_refuses_with_same_words(
    cluster: Cluster, method: str, path: str, body: Any, status: int
) -> None:
    await partitioned(cluster)
    answers = [await said(member, method, path, body) for member in cluster.members]
    assert answers[0][0] == status
    assert answers == [answers[0]] * 3


async def test_subscription_missing_on_one_partition_moves_none(cluster: Cluster) -> None:
    parts = await partitioned(cluster)
    last = NAME.partition(PARTS - 1)
    assert (await ask(parts.owners[last], "DELETE", f"{PATH_OF}/{last.local_name}/subscription/s")).status == 204
    for member in cluster.members:
        assert (await ask(member, "POST", f"{ONE}/subscription/s/skip_all")).status == 404
    assert [parts.topic(part).subscriptions.get("s").cursor.backlog for part in list(parts.owners)[:-1]] == [2] * 11


# A broker that does not answer


@pytest.mark.parametrize(
    ("fault", "status", "outcome"),
    [
        (httpx2.ConnectError("refused"), 503, b"nothing happened there"),
        (httpx2.ReadError("reset"), 503, b"the operation may have happened there"),
        (httpx2.ReadTimeout("slow"), 504, b"the operation may have happened there"),
    ],
)
async def test_error_names_broker_that_did_not_answer(
    cluster: Cluster, fault: Exception, status: int, outcome: bytes
) -> None:
    parts = await partitioned(cluster)
    asked = cluster.members[0]
    network: Any = cluster.network
    network.fails = fault
    answer = await ask(asked, "POST", f"{ONE}/subscription/s/skip_all")
    content = await whole(answer)
    assert answer.status == status
    others = [owner.id for owner in parts.owners.values() if owner is not asked]
    assert others[0].encode() in content
    assert outcome in content


async def test_each_part_is_tried_although_another_one_failed(cluster: Cluster) -> None:
    parts = await partitioned(cluster)
    asked = cluster.members[0]
    network: Any = cluster.network
    network.fails = httpx2.ConnectError("refused")
    answer = await ask(asked, "PUT", f"{ONE}/unload")
    assert answer.status == 503
    mine = [part for part, owner in parts.owners.items() if owner is asked]
    assert f"{PARTS - len(mine)} of {PARTS} parts failed".encode() in await whole(answer)
    assert not any(asked.loaded(part) for part in mine)


async def test_calls_and_redirects_are_counted_by_outcome(cluster: Cluster) -> None:
    await partitioned(cluster)
    asked = cluster.members[0]
    before = series(asked)
    await ask(asked, "GET", f"{ONE}/partitioned-stats")
    await ask(asked, "POST", f"{ONE}/subscription/none/skip_all")
    elsewhere = await cluster.follow(asked)
    other = next(member for member in cluster.members if member is not elsewhere)
    redirects = series(other)["magnetar_redirects_total"]
    assert (await ask(other, "GET", f"{PATH_OF}/orders/stats")).status == 307
    assert series(other)["magnetar_redirects_total"] == redirects + 1
    network: Any = cluster.network
    network.fails = httpx2.ConnectError("refused")
    await ask(asked, "GET", f"{ONE}/partitioned-stats")
    network.fails = httpx2.ReadTimeout("slow")
    await ask(asked, "GET", f"{ONE}/partitioned-stats")
    after = series(asked)
    for outcome in ("answered", "refused", "not_ready", "unknown"):
        name = f"magnetar_peer_calls_total{outcome}"
        assert after[name] > before[name], outcome


def series(member: Member) -> dict[str, float]:
    text = member.node.registry.text()
    lines = [line for line in text.splitlines() if line.startswith(("magnetar_redirects", "magnetar_peer_calls"))]
    found = {}
    for line in lines:
        name, _, rest = line.partition("{")
        outcome = rest.partition('outcome="')[2].partition('"')[0]
        found[name + outcome] = float(line.rpartition(" ")[2])
    return found


# Calls as they arrive


def forwarded(call: AdminCall, **headers: str) -> Request:
    body = msgspec.json.encode(PeerRequest("", call))
    return Request("POST", PATH, {}, {"content-type": "application/json", **headers}, body)


SECRET_HEADER = "Bearer " + next(iter(SECRET.values())).removeprefix("token:")


async def reply(member: Member, call: AdminCall) -> dict[str, Any]:
    answer = await handle(member.node, forwarded(call, authorization=SECRET_HEADER))
    assert answer.status == 200
    document: dict[str, Any] = msgspec.json.decode(await whole(answer))
    return document


async def test_forwarded_request_is_answered_alone(cluster: Cluster) -> None:
    parts = await partitioned(cluster)
    network: Any = cluster.network
    calls = network.calls
    asked = cluster.members[0]
    elsewhere = next(part for part, owner in parts.owners.items() if owner is not asked)
    told = await reply(asked, AdminCall(method="PUT", path=f"{PATH_OF}/{elsewhere.local_name}/unload"))
    assert told["error"] == "NotReady"
    told = await reply(asked, AdminCall(method="GET", path=f"{ONE}/partitioned-stats"))
    assert told["error"] == "NotReady"
    told = await reply(asked, AdminCall(method="PUT", path=f"{NAMESPACE}/unload"))
    assert "error" not in told
    assert network.calls == calls


async def test_forwarded_request_for_peers_route_is_not_found(cluster: Cluster) -> None:
    for path in (PATH, "/admin/v2/none", "/admin/v2/brokers/%zz/x"):
        assert (await reply(cluster.members[0], AdminCall(method="POST", path=path)))["error"] == "NotFound"


async def test_call_without_secret_is_refused(cluster: Cluster) -> None:
    call = forwarded(AdminCall(method="PUT", path=f"{NAMESPACE}/unload"))
    assert (await handle(cluster.members[0].node, call)).status == 401


async def test_body_over_limit_is_refused(cluster: Cluster) -> None:
    call = AdminCall(method="PUT", path=f"{ONE}/subscription/s", body=b" " * (1024 * 1024 + 1))
    assert (await reply(cluster.members[0], call))["http"] == 413


class NotThem:
    """An access control that knows one role, which may do nothing else than read."""

    def authenticate(self, method: str, data: bytes) -> str | None:
        return data.decode() or None

    def allowed(self, principal: str | None, action: str, resource: str) -> bool:
        return principal == "admin" or (principal == "reader" and action == "read")


async def test_owner_checks_permission_of_first_caller(cluster: Cluster) -> None:
    asked = cluster.members[0]
    for member in cluster.members:
        member.node.access = NotThem()  # type: ignore[assignment]
    path = f"{ONE}/unload"
    assert (await reply(asked, AdminCall(method="PUT", path=path, principal="reader")))["error"] == "NotAuthorized"
    assert (await reply(asked, AdminCall(method="PUT", path=path)))["error"] == "NotAuthorized"
    assert (await reply(asked, AdminCall(method="PUT", path=path, principal="admin")))["error"] != "NotAuthorized"


# Topics and brokers


async def loose_topics(cluster: Cluster) -> list[str]:
    names = []
    for number in range(12):
        name = topic_name(f"non-persistent://public/default/n-{number:02}")
        owner = await cluster.follow(cluster.members[0], name)
        await owner.client().produce(topic=str(name))
        names.append(str(name))
    assert len({id(member) for member in cluster.members if member.node.topics.loaded}) == 3
    return names


async def test_each_broker_lists_non_persistent_topics_of_all(cluster: Cluster) -> None:
    names = await loose_topics(cluster)
    for member in cluster.members:
        assert await said(member, "GET", LOOSE) == (200, names)
        assert await said(member, "GET", f"{LOOSE}?limit=3&after={names[4]}") == (200, names[5:8])
        assert (await said(member, "GET", f"{NAMESPACE}/topics?mode=ALL"))[1][-12:] == names
        told = await member.client().ask(
            "GET_TOPICS_OF_NAMESPACE",
            namespace="public/default",
            mode=pb.CommandGetTopicsOfNamespace.NON_PERSISTENT,
        )
        assert list(told.getTopicsOfNamespaceResponse.topics) == names


async def test_list_names_broker_that_did_not_answer(cluster: Cluster) -> None:
    await loose_topics(cluster)
    network: Any = cluster.network
    network.fails = httpx2.ConnectError("refused")
    answer = await ask(cluster.members[0], "GET", LOOSE)
    assert answer.status == 503
    assert cluster.members[1].id.encode() in await whole(answer)


@pytest.mark.setup(3, network=Network, forceDeleteNamespaceAllowed="true")
async def test_forced_deletion_removes_non_persistent_topics_of_all(cluster: Cluster) -> None:
    await loose_topics(cluster)
    assert (await ask(cluster.members[1], "DELETE", f"{NAMESPACE}?force=true")).status == 204
    await settle()
    assert [len(member.node.topics.loaded) for member in cluster.members] == [0, 0, 0]


async def test_each_broker_shows_bundles_and_health_of_each_other(cluster: Cluster) -> None:
    await partitioned(cluster)
    for shown in cluster.members:
        path = f"/admin/v2/brokers/standalone/{shown.id}/ownedNamespaces"
        answers = [await said(member, "GET", path) for member in cluster.members]
        assert sorted(answers[0][1]) == sorted(f"{place[0]}/{place[1]}" for place in shown.node.ownership.held())
        assert answers == [answers[0]] * 3
    shown.node.ready = False
    for member in cluster.members:
        healths = [
            (await ask(member, "GET", f"/admin/v2/brokers/health?brokerId={one.id}")).status for one in cluster.members
        ]
        assert healths == [200, 200, 503]
        assert (await said(member, "GET", "/admin/v2/brokers/standalone/none:1/ownedNamespaces"))[0] == 404


async def test_each_broker_has_statistics_of_its_own_topics(cluster: Cluster) -> None:
    parts = await partitioned(cluster)
    for member in cluster.members:
        mine = sorted(str(part) for part, owner in parts.owners.items() if owner is member)
        _, document = await said(member, "GET", "/admin/v2/broker-stats/topics")
        bundles = document["public/default"].values()
        assert sorted(name for domains in bundles for name in domains["persistent"]) == mine
        _, report = await said(member, "GET", "/admin/v2/broker-stats/load-report")
        assert (report["brokerId"], report["numTopics"]) == (member.id, len(mine))


async def leaders(members: list[Member]) -> set[str]:
    found = [await said(member, "GET", "/admin/v2/brokers/leaderBroker") for member in members]
    assert [status for status, _ in found] == [200] * len(members)
    return {document["brokerId"] for _, document in found}


async def test_each_broker_names_one_leader_over_expired_session(cluster: Cluster) -> None:
    first, *others = cluster.members
    assert await leaders(cluster.members) == {first.id}
    first.metadata.lose_session(server_side=True)
    await settle()
    [second] = await leaders(others)
    assert second != first.id
    assert (await said(first, "GET", "/admin/v2/brokers/leaderBroker"))[0] == 503  # it may not lead any more
    first.metadata.regain_session()
    await settle()
    assert await leaders(cluster.members) == {second}


async def test_leader_that_leaves_is_followed_by_another_one(cluster: Cluster) -> None:
    leader, *others = cluster.members
    await leader.stop()
    await settle()
    [after] = await leaders(others)
    assert after != leader.id


async def test_unload_skips_partitions_that_are_not_loaded(cluster: Cluster) -> None:
    topic = "/admin/v2/non-persistent/public/default/parts"
    assert (await ask(cluster.members[0], "PUT", f"{topic}/partitions", 6)).status == 204
    for member in (*cluster.members, cluster.members[0]):
        assert (await ask(member, "PUT", f"{topic}/unload")).status == 204


async def test_head_of_forwarded_request_has_status_of_get(cluster: Cluster) -> None:
    await partitioned(cluster)
    for member in cluster.members:
        for shown in cluster.members:
            path = f"/admin/v2/brokers/health?brokerId={shown.id}"
            assert (await ask(member, "HEAD", path)).status == (await ask(member, "GET", path)).status == 200
