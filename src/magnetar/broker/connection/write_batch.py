"""Connections with answers that leave together at the end of this turn of the loop.

Runs of many topics become durable with one sync and are answered in one turn: without this, a client that publishes to
many topics over one connection would cost a system call for each of them. One callback for all connections of a turn.
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
        """Its `flush` is called when everything of this turn has been done."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._over)
        self._waiting.append(writer)

    def _over(self) -> None:
        waiting, self._waiting = self._waiting, []
        for writer in waiting:
            writer.flush()
