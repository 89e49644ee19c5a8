"""The operator of a world: creates and deletes topics, sets properties, adds partitions, and asks what there is.

It calls the real routes of a broker that is up, follows a redirect, and writes down what it was told: 2xx happened, 4xx
for sure did not, anything else (or no answer) may have. Its topics are its own: nobody produces to them. What brokers
answer is compared in a healed world only, because a list may be as old as a read of the store may be (invariant 16).
"""

from __future__ import annotations

import asyncio
import json
import random
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from magnetar.admin.request import Request, Response, whole
from magnetar.admin.routes import handle
from simulation import history as record
from simulation.history import FAIL, INVOKE, OK, UNKNOWN

if TYPE_CHECKING:
    from simulation.cluster import ClusterWorld

NAMESPACE = "public/managed"
TOPICS = tuple(f"persistent://{NAMESPACE}/s{number}" for number in range(4))
GROWING = "grown"  # the topic with partitions
PARTITIONS_MAX = 6
KEYS = ("color", "owner")
ANSWER_S = 20.0  # without an answer for so long, it may have happened
TRIES_MAX = 60  # in a healed world
REDIRECTS_MAX = 10
JSON = {"content-type": "application/json"}


class Steward:
    def __init__(self, world: ClusterWorld, chance: random.Random) -> None:
        self._world = world
        self._chance = chance
        self._number = 0
        self._partitions = 1
        self._terminates = [plan.topic for plan in world.shape.topics if chance.random() < 0.1][:1]
        self.over = False

    async def run(self, pause_s: float) -> None:
        """One thing after another, until it is over."""
        await self._grow(1)
        while not self.over:
            await asyncio.sleep(self._chance.expovariate(1 / pause_s))
            draw = self._chance.random()
            for plan in self._world.shape.topics:
                if not plan.kept:
                    await self._ask(self._broker(), Request("POST", f"{_path(plan.topic)}/trim"))
            if self._terminates and self._chance.random() < 0.1:
                await self._terminate(self._terminates.pop())
            if draw < 0.3:
                await self._change("PUT", self._chance.choice(TOPICS), record.CREATE)
            elif draw < 0.5:
                await self._change("DELETE", self._chance.choice(TOPICS), record.DELETE)
            elif draw < 0.9:
                self._number += 1
                await self._set(self._chance.choice(KEYS), f"v{self._number}")
            elif self._partitions < PARTITIONS_MAX:
                await self._grow(self._partitions + 1)

    async def ask_everybody(self) -> None:
        """In a healed world every broker tells the same, and it is what was done."""
        for broker in self._world.shape.brokers:
            listed = await self._told(broker, f"/admin/v2/persistent/{NAMESPACE}")
            mine = [name for name in listed or [] if name in TOPICS]
            self._world.history.note(broker, record.LIST, OK, topics=mine)
            found = await self._told(broker, f"/admin/v2/namespaces/{NAMESPACE}/properties") or {}
            for key in KEYS:
                self._world.history.note(broker, record.TOLD, OK, key=key, to=found.get(key))
            grown = await self._told(broker, f"/admin/v2/persistent/{NAMESPACE}/{GROWING}/partitions") or {}
            count = str(grown.get("partitions", 0))
            self._world.history.note(broker, record.TOLD, OK, key=GROWING, to=None if count == "0" else count)
        for plan in self._world.shape.topics:
            names = await self._told(self._world.shape.brokers[0], f"{_path(plan.topic)}/subscriptions")
            if names is not None:
                self._world.history.note("steward", record.LIST, OK, plan.topic, subscriptions=names)

    # Doing

    async def _change(self, method: str, topic: str, operation: str) -> None:
        self._world.history.note("steward", operation, INVOKE, topic)
        found = await self._ask(self._broker(), Request(method, _path(topic), {"force": "true"}))
        self._world.history.note("steward", operation, _phase(found), topic, error=_error(found))

    async def _terminate(self, topic: str) -> None:
        """No more messages, for ever: whoever produces to it is refused from now on."""
        self._world.history.note("steward", record.TERMINATE, INVOKE, topic)
        found = await self._ask(self._broker(), Request("POST", f"{_path(topic)}/terminate"))
        place = None
        if found is not None and found[0] == 200:
            end = json.loads(found[1])
            place = (end["ledgerId"], end["entryId"], 0)
        self._world.history.note("steward", record.TERMINATE, _phase(found), topic, place=place, error=_error(found))

    async def _set(self, key: str, value: str) -> None:
        path = f"/admin/v2/namespaces/{NAMESPACE}/property/{key}/{value}"
        await self._setting(key, value, Request("PUT", path))

    async def _grow(self, count: int) -> None:
        path = f"/admin/v2/persistent/{NAMESPACE}/{GROWING}/partitions"
        method = "PUT" if count == 1 else "POST"
        phase = await self._setting(GROWING, str(count), Request(method, path, headers=JSON, body=str(count).encode()))
        if phase == OK:
            self._partitions = count

    async def _setting(self, key: str, value: str, request: Request) -> str:
        self._world.history.note("steward", record.SET, INVOKE, key=key, to=value)
        found = await self._ask(self._broker(), request)
        self._world.history.note("steward", record.SET, _phase(found), key=key, to=value, error=_error(found))
        return _phase(found)

    async def _told(self, broker: str, path: str) -> Any:
        """What a broker answers; None: that there is nothing."""
        for _ in range(TRIES_MAX):
            found = await self._ask(broker, Request("GET", path))
            if found is not None and found[0] < 500:
                return json.loads(found[1]) if found[0] == 200 else None
            await asyncio.sleep(1.0)
        raise AssertionError(f"{broker} does not answer GET {path} in a healed world: {found}")

    def _broker(self) -> str:
        return self._chance.choice(self._world.shape.brokers)

    async def _ask(self, broker: str, request: Request) -> tuple[int, bytes] | None:
        """Status and body; None: nobody heard, or no answer came. Where nobody is, nothing was asked."""
        for _ in range(REDIRECTS_MAX):
            node, host = self._world.nodes.get(broker), self._world.hosts[broker]
            if node is None or not node.ready or host.life is None:
                return 404, b"it is down"
            task = host.do(_answered(node, request))
            done, _ = await asyncio.wait([task], timeout=ANSWER_S)
            if not done:
                return None
            response, body = task.result()
            if response.status != 307:
                return response.status, body
            broker = urlsplit(response.headers["location"]).hostname or broker
        return 404, b"sent from one to the other"


async def _answered(node: Any, request: Request) -> tuple[Response, bytes]:
    response = await handle(node, request)
    try:
        return response, await whole(response)
    except Exception as error:  # while the body is written: the real server would cut the connection
        return Response(500), str(error).encode()


def _path(topic: str) -> str:
    return f"/admin/v2/{topic.replace('://', '/')}"


def _phase(found: tuple[int, bytes] | None) -> str:
    if found is None or found[0] >= 500:
        return UNKNOWN
    return OK if found[0] < 300 else FAIL


def _error(found: tuple[int, bytes] | None) -> str:
    return "no answer" if found is None else "" if found[0] < 300 else f"{found[0]} {found[1][:80].decode()}"
