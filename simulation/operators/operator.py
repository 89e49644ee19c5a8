"""How the operators of a world call its brokers: by the real routes of a running broker, following redirects.

The status gives the outcome: 2xx took effect, 4xx certainly did not, anything else (or no answer) may have.
"""

from __future__ import annotations

import asyncio
import json
import random
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from magnetar.admin.request import Request, Response, whole
from magnetar.admin.router import handle
from simulation.history import FAIL, OK, UNKNOWN

if TYPE_CHECKING:
    from simulation.world.cluster import ClusterWorld

RestOutcome = tuple[int, bytes] | None  # status and body; None: no answer came

ANSWER_S = 20.0  # without an answer for so long, it may have happened
TRIES_MAX = 60  # in a healed world
REDIRECTS_MAX = 10


class Operator:
    def __init__(self, world: ClusterWorld, chance: random.Random) -> None:
        self.over = False
        self._world = world
        self._chance = chance

    def _broker(self) -> str:
        return self._chance.choice(self._world.config.brokers)

    async def _get(self, broker: str, path: str) -> Any:
        """The answer of a broker; None: not found."""
        for _ in range(TRIES_MAX):
            outcome = await self._call(broker, Request("GET", path))
            if outcome is not None and outcome[0] < 500:
                return json.loads(outcome[1]) if outcome[0] == 200 else None
            await asyncio.sleep(1.0)
        raise AssertionError(f"{broker} does not answer GET {path} in a healed world: {outcome}")

    async def _call(self, broker: str, request: Request, answer_s: float = ANSWER_S) -> RestOutcome:
        """If no broker runs there, nothing was requested."""
        for _ in range(REDIRECTS_MAX):
            node, host = self._world.nodes.get(broker), self._world.hosts[broker]
            if node is None or not node.ready or host.incarnation is None:
                return 404, b"it is down"
            task = host.do(_answered(node, request))
            done, _ = await asyncio.wait([task], timeout=answer_s)
            if not done:
                return None
            response, body = task.result()
            if response.status != 307:
                return response.status, body
            broker = urlsplit(response.headers["location"]).hostname or broker
        return 404, b"sent from one to the other"


def rest_request(method: str, path: str) -> Request:
    """A request with the query of the path."""
    parts = urlsplit(path)
    pairs = parse_qsl(parts.query)
    return Request(method, parts.path, dict(pairs), pairs=pairs)


def outcome_phase(outcome: RestOutcome) -> str:
    if outcome is None or outcome[0] >= 500:
        return UNKNOWN
    return OK if outcome[0] < 300 else FAIL


def outcome_error(outcome: RestOutcome) -> str:
    return "no answer" if outcome is None else "" if outcome[0] < 300 else f"{outcome[0]} {outcome[1][:80].decode()}"


async def _answered(node: Any, request: Request) -> tuple[Response, bytes]:
    response = await handle(node, request)
    try:
        return response, await whole(response)
    except Exception as error:  # while the body is written: the real server would cut the connection
        return Response(500), str(error).encode()
