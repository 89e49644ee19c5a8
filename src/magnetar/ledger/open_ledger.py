"""One writer of a managed ledger, and the runs that it has not confirmed.

It counts what it was given, so that the clock and the rules of rolling are asked only where a limit may be reached.
What becomes of a run, and of a writer that dies, is its holder's to decide. Hot: one call for each run and one for each
answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from magnetar.base.errors import MagnetarError
from magnetar.ledger.run import Run
from magnetar.ledger.store import Writer

Appended = Callable[[Run, MagnetarError | None], None]


class Limits(NamedTuple):
    """Below all of them no roll is due."""

    entries: int
    bytes: int
    age_s: float


class Holder(Protocol):
    def due(self, pen: OpenLedger) -> bool:
        """Whether its ledger is to be rolled."""
        ...

    def confirmed(self, pen: OpenLedger, run: Run, done: Appended) -> None: ...

    def died(self, pen: OpenLedger, error: MagnetarError) -> None: ...


class OpenLedger:
    __slots__ = (
        "_bytes_max",
        "_entries_max",
        "_holder",
        "_now",
        "_old_at",
        "born",
        "bytes",
        "dead",
        "entries",
        "full",
        "in_flight",
        "kept_until",
        "writer",
    )

    def __init__(self, holder: Holder, writer: Writer, limits: Limits, now: Callable[[], float]) -> None:
        self._holder = holder
        self._entries_max, self._bytes_max, age_s = limits
        self._now = now
        self.writer = writer
        self.born = now()
        self._old_at = self.born + age_s
        self.entries = 0
        self.bytes = 0
        self.in_flight: deque[tuple[Run, Appended]] = deque()
        self.full = False
        self.dead = False
        self.kept_until = self.born  # a roll that was put off is not tried before

    def send(self, run: Run, done: Appended) -> None:
        self.entries += len(run.counts)
        self.bytes += run.size
        self.in_flight.append((run, done))
        self.writer.append(run, self._answered)
        if self.entries >= self._entries_max or self.bytes >= self._bytes_max or self._now() >= self._old_at:
            self.full = self._holder.due(self)

    def _answered(self, first: int, error: MagnetarError | None) -> None:
        if self.dead:
            return  # its runs have gone to another writer
        if error is None:
            run, done = self.in_flight.popleft()
            assert run.first == first
            self._holder.confirmed(self, run, done)
        else:
            self.dead = True
            self._holder.died(self, error)
