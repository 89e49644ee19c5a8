"""How consumers of a simulated world move their subscription: where to, and what is written down about it.

The beginning, the end, or a time of the past, by the clock of those who publish. What is passed over by a seek forward
is known by when it was sent (fact `since`), for a message is published when it is sent or later. A seek whose end
nobody heard may still happen; one of our client that failed may have been begun by an earlier try of the same call.
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

To = InitialPosition | int


class Sought(Protocol):
    name: str

    def note(self, operation: str, phase: str, **more: Any) -> None: ...

    def _failed(self, operation: str, error: MagnetarError, **more: Any) -> None: ...


def drawn(chance: random.Random, now_s: float) -> To:
    """Somewhere in the life of the world."""
    draw = chance.random()
    if draw < TO_BEGINNING:
        return InitialPosition.EARLIEST
    if draw < TO_BEGINNING + TO_END:
        return InitialPosition.LATEST
    return EPOCH_MS + round(chance.uniform(0.0, now_s) * 1000)


async def move(one: Sought, consumer: Any, to: To, **facts: Any) -> bool:
    """Whether it is done."""
    loop = asyncio.get_running_loop()
    if isinstance(to, int):
        facts = {**facts, "since": (to - EPOCH_MS) / 1000 + TICK_S, "by_time": True}
    elif to is InitialPosition.LATEST:
        facts = {**facts, "since": loop.time()}
    one.note(record.SEEK, INVOKE, **facts)
    try:
        await consumer.seek(to)
    except MagnetarError as error:
        if isinstance(error, Conflict) or "since" in facts:
            one.note(record.SEEK, UNKNOWN, error=type(error).__name__, **facts)
        else:
            one._failed(record.SEEK, error, **facts)
        return False
    if to is InitialPosition.LATEST:
        facts["since"] = loop.time()
    one.note(record.SEEK, OK, **facts)
    return True
