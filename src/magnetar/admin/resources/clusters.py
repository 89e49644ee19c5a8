"""Clusters: list, read, create, change, delete. They are records only: replication between clusters is not supported
yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magnetar.admin.request import DONE, EMPTY, Request, Response, shown
from magnetar.admin.route import delete, get, post, put
from magnetar.base.errors import Misuse, NotBuilt
from magnetar.client.documents.tenants import ClusterData
from magnetar.policy.protection import unmet_by_name

if TYPE_CHECKING:
    from magnetar.broker.node import Node


async def names(node: Node, request: Request) -> Response:
    return shown(await node.clusters.names())


async def read(node: Node, request: Request) -> Response:
    return shown(await node.clusters.get(request.parts["cluster"]))


async def create(node: Node, request: Request) -> Response:
    await node.clusters.create(request.parts["cluster"], _data(request))
    return EMPTY


async def update(node: Node, request: Request) -> Response:
    await node.clusters.update(request.parts["cluster"], _data(request))
    return EMPTY


async def remove(node: Node, request: Request) -> Response:
    await node.clusters.delete(request.parts["cluster"])
    return DONE


def _data(request: Request) -> ClusterData:
    data: ClusterData | None = request.read(dict[str, Any])
    if data is None:
        raise Misuse("cluster data is required", http_status=400)
    secured = sorted(key for key, value in data.items() if _protects(key, value))
    if secured:
        words = "credentials are not supported, because this version does not connect to other clusters"
        raise NotBuilt(f"{', '.join(secured)[:200]}: {words}")
    return data


def _protects(key: str, value: Any) -> bool:
    if key.endswith("UrlTls") or value is None or value == "JKS":
        return False
    return bool(unmet_by_name(key, str(value)))


_ONE = "/admin/v2/clusters/{cluster}"
ROUTES = [
    get("/admin/v2/clusters", names, "The clusters", list[str]),
    get(_ONE, read, "A cluster", ClusterData),
    put(_ONE, create, "Create a cluster", ClusterData),
    post(_ONE, update, "Change a cluster", ClusterData),
    delete(_ONE, remove, "Delete a cluster"),
]
