"""REST where several brokers share the stores: asked anywhere, done by the owner, or said why not."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

import msgspec
import pytest

from magnetar.admin.request import Request, Response, whole
from magnetar.admin.router import handle
from magnetar.cluster.rendezvous import choose
from tests.support.broker_cluster import Cluster, Member, Network
from tests.support.virtual_clock import settle

TOPIC = "/admin/v2/persistent/public/default/orders"
LOOKUP = "/lookup/v2/topic/persistent/public/default/orders"
NAMESPACE = "/admin/v2/namespaces/public/default"


async def ask(member: Member, method: str, path: str, body: Any = None) -> Response:
    plain, _, query = path.partition("?")
    data = b"" if body is None else msgspec.json.encode(body)
    asked = Request(method, plain, dict(parse_qsl(query)), {"content-type": "application/json"}, data)
    return await handle(member.node, asked)


async def shown(member: Member, path: str) -> Any:
    answer = await ask(member, "GET", path)
    assert answer.status == 200, answer
    return msgspec.json.decode(await whole(answer))


async def test_lookup_names_owner_whoever_is_asked(cluster: Cluster) -> None:
    owner, other = await cluster.find()
    found = [await shown(member, LOOKUP) for member in (owner, other)]
    assert found[0] == found[1]
    assert (found[0]["brokerId"], found[0]["brokerUrl"]) == (owner.id, owner.url)
    assert found[0]["httpUrl"] == owner.node.addresses.http_url


async def test_lookup_of_unowned_bundle_redirects_with_authority(cluster: Cluster) -> None:
    chosen = choose(await cluster.members[0].lock_path(), [member.id for member in cluster.members])
    other = next(member for member in cluster.members if member.id != chosen)
    answer = await ask(other, "GET", f"{LOOKUP}?listenerName=")
    assert answer.status == 307
    assert answer.headers["location"] == f"http://{chosen}{LOOKUP}?authoritative=true"
    found = await shown(other, f"{LOOKUP}?authoritative=true")
    assert found["brokerId"] == other.id


async def test_what_only_owner_can_do_is_asked_there(cluster: Cluster) -> None:
    owner, other = await cluster.find()
    assert (await ask(owner, "PUT", TOPIC)).status == 204
    web = owner.node.addresses.http_url
    for method, tail in (("GET", "/stats"), ("PUT", "/unload"), ("POST", "/terminate"), ("DELETE", "")):
        answer = await ask(other, method, f"{TOPIC}{tail}?force=true")
        assert answer.status == 307, (method, tail, answer)
        assert answer.headers["location"] == f"{web}{TOPIC}{tail}?force=true"
    assert (await ask(owner, "POST", f"{TOPIC}/terminate")).status == 200
    assert (await ask(owner, "DELETE", f"{TOPIC}?force=true")).status == 204
    assert (await ask(owner, "DELETE", TOPIC)).status == 404


@pytest.mark.setup(network=Network)
async def test_change_of_scalable_topic_is_redirected_to_leader(cluster: Cluster) -> None:
    one, other = cluster.members
    path = "/admin/v2/scalable/public/default/x"
    assert (await ask(one, "PUT", path)).status == 204
    assert (await ask(one, "POST", f"{path}/split/0")).status == 204
    for method, tail in (("POST", "/split/1"), ("POST", "/merge/1/2"), ("DELETE", "")):
        answer = await ask(other, method, f"{path}{tail}?reason=x")
        assert answer.status == 307, (method, tail, answer)
        assert answer.headers["location"] == f"{one.node.addresses.http_url}{path}{tail}?reason=x"
    assert (await ask(other, "GET", path)).status == 200  # reading needs no leader
    assert (await ask(other, "PUT", f"{path}/subscriptions/s")).status == 204


async def test_bundle_is_unloaded_by_owner_and_lock_released(cluster: Cluster) -> None:
    owner, other = await cluster.find()
    client = owner.client()
    await client.produce()
    bundle = str((await owner.place())[1])
    answer = await ask(other, "PUT", f"{NAMESPACE}/{bundle}/unload")
    assert answer.status == 307
    assert answer.headers["location"] == f"{owner.node.addresses.http_url}{NAMESPACE}/{bundle}/unload"
    assert (await ask(owner, "PUT", f"{NAMESPACE}/{bundle}/unload")).status == 204
    await settle()
    assert "CLOSE_PRODUCER" in client.heard.kinds
    assert owner.node.ownership.held() == []
    assert (await ask(other, "PUT", f"{NAMESPACE}/{bundle}/unload")).status == 204  # nobody has it: nothing to do
    assert await other.node.ownership.known(*await owner.place()) is None


async def test_every_broker_knows_all_and_shows_what_it_owns(cluster: Cluster) -> None:
    owner, other = await cluster.find()
    ids = sorted(member.id for member in cluster.members)
    assert await shown(other, "/admin/v2/brokers") == ids
    namespace, bundle = await owner.place()
    path = f"/admin/v2/brokers/standalone/{owner.id}/ownedNamespaces"
    assert list(await shown(owner, path)) == [f"{namespace}/{bundle}"]
