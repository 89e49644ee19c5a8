"""The initial records of a standalone broker: its cluster, tenant public with namespace default, tenant pulsar with
namespace system.

Only missing records are created, so a restart keeps the changes of operators.
"""

from __future__ import annotations

from magnetar.base.errors import AlreadyExists
from magnetar.base.names import namespace_name
from magnetar.cluster.clusters import ClusterData, Clusters
from magnetar.cluster.namespaces import Namespaces
from magnetar.cluster.tenants import TenantInfo, Tenants

NAMESPACES = ("public/default", "pulsar/system")


async def bootstrap(
    clusters: Clusters, tenants: Tenants, namespaces: Namespaces, *, cluster: str, data: ClusterData
) -> None:
    """`data` contains the addresses of this cluster: serviceUrl, brokerServiceUrl."""
    if not await clusters.exists(cluster):
        try:
            await clusters.create(cluster, data)
        except AlreadyExists:
            pass  # another broker starts too
    for text in NAMESPACES:
        namespace = namespace_name(text)
        if await tenants.find(namespace.tenant) is None:
            try:
                await tenants.create(namespace.tenant, TenantInfo([], [cluster]))
            except AlreadyExists:
                pass
        if not await namespaces.exists(namespace):
            try:
                await namespaces.create(namespace)
            except AlreadyExists:
                pass
