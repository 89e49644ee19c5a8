"""The content of the ledger engine in memory, shared by all handles, and the rates of its faults.

`LedgerMemory` stands for the bookies and their metadata: it knows which entries exist, who may still write, and whether
bookies can be reached. `LedgerFaultRates` is data: probabilities per run and upper bounds in virtual seconds, all off
by default; a world changes the fields while it runs. Nothing here waits.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from magnetar.ledger.run import Run
from magnetar.ledger.store import Quorum

if TYPE_CHECKING:
    from simulation.stores.ledgers import MemoryWriter


@dataclass(slots=True)
class LedgerFaultRates:
    delay_s: float = 0.0  # of every operation but appends
    append_s: float = 0.0  # until a run has landed, and again until its writer gets the answer
    fail: float = 0.0  # a run is refused for want of nodes, and its writer is dead
    lost_landed: float = 0.0  # a run has landed, its answer is lost, and its writer is dead
    lost_dropped: float = 0.0  # a run and its answer are lost, and its writer is dead
    slow: float = 0.0  # a run takes ...
    slow_s: float = 1.0  # ... up to so long
    late_ack: float = 0.0  # a run that a recovery kept is acknowledged although the recovery has returned (BookKeeper)
    half_run: float = 0.0  # a recovery, a crash or a lost answer keeps the first entries of one more run (BookKeeper)
    outage_hangs: float = 0.5  # of what meets an outage: it waits for its end; the rest fails

    def clear(self) -> None:
        for each in fields(self):
            if each.name not in ("slow_s", "outage_hangs"):
                setattr(self, each.name, 0.0)

    @property
    def is_perfect(self) -> bool:
        return not (self.append_s or self.fail or self.lost_landed or self.lost_dropped or self.slow)


@dataclass(slots=True)
class StoredLedger:
    """The stored content of one ledger."""

    ledger: int
    custom: dict[str, str]
    entries: list[bytes] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    sealed: bool = False
    writer: MemoryWriter | None = None
    quorum: Quorum | None = None

    def land(self, run: Run) -> None:
        assert not self.sealed
        self.entries += [bytes(run.entry(index)) for index in range(len(run))]
        self.counts += run.counts

    def land_part(self, run: Run, rng: random.Random) -> None:
        """The first entries of a run, at least one and not all: bookies store entries, not runs."""
        if len(run) > 1:
            self.land(run.slice(0, rng.randrange(1, len(run))))

    def seal(self, last_entry: int | None = None) -> None:
        if last_entry is not None:
            del self.entries[last_entry + 1 :]
            del self.counts[last_entry + 1 :]
        self.sealed = True

    @property
    def last_entry(self) -> int:
        """The last entry known to be acknowledged."""
        return len(self.entries) - 1 if self.sealed or self.writer is None else self.writer.lac


@dataclass(slots=True)
class LedgerMemory:
    """It survives every handle."""

    ledgers: dict[int, StoredLedger] = field(default_factory=dict)
    created: int = 0
    rng: random.Random = field(default_factory=lambda: random.Random(0))
    counts: Counter[str] = field(default_factory=Counter)  # faults met, by kind
    down_until_s: float = 0.0
    context: contextvars.Context = field(default_factory=contextvars.copy_context)  # no host's: it never pauses

    def later(self, delay_s: float, work: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(delay_s, work, context=self.context)

    def outage(self, seconds: float) -> None:
        """Too few bookies for anything, for every handle."""
        self.counts["outages"] += 1
        self.down_until_s = max(self.down_until_s, asyncio.get_running_loop().time() + seconds)

    def drawn(self, bound_s: float) -> float:
        return self.rng.uniform(0, bound_s) if bound_s else 0.0

    def chance(self, of: float, fault: str) -> bool:
        """Draws whether this fault happens now, and counts it."""
        met = bool(of) and self.rng.random() < of
        self.counts[fault] += met
        return met
