"""The delay before a retry: it doubles from a tenth of a second, with a little jitter, so that a thousand clients do
not reconnect at the same moment. It stays short, because a topic whose owner is gone has another one within seconds.
Only while the broker limits the rate of requests does it grow to a minute. `persist` repeats an idempotent call until a
deadline.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from magnetar.base.errors import Conflict, MagnetarError, Moved, Throttled, TimedOut, Unavailable, Unknown, Unreachable
from magnetar.base.limits import CLIENT_BACKOFF_S_MAX, CLIENT_BACKOFF_S_MIN, CLIENT_RECONNECT_S_MAX, CLIENT_REFUSED_S
from magnetar.runtime.runtime import Runtime

T = TypeVar("T")

_JITTER = 0.1  # the wait is up to this much shorter than its step


class Backoff:
    """The delays of one retried operation; call `reset` when it succeeds."""

    def __init__(
        self, chance: random.Random, *, first_s: float = CLIENT_BACKOFF_S_MIN, max_s: float = CLIENT_BACKOFF_S_MAX
    ) -> None:
        self._chance = chance
        self._first_s = first_s
        self._max_s = max_s
        self._next_s = first_s

    def next_s(self, error: MagnetarError | None = None) -> float:
        """`error`: the reason for the retry."""
        step, self._next_s = self._next_s, min(self._next_s * 2, self._max_s)
        if not isinstance(error, Throttled):
            step = min(step, CLIENT_RECONNECT_S_MAX)
        return step * (1 - _JITTER * self._chance.random())

    def reset(self) -> None:
        self._next_s = self._first_s


def passing(error: MagnetarError) -> bool:
    """Whether the same request may soon have another answer. For calls that are safe to repeat."""
    return isinstance(error, Unavailable | Unknown | Moved) or type(error) is Conflict


def wait_of(error: MagnetarError, wait_s: float, *, elapsed_s: float, timeout_s: float) -> float | None:
    """The delay before the next attempt, None if this error is final. A first connection that every address refuses
    fails early: no broker listens there, and the user should see the error soon.
    """
    if isinstance(error, Unreachable):
        left_s = min(CLIENT_REFUSED_S, timeout_s) - elapsed_s
        return min(wait_s, left_s) if left_s > 0 else None
    return wait_s if elapsed_s + wait_s < timeout_s else None


def unreachable(error: Unreachable, elapsed_s: float) -> Unreachable:
    """The same error with its cause and remedy, for the user."""
    url = error.facts.get("url", "the service URL")
    return Unreachable(
        f"no broker listens at {url}: every attempt failed for {elapsed_s:.0f} s;"
        f" start the broker, or check host and port of the service URL ({error.what})"
    )


async def persist(
    runtime: Runtime, timeout_s: float, call: Callable[[], Awaitable[T]], *, what: str, stream: str = "client.backoff"
) -> T:
    """Repeat `call` while it fails with a temporary error. `TimedOut` after `timeout_s` includes the last error;
    `Unreachable` means that no broker listens.
    """
    begun = runtime.monotonic()
    backoff = Backoff(runtime.rng(stream))
    while True:
        try:
            return await call()
        except MagnetarError as error:
            if not passing(error):
                raise
            elapsed_s = runtime.monotonic() - begun
            wait_s = wait_of(error, backoff.next_s(error), elapsed_s=elapsed_s, timeout_s=timeout_s)
            if wait_s is None:
                if isinstance(error, Unreachable):
                    raise unreachable(error, elapsed_s) from None
                raise TimedOut(f"{what}: no success within {timeout_s:g} s, last error: {error}") from None
        await asyncio.sleep(wait_s)
