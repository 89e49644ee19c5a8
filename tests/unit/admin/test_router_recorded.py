"""Every recorded call of a real Pulsar, in its order, against our routes: the same statuses, the same documents.

Where we answer otherwise it is one of three: the feature is not built (501), Pulsar broke (5xx where the caller is at
fault is a 4xx here), or the case stands below with its reason.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from magnetar.base.names import namespace_name
from magnetar.policy.policies import Policies
from tests.unit.admin.world import Answer, Exchange, World, a_world, like, recorded, run

Hook = Callable[[World], Awaitable[None]]

CLUSTER = [("PUT", "/admin/v2/clusters/other", {"serviceUrl": "http://other:8080"})]
TENANT = [*CLUSTER, ("PUT", "/admin/v2/tenants/acme", {"allowedClusters": ["standalone"]})]
SHOP = [*TENANT, ("PUT", "/admin/v2/namespaces/acme/shop", None)]
STRICT = {
    "autoTopicCreationOverride": {"allowAutoTopicCreation": False},
    "autoSubscriptionCreationOverride": {"allowAutoSubscriptionCreation": False},
}
BEFORE: dict[str, list[tuple[str, str, Any]]] = {
    "tenants": CLUSTER,
    "clusters": [],
    "brokers": [],
    "namespaces": TENANT,
    "namespaces-policies": [*SHOP, ("PUT", "/admin/v2/namespaces/acme/orders", None)],
    "lookup": [*SHOP, ("PUT", "/admin/v2/persistent/acme/shop/orders", None)],
    "topics-lifecycle": SHOP,
    "topics-subscriptions": SHOP,
    "topics-messages": SHOP,
    "missing-topics": [
        *TENANT,
        ("PUT", "/admin/v2/namespaces/acme/loose", None),
        ("PUT", "/admin/v2/namespaces/acme/strict", STRICT),
        ("PUT", "/admin/v2/persistent/acme/loose/here", None),
        ("PUT", "/admin/v2/persistent/acme/strict/here", None),
    ],
    "schemas": SHOP,
    "non-persistent": SHOP,
    "scalable": [
        *TENANT,
        ("PUT", "/admin/v2/namespaces/acme/scale", None),
        ("PUT", "/admin/v2/persistent/acme/scale/clash", None),
        ("PUT", "/admin/v2/persistent/acme/scale/plain", None),
        ("PUT", "/admin/v2/persistent/acme/scale/parted/partitions", 3),
    ],
    "segments": [
        *TENANT,
        ("PUT", "/admin/v2/namespaces/acme/scale", None),
        ("PUT", "/admin/v2/scalable/acme/scale/st", None),
        ("PUT", "/admin/v2/scalable/acme/scale/big?numInitialSegments=4", None),
    ],
    "errors": [
        *SHOP,
        ("PUT", "/admin/v2/tenants/t3", {"allowedClusters": ["standalone"]}),
        ("PUT", "/admin/v2/persistent/acme/shop/orders", None),
    ],
}

# What happened between two recorded calls, by file, call and how often that call was made before.
ORDER_SCHEMA = {"type": "JSON", "schema": '{"type": "record", "name": "Order", "fields": []}', "properties": {}}


def call(method: str, path: str, document: Any = None) -> Hook:
    async def hook(world: World) -> None:
        await world.do(method, path, document)

    return hook


def three_messages(topic: str) -> Hook:
    async def hook(world: World) -> None:
        await world.publish(f"persistent://acme/shop/{topic}", b"1", b"2", b"3")

    return hook


async def orders(world: World) -> None:
    """Thirty single messages, then two batches of ten, as when it was recorded."""
    topic = "persistent://acme/shop/orders"
    await world.publish(topic, *[b'{"id": %d}' % n for n in range(30)], partition_key="k0", event_time=1)
    for _ in range(2):
        await world.publish_batch(topic, *[b"%d" % n for n in range(10)], compression=1)


async def orders_and_parts(world: World) -> None:
    await orders(world)
    await world.do("PUT", "/admin/v2/persistent/acme/shop/parts/partitions", 2)
    await world.do("PUT", "/admin/v2/persistent/acme/shop/parts/subscription/ps")
    await world.do("PUT", "/admin/v2/persistent/acme/shop/plain")


async def orders_to_peek(world: World) -> None:
    await orders_and_parts(world)
    await world.do("PUT", "/admin/v2/persistent/acme/shop/orders/subscription/fromstart", "earliest")
    await world.do("PUT", "/admin/v2/persistent/acme/shop/orders/subscription/peekmiss", "earliest")


async def time_passes(world: World) -> None:
    world.runtime.later_s += 60


async def many(world: World) -> None:
    """The recorded document itself, as a broker that obeys all of it left it in the store."""
    [shown] = [one.document for one in recorded("namespaces-policies") if one.path == "/admin/v2/namespaces/acme/many"]
    await world.node.namespaces.create(namespace_name("acme/many"), Policies.of(shown))


FROMSTART = "/admin/v2/persistent/acme/shop/orders/subscription/fromstart"
BETWEEN: dict[tuple[str, str, int], Hook] = {
    ("tenants", "DELETE /admin/v2/tenants/t2", 0): call("PUT", "/admin/v2/namespaces/t2/ns"),
    ("tenants", "DELETE /admin/v2/tenants/t2", 1): call("DELETE", "/admin/v2/namespaces/t2/ns"),
    ("namespaces", "PUT /admin/v2/namespaces/acme/b2", 0): call("PUT", "/admin/v2/namespaces/acme/full"),
    ("namespaces", "GET /admin/v2/namespaces/acme", 0): call("GET", "/admin/v2/tenants"),
    ("namespaces", "DELETE /admin/v2/namespaces/acme/full", 0): call("PUT", "/admin/v2/persistent/acme/full/t"),
    ("namespaces", "DELETE /admin/v2/namespaces/acme/full", 1): call("DELETE", "/admin/v2/persistent/acme/full/t"),
    ("namespaces-policies", "GET /admin/v2/namespaces/acme/many", 0): many,
    ("topics-lifecycle", "PUT /admin/v2/persistent/acme/shop/a:b@c", 0): call(
        "DELETE", "/admin/v2/persistent/acme/shop/__change_events"
    ),
    ("topics-lifecycle", "DELETE /admin/v2/persistent/acme/shop/orders", 0): orders,
    ("topics-lifecycle", "POST /admin/v2/persistent/acme/shop/term/terminate", 0): three_messages("term"),
    ("topics-lifecycle", "GET /admin/v2/persistent/acme/shop/trunc/internalStats", 0): three_messages("trunc"),
    ("topics-subscriptions", "GET /admin/v2/persistent/acme/shop/orders/subscriptions", 0): orders_and_parts,
    ("topics-subscriptions", f"POST {FROMSTART}/expireMessages/100000", 0): time_passes,
    ("topics-messages", f"GET {FROMSTART}/position/1", 0): orders_to_peek,
    ("schemas", "GET /admin/v2/schemas/acme/shop/orders/schema", 0): call(
        "POST", "/admin/v2/schemas/acme/shop/orders/schema", ORDER_SCHEMA
    ),
}

# What we answer instead, and why. The body stands in where it decides.
NO_CLIENTS = "the recording had clients connected"
FROM_START = "ps is there from the start"
HEARTBEAT = "there is no heartbeat topic"
SYSTEM = "there are no system topics"
MIGRATED = "migration is not built"
LISTED = "a segment is what its topic's record lists, and nothing else"
_SCALE, _SEGMENTS = "/admin/v2/scalable/acme", "/admin/v2/segments/acme/scale"
OTHERWISE: dict[tuple[str, str], tuple[int, str]] = {
    ("scalable", f"PUT {_SCALE}/nosuch/t"): (404, "a topic needs its namespace"),
    ("scalable", f"GET {_SCALE}/nosuch"): (200, "a topic needs its namespace"),
    ("scalable", f"GET {_SCALE}/scale/big/stats"): (200, NO_CLIENTS),
    ("scalable", f"POST {_SCALE}/scale/big/subscriptions/nosuch/seek?timestamp=1"): (404, "nothing is moved"),
    ("scalable", f"POST {_SCALE}/scale/big/subscriptions/nosuch/skip-all"): (404, "nothing is moved"),
    ("scalable", f"POST {_SCALE}/scale/big/subscriptions/st/seek?timestamp=1"): (404, NO_CLIENTS),
    ("scalable", f"GET {_SCALE}/scale/plain"): (404, MIGRATED),
    ("scalable", f"GET {_SCALE}/scale/parted"): (404, MIGRATED),
    ("scalable", f"GET {_SCALE}/scale"): (200, "names are shown as they are, and deleted topics are not listed"),
    ("segments", f"PUT {_SEGMENTS}/st/0000-7fff-9"): (404, LISTED),
    ("segments", f"PUT {_SEGMENTS}/st/8000-ffff-10"): (404, LISTED),
    ("segments", f"PUT {_SEGMENTS}/nosuch/0000-ffff-0"): (404, LISTED),
    ("segments", f"PUT {_SEGMENTS}/st/0000-7fff-9/subscription/s3"): (404, LISTED),
    ("segments", f"GET {_SEGMENTS}/st/0000-7fff-9/subscription/s3/backlog"): (404, LISTED),
    ("segments", f"POST {_SEGMENTS}/st/0000-7fff-9/terminate"): (404, LISTED),
    ("segments", f"GET {_SEGMENTS}/big/4000-7fff-1/subscription/qu/backlog"): (404, NO_CLIENTS),
    ("segments", "GET /admin/v2/schemas/acme/scale/big/schema"): (404, NO_CLIENTS),
    ("brokers", "POST /admin/v2/brokers/configuration/dispatchThrottlingRatePerTopicInMsg/1000"): (412, "no such key"),
    ("brokers", "POST /admin/v2/brokers/configuration/dispatchThrottlingRatePerTopicInMsg/abc"): (412, "no such key"),
    ("brokers", "DELETE /admin/v2/brokers/configuration/dispatchThrottlingRatePerTopicInMsg"): (412, "no such key"),
    ("brokers", "GET /admin/v2/brokers/configuration/values"): (200, "the key before is not known here"),
    ("brokers", "GET /admin/v2/brokers/standalone/localhost:8080/ownedNamespaces"): (
        200,
        "there is no heartbeat topic",
    ),
    ("brokers", "GET /admin/v2/brokers/nosuch/localhost:8080/ownedNamespaces"): (200, HEARTBEAT),
    ("brokers", "GET /admin/v2/brokers/internal-configuration"): (200, "there is no ZooKeeper to name"),
    ("namespaces", "GET /admin/v2/namespaces/acme/b2/bundles"): (200, "splitting is not built"),
    ("namespaces-policies", "POST /admin/v2/namespaces/acme/orders/messageTTL 3.5"): (400, "not a whole number"),
    ("namespaces-policies", "POST /admin/v2/namespaces/acme/orders/autoTopicCreation {}"): (400, "says nothing"),
    (
        "namespaces-policies",
        'POST /admin/v2/namespaces/acme/orders/retention {"retentionTimeInMinutes": 10, "retentionSizeInMB": 1}',
    ): (204, "backlog quotas are not built"),
    ("topics-lifecycle", "PUT /admin/v2/persistent/acme/shop/__change_events"): (204, SYSTEM),
    ("topics-lifecycle", "GET /admin/v2/persistent/acme/shop?includeSystemTopic=true"): (200, SYSTEM),
    ("topics-lifecycle", "GET /admin/v2/namespaces/acme/shop/topics?includeSystemTopic=true"): (200, SYSTEM),
    ("topics-lifecycle", "DELETE /admin/v2/persistent/acme/shop/orders"): (204, NO_CLIENTS),
    ("topics-lifecycle", "PUT /admin/v2/persistent/acme/shop/orders/unload"): (404, "it could be deleted before"),
    ("topics-subscriptions", "GET /admin/v2/persistent/acme/shop/orders/subscriptions"): (200, NO_CLIENTS),
    ("topics-subscriptions", "DELETE /admin/v2/persistent/acme/shop/orders/subscription/excl"): (404, NO_CLIENTS),
    ("topics-subscriptions", "DELETE /admin/v2/persistent/acme/shop/orders/subscription/excl?force=true"): (
        404,
        NO_CLIENTS,
    ),
    ("topics-subscriptions", "POST /admin/v2/persistent/acme/shop/orders/subscription/excl/resetcursor/1"): (
        404,
        NO_CLIENTS,
    ),
    ("topics-subscriptions", "GET /admin/v2/persistent/acme/shop/parts/subscriptions"): (200, FROM_START),
    ("topics-subscriptions", "GET /admin/v2/persistent/acme/shop/parts-partition-0/subscriptions"): (200, FROM_START),
    ("topics-subscriptions", "POST /admin/v2/persistent/acme/shop/orders/all_subscription/expireMessages/100000"): (
        204,
        "expiring nothing is no conflict",
    ),
    ("topics-subscriptions", "POST /admin/v2/persistent/acme/shop/parts/all_subscription/expireMessages/1"): (
        204,
        "expiring nothing is no conflict",
    ),
    ("topics-subscriptions", "POST /admin/v2/persistent/acme/shop/parts/subscription/ps/expireMessages/1"): (
        204,
        "expiring nothing is no conflict",
    ),
    ("topics-messages", "GET /admin/v2/persistent/acme/shop/orders/getMessageIdByIndex?index=-1"): (501, "not built"),
    ("non-persistent", "POST /admin/v2/non-persistent/acme/shop/np/subscription/s/resetcursor/1"): (405, "no cursor"),
    ("non-persistent", "GET /admin/v2/non-persistent/acme/shop/np/stats"): (200, NO_CLIENTS),
    ("non-persistent", "GET /admin/v2/non-persistent/acme/shop/np/internalStats"): (200, NO_CLIENTS),
    ("non-persistent", "GET /admin/v2/non-persistent/acme/shop/np/subscriptions"): (200, NO_CLIENTS),
    ("non-persistent", "GET /admin/v2/non-persistent/acme/shop/npp/partitioned-stats"): (200, NO_CLIENTS),
    ("non-persistent", "GET /admin/v2/non-persistent/acme/shop"): (200, NO_CLIENTS),
    ("non-persistent", "GET /admin/v2/namespaces/acme/shop/topics?mode=NON_PERSISTENT"): (200, NO_CLIENTS),
    ("errors", "POST /admin/v2/namespaces/acme/shop/messageTTL 100"): (204, "recorded without a content type"),
    ("errors", "GET /"): (200, "a start page"),
    ("errors", "GET /admin/v2"): (404, "nothing to redirect to"),
    ("errors", "GET /lookup"): (404, "nothing to redirect to"),
    ("errors", "GET /metrics"): (200, "no slash is asked for"),
    ("errors", "GET /openapi.json"): (200, "ours is published"),
    ("errors", "GET /status.html"): (200, "the broker is ready"),
}


@pytest.mark.parametrize("name", sorted(BEFORE))
def test_what_pulsar_was_recorded_to_answer(name: str) -> None:
    run(replay(name))


async def replay(name: str) -> None:
    wrong: list[str] = []
    made: Counter[str] = Counter()
    touched: set[str] = set()  # paths where a change was refused as not built: what they show later differs
    async with a_world() as world:
        for method, path, document in BEFORE[name]:
            await world.do(method, path, document)
        for exchange in recorded(name):
            if exchange.method == "TRACE":
                continue
            key = f"{exchange.method} {exchange.path}"
            hook = BETWEEN.get((name, key, made[key]))
            made[key] += 1
            if hook is not None:
                await hook(world)
            answer = await ask(world, exchange)
            plain = exchange.path.partition("?")[0].removesuffix("Map")
            if answer.status == 501:
                touched.add(plain)
            found = differences(name, exchange, answer, touched=plain in touched)
            wrong += [f"{key} {(exchange.body or b'').decode()}: {said}; {answer.body[:200]!r}" for said in found]
            if exchange.backlog_after is not None:
                stats = await world.get("/admin/v2/persistent/acme/shop/orders/stats")
                backlog = stats["subscriptions"]["fromstart"]["msgBacklog"]
                if backlog != exchange.backlog_after:
                    wrong.append(f"{key}: backlog {backlog}, recorded {exchange.backlog_after}")
    assert wrong == []


async def ask(world: World, exchange: Exchange) -> Answer:
    """The recording's ledger 33 is ours of that topic; its times are ours."""
    path = re.sub(r"/T$", f"/{world.runtime.wall() + 1000}", exchange.path)
    body = exchange.body or b""
    if "/ledger/33/" in path or b'"ledgerId": 33' in body:
        ledger = (await world.topic("persistent://acme/shop/orders")).managed.chain.links[0].ledger
        path = path.replace("/ledger/33/", f"/ledger/{ledger}/")
        body = body.replace(b'"ledgerId": 33', b'"ledgerId": %d' % ledger)
    headers = {header.replace("-", "_"): value for header, value in exchange.headers.items()}
    if exchange.body is not None:
        headers.setdefault("content_type", "application/json")
    return await world.ask(exchange.method, path, raw=body, **headers)


