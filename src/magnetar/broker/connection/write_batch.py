"""Connections whose answers are written together at the end of the current turn of the loop.

Messages of many topics become durable with one sync and are answered in one turn. Without this module, a client that
publishes to many topics over one connection would cost a system call per topic. All connections of a turn share one
callback.
"""

from __future__ import annotations

import asyncio
from typing import Protocol


class Flushable(Protocol):
    def flush(self) -> None: ...


class WriteBatch:
    """Used on the loop."""

    def __init__(self) -> None:
        self._waiting: list[Flushable] = []

    def add(self, writer: Flushable) -> None:
        """Calls `flush` of the writer at the end of this turn."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._over)
        self._waiting.append(writer)

    def _over(self) -> None:
        waiting, self._waiting = self._waiting, []
        for writer in waiting:
            writer.flush()
