"""Tenants: list, read, create, change, delete. `cluster/tenants.py` decides which tenants are valid."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.admin.request import DONE, Request, Response, shown
from magnetar.admin.resources.namespaces import remove_namespace
from magnetar.admin.route import delete, get, post, put
from magnetar.base.names import namespace_name
from magnetar.client.documents.tenants import TenantInfo
from magnetar.cluster.tenants import TenantInfo as Tenant

if TYPE_CHECKING:
    from magnetar.broker.node import Node


async def names(node: Node, request: Request) -> Response:
    return shown(await node.tenants.names())


async def read(node: Node, request: Request) -> Response:
    tenant = await node.tenants.get(request.tenant)
    return shown(TenantInfo(tenant.adminRoles, tenant.allowedClusters))


async def create(node: Node, request: Request) -> Response:
    await node.tenants.create(request.tenant, _tenant(request))
    return DONE


async def update(node: Node, request: Request) -> Response:
    await node.tenants.update(request.tenant, _tenant(request))
    return DONE


async def remove(node: Node, request: Request) -> Response:
    if request.flag("force"):
        node.tenants.check_force()
        for name in await node.namespaces.names(request.tenant):
            await remove_namespace(node, namespace_name(name), force=True)
    await node.tenants.delete(request.tenant)
    return DONE


def _tenant(request: Request) -> Tenant | None:
    document: TenantInfo | None = request.read(TenantInfo)
    return None if document is None else Tenant(document.adminRoles, document.allowedClusters)


_ONE = "/admin/v2/tenants/{tenant}"
ROUTES = [
    get("/admin/v2/tenants", names, "The tenants", list[str]),
    get(_ONE, read, "A tenant", TenantInfo),
    put(_ONE, create, "Create a tenant", TenantInfo),
    post(_ONE, update, "Change a tenant", TenantInfo),
    delete(_ONE, remove, "Delete a tenant; with force, its namespaces too"),
]
