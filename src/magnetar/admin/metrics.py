"""`/metrics`: the node's counters and the figures of its loaded topics as Prometheus text, streamed by family."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from magnetar.admin.rates import observe
from magnetar.admin.request import Request, Response
from magnetar.admin.route import OPEN, get
from magnetar.observe.metrics import CONTENT_TYPE

if TYPE_CHECKING:
    from magnetar.broker.node import Node


async def scrape(node: Node, request: Request) -> Response:
    observe(node)
    return Response(200, _text(node), {"content-type": CONTENT_TYPE})


async def _text(node: Node) -> AsyncIterator[bytes]:
    for piece in node.registry.render():
        if piece:
            yield piece.encode()
        else:
            await asyncio.sleep(0)  # many topics: let messages through between them


ROUTES = [get("/metrics", scrape, "Figures for Prometheus", str, OPEN)]
