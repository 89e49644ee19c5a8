"""Health probes: liveness of the process, readiness for clients, and the health check of the broker.

`/livez` is true while the process serves requests, until its storage fails or the session policy ends it. `/readyz` is
true while the broker accepts clients. `/admin/v2/brokers/health` also reads through the metadata store. No probe fails
because a broker is busy, so an orchestrator does not restart it for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.admin import fan_out
from magnetar.admin.request import JSON, Request, Response, text
from magnetar.admin.route import OPEN, get
from magnetar.base.errors import NotFound, NotReady
from magnetar.broker.end_reason import end_reason
from magnetar.metadata import paths

if TYPE_CHECKING:
    from magnetar.broker.node import Node
    from magnetar.cluster.ownership import Broker


def broker_id(node: Node) -> str:
    return f"{node.addresses.host}:{node.addresses.http_port}"


async def other_broker(node: Node, broker: str) -> Broker | None:
    """The other live broker with this id; None: it is this broker. NotFound: no live broker has it."""
    if broker == broker_id(node):
        return None
    for live in await node.ownership.brokers():
        if live.id == broker and live.id != node.ownership.me.id:
            return live
    raise NotFound(f"Broker id '{broker}' not found in available brokers.")


async def live(node: Node, request: Request) -> Response:
    if node.failure is not None:
        raise NotReady(f"{end_reason(node.failure)}, the broker is stopping: {node.failure.what}")
    return text("ok")


async def ready(node: Node, request: Request) -> Response:
    _check_ready(node)
    return text("ok")


async def broker_ready(node: Node, request: Request) -> Response:
    _check_ready(node)
    return text("ok", kind=JSON)


async def broker_health(node: Node, request: Request) -> Response:
    if "brokerId" in request.query:
        other = await other_broker(node, request.query["brokerId"])
        if other is not None:
            await fan_out.of_broker(node, request, other)
            return text("ok", kind=JSON)
    _check_ready(node)
    await node.metadata.exists(paths.POLICIES)
    return text("ok", kind=JSON)


def _check_ready(node: Node) -> None:
    if node.failure is not None:
        raise NotReady(f"{end_reason(node.failure)}, the broker is stopping: {node.failure.what}")
    if not node.ready:
        raise NotReady("the broker is starting or stopping")


ROUTES = [
    get("/livez", live, "Liveness of the process", str, OPEN),
    get("/readyz", ready, "Readiness for client connections", str, OPEN),
    get("/status.html", ready, "Readiness, at the path that load balancers use", str, OPEN),
    get("/admin/v2/brokers/ready", broker_ready, "Readiness of the broker", str, OPEN),
    get("/admin/v2/brokers/health", broker_health, "Health check of the broker", str),
]
