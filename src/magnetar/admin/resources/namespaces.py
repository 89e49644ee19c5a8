"""Namespaces: list, read, create, delete; their topics page by page; their bundles; unloading.

A list of topics is streamed while it is read, so that memory holds one page of one bucket for any size of the
namespace. `after` and `limit` are extensions of Magnetar: a page starts behind the topic `after`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from magnetar.admin import fan_out
from magnetar.admin.request import DONE, JSON, Request, Response, shown
from magnetar.admin.resources.policies import check_obeyed, check_policies, grants_nothing
from magnetar.admin.route import delete, get, put
from magnetar.admin.unknown_fields import check_spelling
from magnetar.base.bundles import Bundle, bundle_from_text
from magnetar.base.errors import Conflict, Misuse, NotFound
from magnetar.base.limits import HTTP_PIECE_BYTES, TOPICS_PAGE_MAX
from magnetar.base.names import Domain, NamespaceName, TopicName, topic_name
from magnetar.broker.topics.non_persistent_list import non_persistent_names
from magnetar.cluster.bundles import document_of
from magnetar.observe import log as logs
from magnetar.policy.policies import Bundles, Policies

if TYPE_CHECKING:
    from magnetar.broker.node import Node

log = logs.get("admin")

NOT_ENFORCED = '299 magnetar "auth_policies is stored but not enforced: this version has no authorization"'
MODES = {
    "PERSISTENT": (Domain.PERSISTENT,),
    "NON_PERSISTENT": (Domain.NON_PERSISTENT,),
    "ALL": (Domain.PERSISTENT, Domain.NON_PERSISTENT),
}


async def names(node: Node, request: Request) -> Response:
    return shown(await node.namespaces.names(request.tenant))


async def read(node: Node, request: Request) -> Response:
    return shown((await node.namespaces.get(request.namespace)).document())


async def create(node: Node, request: Request) -> Response:
    document: dict[str, Any] | None = request.read(dict[str, Any])
    policies = Policies.of(document or {})
    check_spelling(document, policies)
    check_policies(node, policies)
    check_obeyed(policies, document or {}, node.settings.text("clusterName"))
    await node.namespaces.create(request.namespace, policies)
    if grants_nothing(policies):
        return DONE
    log.warning("permissions_not_enforced", namespace=str(request.namespace), why="this version has no authorization")
    return Response(DONE.status, headers={"warning": NOT_ENFORCED})


async def remove(node: Node, request: Request) -> Response:
    await remove_namespace(node, request.namespace, force=request.flag("force"))
    return DONE


async def remove_namespace(node: Node, namespace: NamespaceName, *, force: bool) -> None:
    """With `force` the topics are deleted first, while the namespace still exists and lists them."""
    if force:
        node.namespaces.check_force()
        if not await node.namespaces.exists(namespace):
            raise NotFound(f"Namespace {namespace} does not exist.")
        for name in await node.scalable.names(str(namespace)):
            await node.scalable.delete(name, force=True)
        await node.sinks.forget_all(namespace)
        async for text in node.catalogue.topics(namespace, stages=True):
            await _remove_topic(node, topic_name(text))
        for loaded in list(node.topics.loaded.values()):
            if loaded.name.namespace == namespace and loaded.name.domain is not Domain.NON_PERSISTENT:
                await _remove_topic(node, loaded.name)
        for text in await non_persistent_names(node, namespace):
            await _remove_topic(node, topic_name(text))
    elif await node.scalable.names(str(namespace)):
        raise Conflict("Cannot delete non empty namespace", namespace=str(namespace))
    await node.namespaces.delete(namespace, force=force)


async def _remove_topic(node: Node, name: TopicName) -> None:
    plains = node.segments.plains
    # a concurrent deletion is success too
    await node.peers.owner(name).delete("delete", await plains.term(name), force=True)
    await plains.forget(name.partitioned)


# Topics


async def topics(node: Node, request: Request) -> Response:
    namespace = request.namespace
    await node.namespaces.get(namespace)
    mode = MODES.get(request.query.get("mode", "PERSISTENT"))
    if mode is None:
        raise NotFound(f"mode must be one of {', '.join(MODES)}")
    return await listed(node, namespace, mode, request)


async def listed(node: Node, namespace: NamespaceName, domains: tuple[Domain, ...], request: Request) -> Response:
    """The names as a JSON list, streamed while they are read."""
    after = request.query.get("after")
    if after is not None:
        name = topic_name(after)
        if name.namespace != namespace:
            raise Misuse("`after` must be the last topic of the previous page, in the same namespace", after=after)
    limit: int | None = request.number("limit", TOPICS_PAGE_MAX if after is not None else -1)
    if limit is not None and limit < 0:
        if "limit" in request.query:
            raise Misuse("limit must be 0 or more")
        limit = None
    # Read before the response begins, because another broker may not answer.
    loaded = await non_persistent_names(node, namespace) if Domain.NON_PERSISTENT in domains else []
    names = topic_names(node, namespace, domains, after=after, limit=limit, loaded=loaded)
    return Response(200, _json(names), {"content-type": JSON})


async def topic_names(
    node: Node,
    namespace: NamespaceName,
    domains: tuple[Domain, ...],
    *,
    after: str | None = None,
    limit: int | None = None,
    loaded: Sequence[str] = (),
) -> AsyncIterator[str]:
    """Persistent topics bucket by bucket, then the `loaded` non-persistent topics, sorted by name."""
    left = limit
    last = None if after is None else topic_name(after)
    if Domain.PERSISTENT in domains and (last is None or last.domain is Domain.PERSISTENT):
        async for listed in node.catalogue.topics(namespace, after=after, limit=left):
            yield listed
            left = None if left is None else left - 1
        last = None
    if Domain.NON_PERSISTENT in domains:
        for listed in loaded if last is None else [name for name in loaded if name > str(last)]:
            if left == 0:
                return
            yield listed
            left = None if left is None else left - 1


async def _json(names: AsyncIterator[str]) -> AsyncIterator[bytes]:
    """Encodes some hundred names per piece, to avoid both a piece per name and one large piece."""
    encode = msgspec.json.encode
    piece, between = bytearray(b"["), b""
    async for name in names:
        piece += between + encode(name)
        between = b","
        if len(piece) > HTTP_PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece + b"]")


# Bundles


async def bundles(node: Node, request: Request) -> Response:
    namespace = request.namespace
    policies = await node.namespaces.get(namespace)
    return shown(document_of(await node.bundles.get(namespace, policies)))


async def unload(node: Node, request: Request) -> Response:
    namespace = request.namespace
    if not await node.namespaces.exists(namespace):
        raise NotFound("Namespace not found")
    await node.served.unload_namespace(namespace)
    if not request.is_forwarded:
        await fan_out.of_brokers(node, request, await node.served.others(namespace))
    return DONE


async def unload_bundle(node: Node, request: Request) -> Response:
    namespace = request.namespace
    bundle = await _bundle(node, namespace, request.parts["bundle"])
    await node.served.unload_bundle(namespace, bundle)
    return DONE


async def _bundle(node: Node, namespace: NamespaceName, text: str) -> Bundle:
    if not await node.namespaces.exists(namespace):
        raise NotFound("Namespace not found")
    bundle = bundle_from_text(text)
    bundles = await node.bundles.get(namespace, await node.namespaces.get(namespace))
    if bundle not in bundles.all:
        raise Misuse(
            f"Invalid upper boundary for bundle {namespace}/{bundle}. Expected {namespace}/{bundles.at(bundle.low)}"
        )
    return bundle


_ONE = "/admin/v2/namespaces/{tenant}/{namespace}"
ROUTES = [
    get("/admin/v2/namespaces/{tenant}", names, "The namespaces of a tenant", list[str]),
    get(_ONE, read, "The policies of a namespace", Policies),
    put(_ONE, create, "Create a namespace", Policies),
    delete(_ONE, remove, "Delete a namespace; with force, its topics too"),
    get(f"{_ONE}/topics", topics, "The topics of a namespace; pages by `after` and `limit`", list[str]),
    get(f"{_ONE}/bundles", bundles, "The bundles of a namespace", Bundles),
    put(f"{_ONE}/unload", unload, "Unload every topic of a namespace"),
    put(f"{_ONE}/{{bundle}}/unload", unload_bundle, "Unload every topic of a bundle"),
]
