"""The operator who creates and deletes topics, sets properties, adds partitions and lists topics.

It records every answer (`simulation.operators.operator`). Its topics are its own: no producer uses them. Checkers
compare the answers of brokers in a healed world only, because a list may be as old as a read of the store (invariant
16).
"""

from __future__ import annotations

import asyncio
import json
import random
from typing import TYPE_CHECKING

from magnetar.admin.request import Request
from simulation import history as record
from simulation.history import INVOKE, OK
from simulation.operators.operator import Operator, outcome_error, outcome_phase

if TYPE_CHECKING:
    from simulation.world.cluster import ClusterWorld

NAMESPACE = "public/managed"
TOPICS = tuple(f"persistent://{NAMESPACE}/s{number}" for number in range(4))
GROWING = "grown"  # the topic with partitions
PARTITIONS_MAX = 6
KEYS = ("color", "owner")
JSON = {"content-type": "application/json"}


class TopicAdmin(Operator):
    def __init__(self, world: ClusterWorld, chance: random.Random) -> None:
        super().__init__(world, chance)
        self._number = 0
        self._partitions = 1
        self._terminates = [plan.topic for plan in world.config.topics if chance.random() < 0.1][:1]

    async def run(self, pause_s: float) -> None:
        """One thing after another, until it is over."""
        await self._grow(1)
        while not self.over:
            await asyncio.sleep(self._chance.expovariate(1 / pause_s))
            draw = self._chance.random()
            for plan in self._world.config.topics:
                if not plan.kept:
                    await self._call(self._broker(), Request("POST", f"{_path(plan.topic)}/trim"))
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

    async def query_all_brokers(self) -> None:
        """In a healed world every broker gives the same answer, and it matches the operations."""
        for broker in self._world.config.brokers:
            listed = await self._get(broker, f"/admin/v2/persistent/{NAMESPACE}")
            mine = [name for name in listed or [] if name in TOPICS]
            self._world.history.note(broker, record.LIST, OK, topics=mine)
            properties = await self._get(broker, f"/admin/v2/namespaces/{NAMESPACE}/properties") or {}
            for key in KEYS:
                self._world.history.note(broker, record.TOLD, OK, key=key, to=properties.get(key))
            grown = await self._get(broker, f"/admin/v2/persistent/{NAMESPACE}/{GROWING}/partitions") or {}
            count = str(grown.get("partitions", 0))
            self._world.history.note(broker, record.TOLD, OK, key=GROWING, to=None if count == "0" else count)
        for plan in self._world.config.topics:
            names = await self._get(self._world.config.brokers[0], f"{_path(plan.topic)}/subscriptions")
            if names is not None:
                self._world.history.note("steward", record.LIST, OK, plan.topic, subscriptions=names)

    # Doing

    async def _change(self, method: str, topic: str, operation: str) -> None:
        self._world.history.note("steward", operation, INVOKE, topic)
        outcome = await self._call(self._broker(), Request(method, _path(topic), {"force": "true"}))
        self._world.history.note("steward", operation, outcome_phase(outcome), topic, error=outcome_error(outcome))

    async def _terminate(self, topic: str) -> None:
        """Ends the topic permanently: producers are refused from now on."""
        self._world.history.note("steward", record.TERMINATE, INVOKE, topic)
        outcome = await self._call(self._broker(), Request("POST", f"{_path(topic)}/terminate"))
        place = None
        if outcome is not None and outcome[0] == 200:
            end = json.loads(outcome[1])
            place = (end["ledgerId"], end["entryId"], 0)
        self._world.history.note(
            "steward", record.TERMINATE, outcome_phase(outcome), topic, place=place, error=outcome_error(outcome)
        )

    async def _set(self, key: str, value: str) -> None:
        path = f"/admin/v2/namespaces/{NAMESPACE}/property/{key}/{value}"
        await self._setting(key, value, Request("PUT", path))

    async def _grow(self, count: int) -> None:
        path = f"/admin/v2/persistent/{NAMESPACE}/{GROWING}/partitions"
        method = "PUT" if count == 1 else "POST"
        ended = await self._setting(GROWING, str(count), Request(method, path, headers=JSON, body=str(count).encode()))
        if ended == OK:
            self._partitions = count

    async def _setting(self, key: str, value: str, request: Request) -> str:
        self._world.history.note("steward", record.SET, INVOKE, key=key, to=value)
        outcome = await self._call(self._broker(), request)
        self._world.history.note(
            "steward", record.SET, outcome_phase(outcome), key=key, to=value, error=outcome_error(outcome)
        )
        return outcome_phase(outcome)


def _path(topic: str) -> str:
    return f"/admin/v2/{topic.replace('://', '/')}"
