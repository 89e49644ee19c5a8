"""How consumers of a world move their subscription: the target, and the lines they record.

The target is the beginning, the end, or a time in the past by the producers' clock. A seek forward records its time
(fact `since`): messages are published when they are sent or later, so it skips what was sent before. A seek with an
unknown outcome may still take effect. If a call of the client fails, an earlier attempt of the same call may have begun
the seek.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any, Protocol

from magnetar.base.errors import Conflict, MagnetarError
from magnetar.client.consumer.config import InitialPosition
from simulation import history as record
from simulation.environment.inline_runtime import EPOCH_MS
from simulation.history import INVOKE, OK, UNKNOWN

SEEKS = 0.02  # of the messages are followed by a seek, where the subscription is moved at all
TO_BEGINNING, TO_END = 0.25, 0.15  # of the seeks of who goes to times too
TICK_S = 0.001  # publish times are milliseconds

Target = InitialPosition | int


class SeekingProcess(Protocol):
    name: str

    def note(self, operation: str, phase: str, **more: Any) -> None: ...

    def _failed(self, operation: str, error: MagnetarError, **more: Any) -> None: ...


def draw_target(chance: random.Random, now_s: float) -> Target:
    """A time within the world so far."""
    draw = chance.random()
    if draw < TO_BEGINNING:
        return InitialPosition.EARLIEST
    if draw < TO_BEGINNING + TO_END:
        return InitialPosition.LATEST
    return EPOCH_MS + round(chance.uniform(0.0, now_s) * 1000)


async def seek(process: SeekingProcess, consumer: Any, to: Target, **facts: Any) -> bool:
    """Returns whether it succeeded."""
    loop = asyncio.get_running_loop()
    if isinstance(to, int):
        facts = {**facts, "since": (to - EPOCH_MS) / 1000 + TICK_S, "by_time": True}
    elif to is InitialPosition.LATEST:
        facts = {**facts, "since": loop.time()}
    process.note(record.SEEK, INVOKE, **facts)
    try:
        await consumer.seek(to)
    except MagnetarError as error:
        if isinstance(error, Conflict) or "since" in facts:
            process.note(record.SEEK, UNKNOWN, error=type(error).__name__, **facts)
        else:
            process._failed(record.SEEK, error, **facts)
        return False
    if to is InitialPosition.LATEST:
        facts["since"] = loop.time()
    process.note(record.SEEK, OK, **facts)
    return True
