"""The brokers of the cluster and their configuration: live brokers, owned bundles, connections, and dynamic settings.

`policy` decides which settings are dynamic and which values are valid.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from magnetar import __version__
from magnetar.admin import fan_out
from magnetar.admin.monitoring.health import other_broker
from magnetar.admin.request import EMPTY, JSON, Request, Response, shown, text
from magnetar.admin.route import delete, get, post
from magnetar.base.errors import Misuse
from magnetar.base.limits import CONNECTIONS_SHOWN_MAX
from magnetar.client.documents.brokers import ConnectionInfo, InternalConfiguration, LeaderBroker, OwnedNamespace

if TYPE_CHECKING:
    from magnetar.broker.connection.connection import Connection
    from magnetar.broker.node import Node


async def names(node: Node, request: Request) -> Response:
    return shown([broker.id for broker in await node.ownership.brokers()])


async def leader(node: Node, request: Request) -> Response:
    elected = await node.ownership.leader()
    return shown(LeaderBroker(elected.urls.http or elected.urls.https, elected.id))


async def owned(node: Node, request: Request) -> Response:
    """The bundles that the broker owns; for a single broker, the bundles that have a loaded topic."""
    other = await other_broker(node, request.parts["broker"])
    if other is not None:
        return Response(200, await fan_out.of_broker(node, request, other), {"content-type": JSON})
    namespaces: dict[str, OwnedNamespace] = {
        f"{namespace}/{bundle}": OwnedNamespace() for namespace, bundle in node.ownership.held()
    }
    for topic in list(node.topics.loaded.values()):
        policies = await node.namespaces.policies(topic.name.namespace)
        if policies is not None:
            bundle = await node.bundles.find(topic.name, policies)
            namespaces[f"{topic.name.namespace}/{bundle}"] = OwnedNamespace()
    return shown(dict(sorted(namespaces.items())))


async def connections(node: Node, request: Request) -> Response:
    """The connections of this broker, oldest first. An extension of Magnetar."""
    limit = request.number("limit", CONNECTIONS_SHOWN_MAX)
    if not 1 <= limit <= CONNECTIONS_SHOWN_MAX:
        raise Misuse(f"limit must be from 1 to {CONNECTIONS_SHOWN_MAX}", limit=limit)
    return shown([_connection(one) for one in islice(node.connections, limit)])


def _connection(connection: Connection) -> ConnectionInfo:
    return ConnectionInfo(
        id=connection.generation,
        address=connection.peer,
        clientVersion=connection.client_version,
        protocolVersion=connection.protocol_version,
        connectedSince=connection.opened_ms,
        producers=len(connection.producers),
        consumers=len(connection.consumers),
        watches=len(connection.watchers) + len(connection.layouts) + len(connection.memberships),
        congested=connection.congested,
    )


async def version(node: Node, request: Request) -> Response:
    return text(__version__, kind=JSON)


async def internal_configuration(node: Node, request: Request) -> Response:
    url = node.settings.text("metadataStoreUrl") or "embedded"
    return shown(InternalConfiguration(url, url, "/ledgers"))


async def dynamic_names(node: Node, request: Request) -> Response:
    return shown(node.settings.dynamic_keys())


async def dynamic_values(node: Node, request: Request) -> Response:
    return shown(node.settings.dynamic_values())


async def runtime_values(node: Node, request: Request) -> Response:
    return shown(node.settings.shown())


async def set_dynamic(node: Node, request: Request) -> Response:
    await node.dynamic.set(request.parts["key"], request.parts["value"])
    return EMPTY


async def unset_dynamic(node: Node, request: Request) -> Response:
    await node.dynamic.unset(request.parts["key"])
    return EMPTY


_ROOT = "/admin/v2/brokers"
ROUTES = [
    get(_ROOT, names, "The brokers", list[str]),
    get(f"{_ROOT}/{{cluster}}", names, "The brokers of a cluster", list[str]),
    get(f"{_ROOT}/leaderBroker", leader, "The leader", LeaderBroker),
    get(
        f"{_ROOT}/{{cluster}}/{{broker}}/ownedNamespaces",
        owned,
        "The bundles that a broker serves",
        dict[str, OwnedNamespace],
    ),
    get(f"{_ROOT}/connections", connections, "The clients that are connected to this broker", list[ConnectionInfo]),
    get(f"{_ROOT}/version", version, "The version", str),
    get(
        f"{_ROOT}/internal-configuration",
        internal_configuration,
        "The URL of the metadata store",
        InternalConfiguration,
    ),
    get(f"{_ROOT}/configuration", dynamic_names, "The names of the dynamic settings", list[str]),
    get(
        f"{_ROOT}/configuration/values",
        dynamic_values,
        "The dynamic settings that are set, with their values",
        dict[str, str],
    ),
    get(f"{_ROOT}/configuration/runtime", runtime_values, "All settings with their current values", dict[str, str]),
    post(f"{_ROOT}/configuration/{{key}}/{{value}}", set_dynamic, "Set a dynamic setting on all brokers"),
    delete(f"{_ROOT}/configuration/{{key}}", unset_dynamic, "Remove a dynamic setting from all brokers"),
]
