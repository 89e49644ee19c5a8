"""HTTP lookup, for clients with an http:// service URL: the broker that serves a topic, and the bundle of a topic.

The lookup of a missing topic succeeds if a client may create the topic by using it; otherwise it is 404.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.admin.request import JSON, Request, Response, redirected, shown, text
from magnetar.admin.resources.scalable.topics import check_enabled
from magnetar.admin.route import get
from magnetar.base.bundles import HASH_MAX, Bundle
from magnetar.base.errors import NotFound, TopicNotFound
from magnetar.base.names import Domain
from magnetar.client.documents.lookup import LookupData
from magnetar.cluster.creation import RefuseTopic, decide
from magnetar.cluster.lookup import Failed, Redirect

if TYPE_CHECKING:
    from magnetar.base.names import TopicName
    from magnetar.broker.node import Node


async def find(node: Node, request: Request) -> Response:
    name = request.topic
    if name.domain is Domain.TOPIC:
        check_enabled(node)  # any broker shows its layout: it need not exist to be looked up
    else:
        await _check_found(node, name)
    verdict = await node.lookup(
        name, request.query.get("listenerName", ""), authoritative=request.flag("authoritative")
    )
    if isinstance(verdict, Failed):
        raise NotFound(verdict.error.what)
    if isinstance(verdict, Redirect):
        authority = str(verdict.authoritative).lower()
        return redirected(verdict.http or verdict.https, request, authoritative=authority)
    return shown(
        LookupData(
            brokerId=verdict.broker,
            brokerUrl=verdict.url,
            httpUrl=verdict.http,
            nativeUrl=verdict.url,
            brokerUrlTls=verdict.url_tls or "",
            brokerUrlSsl=verdict.url_tls or "",
        )
    )


async def bundle(node: Node, request: Request) -> Response:
    name = request.topic
    policies = await node.namespaces.policies(name.namespace)
    if policies is None:
        return text(str(Bundle(0, HASH_MAX)), kind=JSON)
    return text(str(await node.bundles.find(name, policies)), kind=JSON)


async def _check_found(node: Node, name: TopicName) -> None:
    policies = await node.namespaces.policies(name.namespace)
    if policies is None:
        raise NotFound("Namespace not found")
    if await node.catalogue.partitioned(name) is not None or await node.catalogue.exists(name):
        return
    base = await node.catalogue.partitioned(name.partitioned) if name.is_partition else None
    verdict = decide(name, node.settings, policies, base_partitions=0 if base is None else base.partitions)
    if isinstance(verdict, RefuseTopic):
        raise TopicNotFound(f"Topic not found {name}")


_TOPIC = "/lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}"
ROUTES = [
    get(_TOPIC, find, "The broker that serves a topic", LookupData),
    get(f"{_TOPIC}/bundle", bundle, "The bundle a topic is in", str),
]
