"""The entries for a dispatcher: immediately from memory near the tail, otherwise in blocks that are read from files.

A source has at most one read in flight, and keeps its result until the next one, or until the memory of all blocks
(`ledger/block_cache.py`) takes it back. `take` never waits: it returns entries, or None after it has made sure that
`arrived` will be called when entries are available.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from magnetar.base.errors import MagnetarError, NotFound
from magnetar.base.ids import Position
from magnetar.base.limits import BACKLOG_READ_BYTES_MAX, BACKLOG_READ_ENTRIES_MAX, READ_RETRY_S
from magnetar.ledger.run import Run
from magnetar.observe.log import get

if TYPE_CHECKING:
    from magnetar.topic.topic import Topic

log = get("dispatch")


class EntrySource:
    __slots__ = ("_arrived", "_block", "_blocks", "_generation", "_topic", "failed", "reading")

    def __init__(self, topic: Topic, arrived: Callable[[], None]) -> None:
        self._topic = topic
        self._arrived = arrived
        self._block: Run | None = None
        self._blocks = topic.managed.config.blocks
        self.reading = False
        self._generation = 0
        self.failed: MagnetarError | None = None

    def take(self, start: Position) -> tuple[Run, int] | None:
        """A run and the index in it of the first entry at or after `start` that exists and may be read."""
        block = self._block
        if block is not None and block.ledger == start.ledger and block.first <= start.entry <= block.last:
            return block, start.entry - block.first
        topic = self._topic
        readable = topic.readable
        if start > readable:
            return None
        run = topic.managed.cached(start, BACKLOG_READ_BYTES_MAX, BACKLOG_READ_ENTRIES_MAX)
        if run is None:
            start = topic.managed.next_valid(start)
            if start > readable:
                return None
            if block is not None and block.ledger == start.ledger and block.first <= start.entry <= block.last:
                return block, start.entry - block.first
            run = topic.managed.cached(start, BACKLOG_READ_BYTES_MAX, BACKLOG_READ_ENTRIES_MAX)
        if run is not None:
            if run.ledger == readable.ledger and run.last > readable.entry:
                run = run.slice(0, readable.entry - run.first + 1)
            return run, start.entry - run.first
        if not self.reading and not topic.closed:
            self.reading = True
            topic.runtime.spawn(topic.owner, self._read(start, self._generation))
        return None

    def reset(self) -> None:
        """The dispatcher moves to another position: reads in flight and kept entries are dropped."""
        self._keep(None)
        self._generation += 1

    def release(self) -> None:
        """The block is not needed now, or its memory is needed elsewhere: `take` reads it again."""
        self._keep(None)

    def _keep(self, run: Run | None) -> None:
        if run is not None:
            self._blocks.put(self, run)
        elif self._block is not None:
            self._blocks.drop(self)
        self._block = run

    async def _read(self, start: Position, generation: int) -> None:
        topic = self._topic
        try:
            async with self._blocks.reads:
                run = None
                if generation == self._generation:  # else the dispatcher jumped elsewhere while this read waited
                    run = await topic.managed.read(start, self._blocks.read_bytes, BACKLOG_READ_ENTRIES_MAX)
            self.failed = None
        except MagnetarError as error:
            if not isinstance(error, NotFound) or topic.managed.has(start):
                self._put_off(start, error)
                return
            run = None  # trimmed or deleted during the read: the next take starts at the first entry that exists
        self.reading = False
        if generation == self._generation:
            self._keep(run)
        self._arrived()

    def _put_off(self, start: Position, error: MagnetarError) -> None:
        """Bytes lie or the disk does not answer: skip nothing, say so once, look again later."""
        if self.failed is None:
            log.error("entry_read_failed", topic=str(self._topic.name), position=str(start), error=str(error))
        self.failed = error
        self._topic.later(READ_RETRY_S, self._again)

    def _again(self) -> None:
        self.reading = False
        self._arrived()
