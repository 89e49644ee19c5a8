"""Health probes: liveness of the process, readiness for clients, and the health check of the broker.

`/livez` is true while the process serves requests and its storage has not failed. `/readyz` is true while the broker
accepts clients. `/admin/v2/brokers/health` also reads through the metadata store. No probe fails because a broker is
busy, so an orchestrator does not restart it for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.admin.request import JSON, Request, Response, text
from magnetar.admin.route import OPEN, get
from magnetar.base.errors import NotFound, NotReady
from magnetar.metadata import paths

if TYPE_CHECKING:
    from magnetar.broker.node import Node


def broker_id(node: Node) -> str:
    return f"{node.addresses.host}:{node.addresses.http_port}"


def check_broker(node: Node, broker: str) -> None:
    if broker != broker_id(node):
        raise NotFound(f"Broker id '{broker}' not found in available brokers.")


async def live(node: Node, request: Request) -> Response:
    if node.failure is not None:
        raise NotReady(f"storage failed, the broker is stopping: {node.failure.what}")
    return text("ok")


async def ready(node: Node, request: Request) -> Response:
    _check_ready(node)
    return text("ok")


async def broker_ready(node: Node, request: Request) -> Response:
    _check_ready(node)
    return text("ok", kind=JSON)


async def broker_health(node: Node, request: Request) -> Response:
    if "brokerId" in request.query:
        check_broker(node, request.query["brokerId"])
    _check_ready(node)
    await node.metadata.exists(paths.POLICIES)
    return text("ok", kind=JSON)


def _check_ready(node: Node) -> None:
    if node.failure is not None:
        raise NotReady(f"storage failed, the broker is stopping: {node.failure.what}")
    if not node.ready:
        raise NotReady("the broker is starting or stopping")


ROUTES = [
    get("/livez", live, "Liveness of the process", str, OPEN),
    get("/readyz", ready, "Readiness for client connections", str, OPEN),
    get("/status.html", ready, "Readiness, at the path that load balancers use", str, OPEN),
    get("/admin/v2/brokers/ready", broker_ready, "Readiness of the broker", str, OPEN),
    get("/admin/v2/brokers/health", broker_health, "Health check of the broker", str),
]
