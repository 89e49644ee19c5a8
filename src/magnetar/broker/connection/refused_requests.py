"""Refused requests of one connection: above a rate the broker stops reading the connection for a while.

A client that repeats a request which cannot succeed costs the broker work and log lines without end. The pause slows it
down and needs no action of the client: everything that it sent is answered later. The count covers whole seconds of the
loop's clock, from the first refusal on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from magnetar.base.limits import CONNECTION_REFUSALS_PER_S_MAX, REFUSALS_PAUSE_S


class RefusedRequests:
    """`pause` stops the reading; `resume` continues it unless there are other reasons."""

    __slots__ = ("_count", "_pause", "_resume", "_since", "_timer")

    def __init__(self, pause: Callable[[], None], resume: Callable[[], None]) -> None:
        self._pause = pause
        self._resume = resume
        self._count = 0
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def pausing(self) -> bool:
        return self._timer is not None

    def add(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        if now - self._since >= 1.0:
            self._since, self._count = now, 0
        self._count += 1
        if self._count > CONNECTION_REFUSALS_PER_S_MAX and self._timer is None:
            self._timer = loop.call_later(REFUSALS_PAUSE_S, self._over)
            self._pause()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _over(self) -> None:
        self._timer = None
        self._count = 0
        self._resume()