def differences(name: str, exchange: Exchange, answer: Answer, *, touched: bool) -> list[str]:
    key = f"{exchange.method} {exchange.path}"
    body = (exchange.body or b"").decode()
    otherwise = OTHERWISE.get((name, f"{key} {body}"), OTHERWISE.get((name, key)))
    if otherwise is not None and answer.status == otherwise[0]:
        return []
    if answer.status == 501:
        return [] if "not" in answer.reason else ["501 that does not say what is missing"]
    if name == "scalable" and exchange.path.endswith("/big/stats") and answer.status == 404:
        return []  # Pulsar shows a topic after its deletion
    if exchange.status >= 500:
        return [] if 400 <= answer.status < 500 else [f"{answer.status}, recorded {exchange.status}"]
    if "/schemas/" in exchange.path and exchange.status in (409, 422) and answer.status == 200:
        return []  # compatibility of schemas is not checked yet
    if exchange.status == 406 and "accept" in exchange.headers:
        return []  # answered all the same
    if answer.status != exchange.status:
        return [f"{answer.status}, recorded {exchange.status}"]
    if exchange.text is not None and exchange.status == 200 and "version" not in exchange.path and not touched:
        return [] if answer.body.decode() == exchange.text else [f"recorded {exchange.text}"]
    if exchange.document is None or exchange.method == "HEAD":
        return []
    if touched or name in ("clusters", "topics-messages"):
        return []
    document = answer.document
    if exchange.status >= 400:
        return [] if document.get("reason") else ["a refusal without a reason"]
    found = like(exchange.document, document)
    if isinstance(document, list) and sorted(map(str, document)) != sorted(map(str, exchange.document)):
        found.append(f"recorded {exchange.document}")
    if not isinstance(document, list | dict) and document != exchange.document:
        found.append(f"recorded {exchange.document}")
    return found
