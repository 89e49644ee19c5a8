"""Calls of other brokers: receives the requests of `broker/peers/rpc.py`.

Only a broker of a cluster has the route, and a caller must know the secret of the cluster
(`broker/peers/authentication.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.admin.request import Request, Response, shown
from magnetar.admin.route import PEER, Route
from magnetar.base.limits import PEER_BODY_BYTES_MAX
from magnetar.broker.peers.rpc import PATH, PeerRequest, answered

if TYPE_CHECKING:
    from magnetar.broker.node import Node


async def take(node: Node, request: Request) -> Response:
    """The status is always 200: an error of the handlers is part of the reply."""
    return shown(await answered(node, request.need(PeerRequest)))


ROUTES = [
    Route("POST", PATH, take, "A call of another broker", action=PEER, body_bytes_max=PEER_BODY_BYTES_MAX),
]
