"""The contract of a ledger store. Read it as a specification; `tests/contract` runs it against every engine.

A ledger is an append-only list of entries numbered densely from 0, written by one writer and then sealed permanently.
An acknowledged entry is never lost; any other may or may not exist after a recovery. `open(recover=True)` fences: when
it returns, the ledger is sealed and its last entry fixed. From then on an earlier writer can only hear that an entry is
stored which the recovery kept; nothing that is not in the ledger is ever acknowledged.

Any failed append kills the writer: the runs behind it fail too, none of them is acknowledged, and the caller rolls to a
new ledger and sends them again. An entry that failed with an `Unknown` or `Fenced` error may show up after recovery:
callers must be able to bear it twice. A run is not atomic: a recovery may keep its first entries and lose the others.

An entry has bytes and a number of messages. Both numbers come from the store: from an index, or from the stored form of
the entry (`bookkeeper/engine/counted_entry.py`). All bytes in this contract are those that the caller appended, without
the block of counts that a stored form adds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from magnetar.base.errors import InvalidRange, MagnetarError
from magnetar.base.limits import ENSEMBLE_MAX
from magnetar.ledger.cut_points import CutPoints, CutRequest
from magnetar.ledger.run import Run

Done = Callable[[int, MagnetarError | None], None]  # (entry id of the run's first entry, or -1 with the error)


@dataclass(frozen=True, slots=True)
class Quorum:
    """The copies of the entries of a ledger: each is written to `write` of `ensemble` nodes, and durable at `ack`."""

    ensemble: int
    write: int
    ack: int

    def __post_init__(self) -> None:
        if not 1 <= self.ack <= self.write <= self.ensemble <= ENSEMBLE_MAX:
            raise InvalidRange(
                f"expected 1 <= ack quorum <= write quorum <= ensemble <= {ENSEMBLE_MAX}, "
                f"got ensemble {self.ensemble}, write quorum {self.write}, ack quorum {self.ack}"
            )


@dataclass(frozen=True, slots=True)
class LedgerInfo:
    ledger: int
    sealed: bool
    last_entry: int  # -1: empty, or not known while open for writing elsewhere
    custom: dict[str, str]


class Writer(Protocol):
    ledger: int

    def append(self, run: Run, done: Done) -> None:
        """Take the run, number its entries, and call `done` on the loop once it is durable. Callbacks come in the order
        of the appends; many may be in flight; never called inside `append` itself. The run's `ledger` and `first` are
        set before `done`. LimitExceeded: an entry is larger than the store's `entry_bytes_max`; the run is not taken.
        """
        ...

    @property
    def lac(self) -> int:
        """The last entry that was acknowledged, -1 if none."""
        ...

    @property
    def length(self) -> int:
        """Bytes acknowledged so far."""
        ...

    async def close(self) -> None:
        """Seal at the last acknowledged entry; appends still pending fail with Closed. The first entries of a pending
        run may have been acknowledged by the store: they stay in the ledger."""
        ...


class Reader(Protocol):
    ledger: int

    @property
    def last_entry(self) -> int: ...

    @property
    def sealed(self) -> bool: ...

    async def read(self, first: int, last: int, bytes_max: int) -> Run:
        """Consecutive entries from `first`, at least one, at most up to `last` and, past the first entry, `bytes_max`.
        Past the last entry: NoSuchEntry. Deleted during the read: NoSuchLedger."""
        ...

    async def count(self, first: int, last: int) -> tuple[int, int]:
        """(messages, bytes) of entries first..last inclusive, from the index or from the cumulative counts of two
        entries. The cost does not depend on the number of entries."""
        ...

    async def cuts(self, first: int, last: int, want: CutRequest) -> CutPoints:
        """Places where a reader of first..last may stop, growing, from the index where the engine has one: behind
        `last`, or behind the first that reaches a limit of `want`, and about as many before it as are wanted. An engine
        may know fewer places than there are entries. None at all: `first` is past the last entry."""
        ...

    def at_once(self, first: int, last: int, cuts_max: int) -> tuple[tuple[int, int], CutPoints] | None:
        """The messages and bytes before `first`, and cuts without a limit, where memory alone says both; else None."""
        ...


class LedgerStore(Protocol):
    @property
    def entry_bytes_max(self) -> int:
        """The largest entry that `append` takes."""
        ...

    @property
    def copies_max(self) -> int:
        """How many copies of an entry the store can keep. 1: it keeps one, and ignores every quorum."""
        ...

    async def create(self, custom: dict[str, str], quorum: Quorum | None = None) -> Writer:
        """A new ledger with an id no ledger of this store had before; ids grow. `quorum`: the copies of its entries;
        None means the store's default. A store that keeps one copy accepts any quorum and ignores it. NotEnoughNodes:
        fewer nodes than the ensemble can be written to."""
        ...

    async def open(self, ledger: int, *, recover: bool) -> Reader:
        """`recover=True` fences, seals and fixes the last entry; idempotent, concurrent recoverers agree.
        `recover=False` reads an open ledger up to its last acknowledged entry as this store knows it.
        """
        ...

    async def delete(self, ledger: int) -> None:
        """Idempotent; space returns later. A reader that is open finds out by NoSuchLedger."""
        ...

    async def info(self, ledger: int) -> LedgerInfo:
        """NoSuchLedger if there is none."""
        ...

    async def list(self, custom: dict[str, str], *, after: int = -1, limit: int | None = None) -> list[int]:
        """Ids above `after` of ledgers whose custom metadata holds all of these pairs, ascending, at most `limit`: for
        the sweep of orphans, page by page."""
        ...

    async def close(self) -> None: ...
