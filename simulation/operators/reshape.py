"""The operator who creates the scalable topics of a world, splits and merges them under load, and compares the result.

It splits by halves, at chosen points and into several children, and merges two or more neighbours. It also creates
subscriptions without consumers, and a topic of its own that is deleted and created again. It records requests and
answers; the record of the topic has the results.
"""

from __future__ import annotations

import asyncio
import json
import random
from typing import TYPE_CHECKING, Any

from magnetar.admin.request import Request
from simulation import history as record
from simulation.history import INVOKE, OK
from simulation.operators.operator import (
    Operator,
    outcome_error,
    outcome_phase,
    rest_request,
)
from simulation.operators.topic_admin import JSON
from simulation.world.scalable import DOOMED, ScalablePlan
from simulation.world.workload import TopicPlan

if TYPE_CHECKING:
    from simulation.world.cluster import ClusterWorld

POINTS = 0x400  # a range is cut at a multiple of this: every one has keys
OPERATION_S = 70.0  # longer than a broker waits for a reshape
CREATE_TRIES_MAX = 60
IDLE = ("idle0", "idle1")  # subscriptions without consumers


class ReshapeOperator(Operator):
    def __init__(self, world: ClusterWorld, chance: random.Random, plan: ScalablePlan) -> None:
        super().__init__(world, chance)
        self._plan = plan
        self._doing: dict[tuple[str, str], asyncio.Lock] = {}

    async def make(self) -> None:
        """Every topic, before anything breaks."""
        for topic in self._world.config.topics:
            if topic.regular:
                await self._create_plain(topic)
            else:
                await self._create(topic.topic)

    async def run(self, pause_s: float) -> None:
        """Reshapes, one after another or several concurrently, until the world is over."""
        under_way: list[asyncio.Task[None]] = []
        while not self.over:
            await asyncio.sleep(self._chance.expovariate(1 / self._plan.reshape_s))
            under_way = [task for task in under_way if not task.done()]
            if len(under_way) < 3:
                under_way.append(asyncio.get_running_loop().create_task(self._something()))
        for task in under_way:
            await task

    async def query_all_brokers(self) -> None:
        """All brokers of a healed world show the same layout."""
        for plan in self._world.config.topics:
            for broker in self._world.config.brokers:
                await self._get(broker, _path(plan.topic))
                listing = await self._get(broker, f"{_path(plan.topic)}/subscriptions")
                self._world.history.note(broker, record.LIST, OK, plan.topic, subscriptions=sorted(listing))
        self._world.store_recorder.inventory()

    # Doing

    async def _something(self) -> None:
        if self._plan.doomed and self._chance.random() < 0.2:
            await self._change_doomed()
            return
        topics = [plan.topic for plan in self._world.config.topics]
        if self._plan.idle and self._chance.random() < 0.3:
            await self._change_idle(self._chance.choice(topics))
            return
        await self._reshape(self._chance.choice([*topics, DOOMED] if self._plan.doomed else topics))

    async def _reshape(self, topic: str) -> None:
        outcome = await self._call(self._broker(), rest_request("GET", _path(topic)))
        if outcome is None or outcome[0] != 200:
            return
        segments = json.loads(outcome[1])["segments"].values()
        active = sorted((each for each in segments if each["state"] == "ACTIVE"), key=lambda each: _range(each)[0])
        if not active:
            return
        wish = self._merge(active) if self._merges(len(active)) else self._split(active)
        if wish is None:
            return
        kind, ids, path = wish
        self._world.history.note("shaper", record.RESHAPE, INVOKE, topic, kind=kind, segments=ids)
        done = await self._call(self._broker(), rest_request("POST", f"{_path(topic)}/{path}"), OPERATION_S)
        self._world.history.note(
            "shaper", record.RESHAPE, outcome_phase(done), topic, kind=kind, segments=ids, error=outcome_error(done)
        )

    def _merges(self, active: int) -> bool:
        if active >= self._plan.active_max:
            return True
        return active > 1 and self._chance.random() < 0.45

    def _merge(self, active: list[dict[str, Any]]) -> tuple[str, list[int], str] | None:
        count = min(len(active), self._chance.choice((2, 2, 2, 3, 4)))
        first = self._chance.randrange(len(active) - count + 1)
        ids = [each["segmentId"] for each in active[first : first + count]]
        if count == 2 and self._chance.random() < 0.5:
            return "merge", ids, f"merge/{ids[0]}/{ids[1]}"
        return "merge", ids, "merge?segments=" + ",".join(map(str, ids))

    def _split(self, active: list[dict[str, Any]]) -> tuple[str, list[int], str] | None:
        wide = [each for each in active if _range(each)[1] - _range(each)[0] >= 4 * POINTS - 1]
        if not wide:
            return None
        segment = self._chance.choice(wide)
        start, end = _range(segment)
        draw = self._chance.random()
        way = ""
        if draw < 0.3:
            points = range((start // POINTS + 1) * POINTS, end + 1, POINTS)
            way = f"?at={self._chance.choice(points):04x}"
        elif draw < 0.5:
            way = f"?into={self._chance.choice((3, 4))}"
        return "split", [segment["segmentId"]], f"split/{segment['segmentId']}{way}"

    async def _create(self, topic: str) -> None:
        await self._made(topic, rest_request("PUT", f"{_path(topic)}?numInitialSegments={self._plan.segments}"))

    async def _create_plain(self, topic: TopicPlan) -> None:
        path = f"/admin/v2/{topic.address.replace('://', '/')}"
        request = Request("PUT", path)
        if topic.partitions:
            body = str(topic.partitions).encode()
            request = Request("PUT", f"{path}/partitions", headers=JSON, body=body)
        await self._made(topic.address, request)

    async def _made(self, topic: str, request: Request) -> None:
        for _ in range(CREATE_TRIES_MAX):
            outcome = await self._call(self._broker(), request)
            if outcome is not None and (outcome[0] < 300 or outcome[0] == 409):
                return
            await asyncio.sleep(0.2)
        raise AssertionError(f"{topic} cannot be made: {outcome}")

    async def _change_idle(self, topic: str) -> None:
        """Creates or removes a subscription without consumers, during reshapes."""
        name = self._chance.choice(IDLE)
        doing = self._doing.setdefault((topic, name), asyncio.Lock())  # one operator, one thing at a time
        async with doing:
            operation, method = self._chance.choice(((record.SUBSCRIBE, "PUT"), (record.UNSUBSCRIBE, "DELETE")))
            facts: dict[str, Any] = {"subscription": name, "type": "Stream", "earliest": True}
            self._world.history.note("shaper", operation, INVOKE, topic, **facts)
            outcome = await self._call(
                self._broker(), rest_request(method, f"{_path(topic)}/subscriptions/{name}"), OPERATION_S
            )
            self._world.history.note(
                "shaper", operation, outcome_phase(outcome), topic, error=outcome_error(outcome), **facts
            )

    async def _change_doomed(self) -> None:
        operation, method = self._chance.choice(((record.CREATE, "PUT"), (record.DELETE, "DELETE")))
        self._world.history.note("shaper", operation, INVOKE, DOOMED)
        outcome = await self._call(self._broker(), rest_request(method, f"{_path(DOOMED)}?force=true"), OPERATION_S)
        self._world.history.note("shaper", operation, outcome_phase(outcome), DOOMED, error=outcome_error(outcome))


def _range(segment: dict[str, Any]) -> tuple[int, int]:
    hash_range = segment["hashRange"]
    return int(hash_range["start"]), int(hash_range["end"])


def _path(topic: str) -> str:
    return f"/admin/v2/scalable/{topic.removeprefix('topic://')}"
