"""The operator who migrates plain topics to scalable ones, at some time in a world, under producers and consumers.

It repeats the request until the topic is shown as a scalable one, with force if it is refused without, and goes on in
the healed world: a migration that began must come to its end.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from simulation import history as record
from simulation.history import INVOKE, OK
from simulation.operators.operator import (
    Operator,
    outcome_error,
    outcome_phase,
    rest_request,
)
from simulation.operators.reshape import OPERATION_S, _path

if TYPE_CHECKING:
    from simulation.world.cluster import ClusterWorld

TRIES_MAX = 200
RETRY_S = 0.5


class MigrationOperator(Operator):
    def __init__(self, world: ClusterWorld, chance: random.Random) -> None:
        super().__init__(world, chance)
        self._topics = [plan.topic for plan in world.config.topics if plan.regular]

    @property
    def idle(self) -> bool:
        return not self._topics

    async def run(self) -> None:
        for topic in self._topics:
            await asyncio.sleep(self._chance.uniform(0.1, 0.9) * self._world.config.chaos_s)
            await self._migrate(topic)

    async def _migrate(self, topic: str) -> None:
        history = self._world.history
        for turn in range(TRIES_MAX):
            history.note("migrator", record.MIGRATE, INVOKE, topic)
            force = "?force=true" if turn else ""
            outcome = await self._call(
                self._broker(), rest_request("POST", f"{_path(topic)}/migrate{force}"), OPERATION_S
            )
            ended = outcome_phase(outcome)
            if ended != OK:
                shown = await self._call(self._broker(), rest_request("GET", _path(topic)))
                ended = OK if shown is not None and shown[0] == 200 else ended
            history.note("migrator", record.MIGRATE, ended, topic, error=outcome_error(outcome))
            if ended == OK:
                return
            await asyncio.sleep(RETRY_S)
        raise AssertionError(f"{topic} is not migrated in a healed world: {outcome_error(outcome)}")
