"""Limits for connections that have not completed CONNECT: a short time, few bytes each, and a bounded number.

Such a connection is not authorized for anything, so all of them together hold a bounded amount of memory: this number
times the largest frame that they may send. Above the bound the oldest one is closed, not the newest, because a regular
client sends CONNECT immediately.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from magnetar.base.limits import HANDSHAKE_S, HANDSHAKES_MAX


class PendingHandshake(Protocol):
    def abort(self, reason: str) -> None: ...


class HandshakeLimiter:
    """`abort` must lead to `leave`."""

    def __init__(self, handshakes_max: int = HANDSHAKES_MAX) -> None:
        self._strangers_max = handshakes_max
        self._until: dict[PendingHandshake, float] = {}  # the oldest first
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._until)

    def add(self, connection: PendingHandshake) -> None:
        if len(self._until) >= self._strangers_max:
            oldest = next(iter(self._until))
            self.leave(oldest)
            oldest.abort(f"more than {self._strangers_max} connections have not sent CONNECT; this one is the oldest")
        loop = asyncio.get_running_loop()
        self._until[connection] = loop.time() + HANDSHAKE_S
        if self._timer is None:
            self._timer = loop.call_later(HANDSHAKE_S, self._time_is_up)

    def leave(self, connection: PendingHandshake) -> None:
        """The connection completed CONNECT or is closed."""
        self._until.pop(connection, None)
        if not self._until and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_is_up(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in [one for one, until in self._until.items() if until <= now]:
            self.leave(connection)
            connection.abort(f"no CONNECT within {HANDSHAKE_S:.0f} s")
        if self._until and self._timer is None:
            self._timer = loop.call_at(next(iter(self._until.values())), self._time_is_up)
