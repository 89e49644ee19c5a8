"""Calls of other brokers: what `broker/carrier.py` sends arrives here. Nobody else has a reason to call it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.admin.request import Request, Response, shown
from magnetar.admin.route import PEER, Route
from magnetar.base.limits import PEER_BODY_BYTES_MAX
from magnetar.broker.carrier import PATH, Call, answered

if TYPE_CHECKING:
    from magnetar.broker.node import Node


async def take(node: Node, request: Request) -> Response:
    """200 whatever the answer: an error of the handlers is an answer too."""
    return shown(await answered(node, request.need(Call)))


ROUTES = [
    Route("POST", PATH, take, "A call of another broker", action=PEER, body_bytes_max=PEER_BODY_BYTES_MAX),
]
