"""The writer of one ledger for runs: stores each entry with its counts, and answers once for a run.

A run is acknowledged when its last entry is. The first failure ends the writer: the runs in flight and all later ones
fail, each once, in order. Copies, bookies and the seal are the work of the client's ledger handle.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from operator import sub

from magnetar.base.errors import Closed, Fenced, LimitExceeded, MagnetarError, Misuse, NoSuchLedger
from magnetar.ledger.bookkeeper.engine.counted_entry import encode_entries
from magnetar.ledger.bookkeeper.engine.shared_ledger import SharedLedger
from magnetar.ledger.bookkeeper.ledger_handle import LedgerHandle
from magnetar.ledger.run import Run
from magnetar.ledger.store import Done


class BookKeeperWriter:
    __slots__ = (
        "_bytes",
        "_ended",
        "_entry_bytes_max",
        "_in_flight",
        "_length",
        "_messages",
        "_messages_stored",
        "_next",
        "_sealing",
        "_shared",
        "error",
        "handle",
        "ledger",
    )

    def __init__(
        self, handle: LedgerHandle, shared: SharedLedger, *, entry_bytes_max: int, ended: Callable[[], object]
    ) -> None:
        """`ended` is called when the writer takes no more runs."""
        self.ledger = handle.ledger
        self.handle = handle
        self.error: MagnetarError | None = None  # why no run is taken any more
        self._shared = shared
        self._entry_bytes_max = entry_bytes_max
        self._ended = ended
        self._in_flight: deque[tuple[Run, Done]] = deque()
        self._next = 0
        self._messages = self._bytes = 0  # of all runs that were given
        self._messages_stored = self._length = 0  # of those that are acknowledged
        self._sealing = asyncio.Lock()

    @property
    def lac(self) -> int:
        return self._shared.last_entry

    @property
    def length(self) -> int:
        return self._length

    def append(self, run: Run, done: Done) -> None:
        if not run.counts:
            raise Misuse("a run must have at least one entry", ledger=self.ledger)
        if max(map(sub, run.offsets[1:], run.offsets)) > self._entry_bytes_max:
            raise LimitExceeded(
                "the entry is larger than a frame of the bookies: raise nettyMaxFrameSizeBytes there",
                bytes_max=self._entry_bytes_max,
            )
        if self.error is not None:
            asyncio.get_running_loop().call_soon(done, -1, self.error)
            return
        stored = encode_entries(run, self._messages, self._bytes)
        run.ledger, run.first = self.ledger, self._next
        self._next += len(stored)
        self._messages += run.messages
        self._bytes += run.size
        self._in_flight.append((run, done))
        for payload in stored:
            self.handle.append(payload, self._answered)

    async def close(self) -> None:
        async with self._sealing:
            if self._shared.sealed and isinstance(self.error, Closed):
                return
            if isinstance(self.error, Fenced | NoSuchLedger):
                raise self.error
            self.fail(Closed("the writer is closed", ledger=self.ledger))
            try:
                await self.handle.close()
            except Fenced as error:
                self.error = error
                raise
            self._shared.extend(self.handle.lac, self.handle.metadata)

    def fail(self, error: MagnetarError) -> None:
        """Ends the writer: the runs in flight get this error in a later turn of the loop, in order."""
        if self.error is None:
            self.error = error
            self._shared.extend(self._shared.last_entry, self.handle.metadata)
            self._ended()
        failed, self._in_flight = self._in_flight, deque()
        for _, done in failed:
            asyncio.get_running_loop().call_soon(done, -1, self.error)

    def _answered(self, entry: int, error: MagnetarError | None) -> None:
        """One entry is stored on enough bookies, or the handle is dead."""
        if self.error is not None:
            return
        if error is not None:
            self.fail(error)
            return
        run, done = self._in_flight[0]
        if entry != run.last:
            return
        self._in_flight.popleft()
        self._messages_stored += run.messages
        self._length += run.size
        self._shared.index.append(entry + 1, self._messages_stored, self._length)
        self._shared.last_entry = entry
        done(run.first, None)
