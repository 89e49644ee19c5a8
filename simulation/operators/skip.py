"""The operator who moves subscriptions of scalable topics to the end, now and then, under their consumers.

It does one skip after another and waits for each; the history records an unknown outcome. It uses only subscriptions
that no other process moves.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

from simulation import history as record
from simulation.history import FAIL, INVOKE, UNKNOWN
from simulation.operators.operator import (
    Operator,
    outcome_error,
    outcome_phase,
    rest_request,
)
from simulation.operators.reshape import OPERATION_S, _path

if TYPE_CHECKING:
    from simulation.world.cluster import ClusterWorld

PAUSE_S = 2.0  # between two of them, on average


class SkipOperator(Operator):
    def __init__(self, world: ClusterWorld, chance: random.Random) -> None:
        super().__init__(world, chance)
        plans = world.config.topics
        self._moved = [(topic.topic, plan.name) for topic in plans for plan in topic.subscriptions if plan.skipped]

    @property
    def idle(self) -> bool:
        return not self._moved

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._chance.expovariate(1 / PAUSE_S))
            if self.over:
                return
            await self._skip(*self._chance.choice(self._moved))

    async def _skip(self, topic: str, subscription: str) -> None:
        """May skip what was sent before its outcome is known; consumers may still acknowledge the messages that they
        have."""
        history, loop = self._world.history, asyncio.get_running_loop()
        history.note("mover", record.SEEK, INVOKE, topic, subscription=subscription, since=loop.time(), acks_kept=True)
        path = f"{_path(topic)}/subscriptions/{subscription}/skip-all"
        outcome = await self._call(self._broker(), rest_request("POST", path), OPERATION_S)
        ended = outcome_phase(outcome)
        if ended == FAIL and outcome is not None and outcome[0] == 409:
            ended = UNKNOWN  # another one took its place, or what an earlier leader had begun of it goes on
        facts: dict[str, Any] = {"since": loop.time(), "acks_kept": True}
        history.note(
            "mover", record.SEEK, ended, topic, subscription=subscription, error=outcome_error(outcome), **facts
        )
