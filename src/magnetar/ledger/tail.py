"""The newest runs of every topic, kept as they came, so that consumers at the tail never read files.

One `TailCache` is shared by all topics of a broker and bounds them together: the oldest run of all is dropped first. A
`Tail` is one topic's part. A topic without readers keeps a few runs only: the memory of an older run serves the next
one while the processor still has it in its caches. Nothing is copied: a run is held by reference and returned whole, or
as a slice over the same body. Pure; the owner puts only confirmed runs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque

from magnetar.base.ids import Position
from magnetar.base.limits import TAIL_CACHE_BYTES_MAX, TAIL_UNREAD_RUNS_MAX
from magnetar.ledger.run import Run

_ENTRY_BYTES = 80  # offsets and counts of an entry, beside its body
_RUN_BYTES = 300
_HEAD_MAX = 256


class TailCache:
    def __init__(self, bytes_max: int = TAIL_CACHE_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0
        self._order: deque[Tail] = deque()  # one item per run, oldest first
        self._stale = 0  # items of tails that were cleared

    def put(self, tail: Tail, run: Run) -> None:
        self.bytes += len(run.body) + _ENTRY_BYTES * len(run.counts) + _RUN_BYTES
        runs = tail._runs
        runs.append(run)
        tail._firsts.append((run.ledger, run.first))
        if not tail.wanted and len(runs) - tail._head > TAIL_UNREAD_RUNS_MAX:
            # Takes the place of the oldest run, also in the order of all.
            oldest = runs.pop(tail._head)
            del tail._firsts[tail._head]
            assert oldest is not None
            self.bytes -= len(oldest.body) + _ENTRY_BYTES * len(oldest.counts) + _RUN_BYTES
            return
        self._order.append(tail)
        while self.bytes > self.bytes_max and self._order:
            self.bytes -= self._order.popleft().pop()

    def clear(self, tail: Tail) -> None:
        """The topic is closed: its runs go, and its items in the order as soon as they are many."""
        self._stale += len(tail)
        while len(tail):
            self.bytes -= tail.pop()
        tail.closed = True
        if self._stale * 2 > len(self._order):
            self._order = deque(other for other in self._order if not other.closed)
            self._stale = 0


class Tail:
    __slots__ = ("_firsts", "_head", "_runs", "closed", "wanted")

    def __init__(self) -> None:
        self._runs: list[Run | None] = []  # None before the head: a popped run is released
        self._firsts: list[tuple[int, int]] = []  # plain tuples: a position would be made for each run
        self._head = 0
        self.closed = False
        self.wanted = True  # a client has read here: all runs are kept while memory allows

    def __len__(self) -> int:
        return len(self._runs) - self._head

    def pop(self) -> int:
        """Forget the oldest run; returns the bytes that this frees, 0 when there is none."""
        if self._head == len(self._runs):
            return 0
        run = self._runs[self._head]
        assert run is not None
        cost = len(run.body) + _ENTRY_BYTES * len(run.counts) + _RUN_BYTES
        self._runs[self._head] = None
        self._head += 1
        if self._head == len(self._runs) or (self._head > _HEAD_MAX and self._head * 2 > len(self._runs)):
            del self._runs[: self._head]
            del self._firsts[: self._head]
            self._head = 0
        return cost

    def read(self, start: Position, bytes_max: int, entries_max: int) -> Run | None:
        """Entries from exactly `start` on, at least one, out of one run; None when they are not here."""
        at = bisect_right(self._firsts, start, self._head) - 1
        if at < self._head:
            return None
        run = self._runs[at]
        assert run is not None
        index = start[1] - run.first
        if run.ledger != start[0] or index >= len(run):
            return None
        offsets = run.offsets
        stop = min(len(run), index + entries_max)
        if offsets[stop] - offsets[index] > bytes_max:
            stop = max(index + 1, bisect_right(offsets, offsets[index] + bytes_max, index, stop + 1) - 1)
        return run if index == 0 and stop == len(run) else run.slice(index, stop)
