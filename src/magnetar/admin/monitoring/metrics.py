"""`/metrics`: the counters of the node and the values of its topics as Prometheus text, streamed by family."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING
from weakref import WeakSet

from magnetar.admin.monitoring.samples import prepare, samples
from magnetar.admin.request import Request, Response
from magnetar.admin.route import OPEN, get
from magnetar.observe.metrics import CONTENT_TYPE

if TYPE_CHECKING:
    from magnetar.broker.node import Node

_SHOWN: WeakSet[Node] = WeakSet()  # nodes whose samples are part of a scrape


async def scrape(node: Node, request: Request) -> Response:
    if node not in _SHOWN:
        _SHOWN.add(node)
        node.registry.provide(lambda: samples(node))
    await prepare(node)
    return Response(200, _text(node), {"content-type": CONTENT_TYPE})


async def _text(node: Node) -> AsyncIterator[bytes]:
    for piece in node.registry.render():
        if piece:
            yield piece.encode()
        else:
            await asyncio.sleep(0)  # many topics: let messages through between them


ROUTES = [get("/metrics", scrape, "Metrics in the Prometheus format", str, OPEN)]
