"""The decisions of the writer of one open ledger: which bookie gets an entry, when an
entry is acknowledged, which bookie is replaced.

Entries are numbered densely and acknowledged in order, each when `ack` bookies of its write set have stored it. A
failed bookie is replaced from the first entry that is not acknowledged on; the metadata say so before the new bookie
gets an entry. While a change is under way, stores of the positions that it replaces do not count: an entry is
acknowledged only if both the old and the new metadata find it on enough bookies. Without a replacement the ledger goes
on with the bookies that are left, as long as every write set has enough of them.

The machine keeps no bytes: the caller repeats the frame of an entry byte for byte. The recovery of a ledger uses the
same machine for the entries that it stores again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

from magnetar.base.errors import InvalidTransition
from magnetar.ledger.bookkeeper.digest import NO_ENTRY
from magnetar.ledger.bookkeeper.ledger_metadata import LedgerMetadata, Segment, contains, positions


class Phase(Enum):
    OPEN = auto()
    CHANGING = auto()  # the metadata of a change are being written
    DEAD = auto()
    CLOSED = auto()


# Effects


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """All entries up to this one."""

    entry: int


@dataclass(frozen=True, slots=True)
class Send:
    """Again, to a bookie that took a position over."""

    entry: int
    bookie: str


@dataclass(frozen=True, slots=True)
class ChangeEnsemble:
    """Choose other bookies for the positions and write the metadata; `changed` answers."""

    positions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Starve:
    """Too few bookies are left for a write set: the ledger is dead."""


Effect: TypeAlias = Acknowledge | Send | ChangeEnsemble | Starve


@dataclass(slots=True)
class Pending:
    length: int  # of all entries up to this one
    stored: int = 0  # bits of the positions that stored it


class WriteState:
    def __init__(self, metadata: LedgerMetadata, *, lac: int = NO_ENTRY, length: int = 0) -> None:
        """`lac`, `length`: the last entry that is already stored on enough bookies, and the bytes up to it."""
        self.phase = Phase.OPEN
        self.lac = lac
        self.length = length  # up to `lac`
        self.segments = metadata.segments
        self._quorum = metadata.quorum
        self._next = lac + 1
        self._added = length
        self._pending: dict[int, Pending] = {}  # in order
        self._failed: dict[int, None] = {}  # positions to replace at the next change
        self._vacant: dict[int, None] = {}  # positions for which no bookie was left
        self._changing: tuple[int, ...] = ()
        self._excluded = 0  # bits of `_changing`
        self._change_first = 0  # first entry of the segment that the change makes
        self._positions = {bookie: position for position, bookie in enumerate(self.ensemble)}

    @property
    def ensemble(self) -> tuple[str, ...]:
        return self.segments[-1].bookies

    @property
    def pending(self) -> int:
        return len(self._pending)

    @property
    def next_entry(self) -> int:
        return self._next

    @property
    def has_vacancies(self) -> bool:
        return bool(self._vacant)

    def add(self, size: int) -> tuple[int, int]:
        """A new entry of `size` bytes: its number and the length of the ledger up to it."""
        return self.add_stored(self._added + size)

    def add_stored(self, length: int) -> tuple[int, int]:
        """The next entry, which has its length already."""
        if self.phase not in (Phase.OPEN, Phase.CHANGING):
            raise InvalidTransition(f"an entry was added while the ledger is {self.phase.name}")
        entry = self._next
        self._next += 1
        self._added = length
        self._pending[entry] = Pending(length)
        return entry, length

    def targets(self, entry: int) -> list[str]:
        """Bookies that get a new entry now. A position that waits for its replacement gets it by `Send`."""
        bookies = self.ensemble
        skipped = self._skipped()
        return [bookies[position] for position in positions(self._quorum, entry) if position not in skipped]

    def due(self) -> list[Effect]:
        """Call after an entry was added: a bookie that failed while nothing was pending is replaced now."""
        return self._change()

    def stored(self, bookie: str, entry: int) -> list[Effect]:
        """A bookie has the entry. Late answers of bookies that were replaced are ignored."""
        position = self._positions.get(bookie)
        pending = self._pending.get(entry)
        if position is None or pending is None or not contains(self._quorum, entry, position):
            return []
        pending.stored |= 1 << position
        return self._acknowledge()

    def failed(self, bookie: str) -> list[Effect]:
        """A request to the bookie failed, and not because the ledger is fenced."""
        position = self._positions.get(bookie)
        if position is None or position in self._skipped() or self.phase in (Phase.DEAD, Phase.CLOSED):
            return []
        self._failed[position] = None
        return self._change()

    def proposal(self, new: Mapping[int, str]) -> tuple[Segment, ...]:
        """The segments to write for the change under way."""
        bookies = tuple(new.get(position, bookie) for position, bookie in enumerate(self.ensemble))
        if bookies == self.ensemble:
            return self.segments
        last = self.segments[-1]
        kept = self.segments[:-1] if last.first_entry == self._change_first else self.segments
        return (*kept, Segment(self._change_first, bookies))

    def changed(self, new: Mapping[int, str]) -> list[Effect]:
        """The metadata with these bookies are written; positions without one stay vacant."""
        if self.phase in (Phase.DEAD, Phase.CLOSED):
            return []
        if self.phase is not Phase.CHANGING or not set(new) <= set(self._changing):
            raise InvalidTransition("an ensemble changed without a change under way", positions=sorted(new))
        replaced, before = self._changing, self.ensemble
        self.segments = self.proposal(new)
        self._positions = {bookie: position for position, bookie in enumerate(self.ensemble)}
        self.phase, self._changing, self._excluded = Phase.OPEN, (), 0
        for position in replaced:
            if position not in new:
                self._vacant[position] = None
        if self._starves():
            return [Starve()]
        effects: list[Effect] = []
        for entry, pending in self._pending.items():
            for position in positions(self._quorum, entry):
                if position not in new:
                    continue
                bit = 1 << position
                if new[position] != before[position]:
                    pending.stored &= ~bit
                if not pending.stored & bit:
                    effects.append(Send(entry, new[position]))
        return [*effects, *self._acknowledge(), *self._change()]

    def retry(self) -> list[Effect]:
        """Bookies may have come back: vacant positions are looked at again, now or with the next entry."""
        if self.phase is not Phase.OPEN:
            return []
        self._failed.update(self._vacant)
        self._vacant.clear()
        return self._change()

    def rebase(self, segments: Iterable[Segment]) -> bool:
        """Another client changed the metadata of the open ledger. False: it changed the last segment."""
        stored = tuple(segments)
        if stored[-1] != self.segments[-1]:
            return False
        self.segments = stored
        return True

    def die(self) -> None:
        """No entry is acknowledged any more; the caller fails the pending ones."""
        if self.phase is not Phase.CLOSED:
            self.phase = Phase.DEAD
        self._pending.clear()

    def close(self) -> None:
        self.phase = Phase.CLOSED
        self._pending.clear()

    def validate(self) -> None:
        assert list(self._pending) == list(range(self.lac + 1, self._next)) or self.phase in (Phase.DEAD, Phase.CLOSED)
        assert len(set(self.ensemble)) == self._quorum.ensemble, "a bookie has two positions"
        assert (self.phase is Phase.CHANGING) == bool(self._changing) or self.phase in (Phase.DEAD, Phase.CLOSED)
        assert not set(self._changing) & (self._failed.keys() | self._vacant.keys())
        lengths = [pending.length for pending in self._pending.values()]
        assert lengths == sorted(lengths)
        assert all(pending.length >= self.length for pending in self._pending.values())
        assert self.segments[-1].first_entry <= self._next

    # Inside

    def _skipped(self) -> set[int]:
        return {*self._failed, *self._vacant, *self._changing}

    def _change(self) -> list[Effect]:
        if self.phase is not Phase.OPEN or not self._failed or not self._pending:
            return []
        self._changing = tuple(sorted({*self._failed, *self._vacant}))
        self._failed.clear()
        self._vacant.clear()
        self._excluded = sum(1 << position for position in self._changing)
        self._change_first = self.lac + 1
        self.phase = Phase.CHANGING
        return [ChangeEnsemble(self._changing)]

    def _acknowledge(self) -> list[Effect]:
        before = self.lac
        counted = ~self._excluded
        while self._pending:
            entry = self.lac + 1
            pending = self._pending[entry]
            if (pending.stored & counted).bit_count() < self._quorum.ack:
                break
            del self._pending[entry]
            self.lac, self.length = entry, pending.length
        return [Acknowledge(self.lac)] if self.lac > before else []

    def _starves(self) -> bool:
        """Whether a write set has too few bookies left."""
        quorum = self._quorum
        return any(
            sum(position not in self._vacant for position in positions(quorum, start)) < quorum.ack
            for start in range(quorum.ensemble)
        )
