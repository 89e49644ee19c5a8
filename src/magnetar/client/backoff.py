"""How long to wait before trying again: doubling from a tenth of a second to a minute, with a little chance in it so
that a thousand clients do not come back at once. `persist` repeats a call that is safe to repeat until a deadline.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from magnetar.base.errors import Conflict, MagnetarError, Moved, TimedOut, Unavailable, Unknown
from magnetar.base.limits import CLIENT_BACKOFF_S_MAX, CLIENT_BACKOFF_S_MIN
from magnetar.runtime.runtime import Runtime

T = TypeVar("T")

_JITTER = 0.1  # the wait is up to this much shorter than its step


class Backoff:
    """The steps of one thing that is tried again; `reset` when it worked."""

    def __init__(
        self, chance: random.Random, *, first_s: float = CLIENT_BACKOFF_S_MIN, max_s: float = CLIENT_BACKOFF_S_MAX
    ) -> None:
        self._chance = chance
        self._first_s = first_s
        self._max_s = max_s
        self._next_s = first_s

    def next_s(self) -> float:
        step, self._next_s = self._next_s, min(self._next_s * 2, self._max_s)
        return step * (1 - _JITTER * self._chance.random())

    def reset(self) -> None:
        self._next_s = self._first_s


def passing(error: MagnetarError) -> bool:
    """May the same question have another answer soon? For calls that are safe to repeat."""
    return isinstance(error, Unavailable | Unknown | Moved) or type(error) is Conflict


async def persist(
    runtime: Runtime, timeout_s: float, call: Callable[[], Awaitable[T]], *, what: str, stream: str = "client.backoff"
) -> T:
    """Repeat `call` while it fails in passing; after `timeout_s` the last failure is the cause of `TimedOut`."""
    deadline = runtime.monotonic() + timeout_s
    backoff = Backoff(runtime.rng(stream))
    while True:
        try:
            return await call()
        except MagnetarError as error:
            if not passing(error):
                raise
            wait_s = backoff.next_s()
            if runtime.monotonic() + wait_s >= deadline:
                raise TimedOut(f"{what}: no success within {timeout_s:g} s, at last: {error}") from error
        await asyncio.sleep(wait_s)
