"""The blocks of backlogs in memory: what dispatchers read from files and have not handed out completely.

One `BlockCache` is shared by all dispatchers of a broker and bounds their blocks together: the block read first goes
first, and its dispatcher reads again when it needs one. Where the blocks of many dispatchers use half of the memory,
each reads a smaller one, so that all of them fit. The number of concurrent reads is bounded too. A block is charged
once, after its read: the path of a message does not ask here.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from magnetar.base.limits import (
    BACKLOG_BLOCKS_BYTES_MAX,
    BACKLOG_READ_BYTES_MAX,
    BACKLOG_READ_BYTES_MIN,
    BACKLOG_READS_MAX,
)
from magnetar.ledger.run import Run

_ENTRY_BYTES = 80  # offsets and counts of an entry, beside its body
_BLOCK_BYTES = 500  # its objects, and its place here


class BlockHolder(Protocol):
    def release(self) -> None:
        """Forgets its block."""


class BlockCache:
    def __init__(self, bytes_max: int = BACKLOG_BLOCKS_BYTES_MAX, reads_max: int = BACKLOG_READS_MAX) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0
        self.reads = asyncio.Semaphore(reads_max)  # entered for each read of a block
        self._sizes: dict[BlockHolder, int] = {}  # in the order of their reads

    def __len__(self) -> int:
        return len(self._sizes)

    @property
    def read_bytes(self) -> int:
        """The size of the next block: smaller ones only where half of the memory is used, since small backlogs that
        were read to their end still have a block each."""
        if self.bytes * 2 < self.bytes_max:
            return BACKLOG_READ_BYTES_MAX
        return max(BACKLOG_READ_BYTES_MIN, min(BACKLOG_READ_BYTES_MAX, self.bytes_max // (len(self._sizes) + 1)))

    def put(self, holder: BlockHolder, run: Run) -> None:
        """The holder keeps this block instead of an earlier one; others lose theirs if the sum is too large."""
        self.drop(holder)
        size = self._sizes[holder] = len(run.body) + _ENTRY_BYTES * len(run.counts) + _BLOCK_BYTES
        self.bytes += size
        while self.bytes > self.bytes_max and len(self._sizes) > 1:
            oldest = next(iter(self._sizes))
            self.drop(oldest)
            oldest.release()

    def drop(self, holder: BlockHolder) -> None:
        """The holder has no block any more."""
        self.bytes -= self._sizes.pop(holder, 0)
