"""Flushes dirty cursors: one task for all cursors of a broker, without a timer for each.

A cursor reports once that it has changes, and is written at the next tick. A large one waits for a number of ticks that
grows with its last snapshot, because each snapshot is whole. A failed flush is tried again at a later tick, except if
the owner was fenced. The flusher decides nothing about acknowledgements, and bounds the number of concurrent snapshots.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from magnetar.base.errors import Closed, Fenced, MagnetarError
from magnetar.base.limits import CURSOR_FLUSH_BYTES, CURSOR_FLUSH_S, CURSOR_FLUSH_S_MAX, CURSOR_FLUSHES_MAX
from magnetar.observe.log import get
from magnetar.runtime.runtime import Owner, Runtime

if TYPE_CHECKING:
    from magnetar.ledger.cursor.cursor import Cursor

log = get("cursor")


class CursorFlusher:
    def __init__(
        self, runtime: Runtime, interval_s: float = CURSOR_FLUSH_S, tick_bytes: int = CURSOR_FLUSH_BYTES
    ) -> None:
        self._runtime = runtime
        self._interval_s = interval_s
        self._tick_bytes = tick_bytes  # a snapshot of this size may be written every tick
        self._owner = Owner("cursor flusher")
        self._cursors: dict[Cursor, float] = {}  # when it may be flushed next
        self._touched: dict[Cursor, None] = {}
        self._ready: deque[Cursor] = deque()
        self._busy = 0

    def start(self, owner: Owner) -> None:
        """Tick until the owner is closed."""
        self._runtime.spawn(owner, self._tick_for_ever())

    def add(self, cursor: Cursor) -> None:
        self._cursors[cursor] = 0.0
        cursor.touched = self._note
        if cursor.dirty:
            self._note(cursor)

    def discard(self, cursor: Cursor) -> None:
        self._cursors.pop(cursor, None)
        self._touched.pop(cursor, None)
        cursor.touched = None

    def tick(self) -> None:
        """Starts to flush the dirty cursors that are due."""
        now = self._runtime.monotonic()
        due = [cursor for cursor in self._touched if self._cursors.get(cursor, now) <= now]
        for cursor in due:
            del self._touched[cursor]
        self._ready.extend(due)
        self._pump()

    async def close(self) -> None:
        """Stop; cursors flush themselves when they are closed."""
        self._ready.clear()
        await self._owner.close()

    async def _tick_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            self.tick()

    def _note(self, cursor: Cursor) -> None:
        self._touched[cursor] = None

    def _pump(self) -> None:
        while self._ready and self._busy < CURSOR_FLUSHES_MAX and not self._owner.closed:
            cursor = self._ready.popleft()
            if cursor in self._cursors:
                self._busy += 1
                self._runtime.spawn(self._owner, self._flush(cursor))

    async def _flush(self, cursor: Cursor) -> None:
        try:
            await cursor.flush()
        except (Fenced, Closed) as error:
            log.warning("cursor_flush_failed", path=cursor.managed.path, cursor=cursor.name, error=str(error))
        except MagnetarError as error:
            log.warning("cursor_flush_postponed", path=cursor.managed.path, cursor=cursor.name, error=str(error))
            self._again(cursor)
        finally:
            self._busy -= 1
        if cursor in self._cursors:
            self._cursors[cursor] = self._runtime.monotonic() + self._pause_s(cursor)
        self._pump()

    def _again(self, cursor: Cursor) -> None:
        if cursor in self._cursors:
            self._note(cursor)

    def _pause_s(self, cursor: Cursor) -> float:
        """How long a cursor rests after a flush: nothing beyond the tick unless it is large."""
        if cursor.snapshot_bytes <= self._tick_bytes:
            return 0.0
        return min(CURSOR_FLUSH_S_MAX, self._interval_s * cursor.snapshot_bytes / self._tick_bytes)
