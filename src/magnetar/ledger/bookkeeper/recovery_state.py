"""The decisions of the recovery of one ledger: when it is fenced, which entries are kept, where it ends.

It reads with the fence flag only, from the segment in force: each bookie that answers refuses the old writer from then
on (H-J2). Entries are read from the ensemble as the metadata had it when the recovery began, not from one
that the recovery changed. An entry is absent if too few bookies of its write set are left that could have
acknowledged it; an error is not absence. The first absent entry is the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

from magnetar.ledger.bookkeeper.digest import NO_ENTRY
from magnetar.ledger.bookkeeper.ledger_metadata import LedgerMetadata, positions


class Phase(Enum):
    FENCING = auto()
    READING = auto()
    ENDED = auto()
    FAILED = auto()


# Effects


@dataclass(frozen=True, slots=True)
class Fence:
    """Ask the bookie for its last entry with the fence flag."""

    bookie: str


@dataclass(frozen=True, slots=True)
class Begin:
    """Every write set is fenced; entries up to `lac` are acknowledged and need no recovery."""

    lac: int


@dataclass(frozen=True, slots=True)
class ReadFenced:
    entry: int
    bookie: str


@dataclass(frozen=True, slots=True)
class Keep:
    """Store the entry again on its whole write set. Entries come in order."""

    entry: int


@dataclass(frozen=True, slots=True)
class End:
    """The ledger ends here, once the kept entries are stored."""

    last_entry: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Too many bookies do not answer. A later recovery may succeed."""

    entry: int  # -1: the ledger could not be fenced


Effect: TypeAlias = Fence | Begin | ReadFenced | Keep | End | GiveUp


@dataclass(slots=True)
class Reading:
    """The answers about one entry."""

    waiting: dict[str, None]
    absent: int = 0
    found: bool = False


class RecoveryState:
    def __init__(self, metadata: LedgerMetadata, ahead: int) -> None:
        """`ahead`: entries that are read at the same time."""
        self.phase = Phase.FENCING
        self.lac = metadata.last_segment.first_entry - 1
        self._metadata = metadata
        self._quorum = metadata.quorum
        self._ensemble = metadata.last_segment.bookies
        self._ahead = ahead
        self._fenced: dict[str, None] = {}
        self._unfenced: dict[str, None] = {}  # bookies that failed
        self._readings: dict[int, Reading] = {}  # by entry, in order
        self._next = NO_ENTRY  # the next entry to keep

    def begin(self) -> list[Effect]:
        return [Fence(bookie) for bookie in self._ensemble]

    def fenced(self, bookie: str, lac: int = NO_ENTRY) -> list[Effect]:
        """The bookie is fenced: it sent its last entry, or has none."""
        if self.phase is not Phase.FENCING or bookie in self._fenced:
            return []
        self._fenced[bookie] = None
        self.lac = max(self.lac, lac)
        if not self._covered():
            return self._hopeless()
        self.phase = Phase.READING
        self._next = self.lac + 1
        return [Begin(self.lac), *self._read_ahead()]

    def not_fenced(self, bookie: str) -> list[Effect]:
        """The bookie failed, or its answer was damaged."""
        if self.phase is not Phase.FENCING:
            return []
        self._unfenced[bookie] = None
        return self._hopeless()

    def found(self, bookie: str, entry: int) -> list[Effect]:
        """A bookie sent the entry with the right digest."""
        reading = self._answered(bookie, entry)
        if reading is None:
            return []
        reading.found = True
        return self._advance()

    def absent(self, bookie: str, entry: int) -> list[Effect]:
        """A bookie does not have the entry, and refuses it from now on."""
        reading = self._answered(bookie, entry)
        if reading is None:
            return []
        reading.absent += 1
        return self._advance()

    def failed(self, bookie: str, entry: int) -> list[Effect]:
        """A bookie did not say whether it has the entry."""
        return [] if self._answered(bookie, entry) is None else self._advance()

    def validate(self) -> None:
        assert list(self._readings) == sorted(self._readings)
        assert len(self._readings) <= self._ahead
        assert self.lac >= self._metadata.last_segment.first_entry - 1, "an older segment is never recovered"
        if self.phase is Phase.READING:
            assert self._covered()
            assert self._next in self._readings

    # Inside

    def _covered(self) -> bool:
        """No write set has as many bookies without a fence as acknowledge an entry."""
        return self._open_places(self._fenced) < self._quorum.ack

    def _hopeless(self) -> list[Effect]:
        answering = {bookie: None for bookie in self._ensemble if bookie not in self._unfenced}
        if self._open_places(answering) < self._quorum.ack:
            return []
        self.phase = Phase.FAILED
        return [GiveUp(NO_ENTRY)]

    def _open_places(self, answered: dict[str, None]) -> int:
        """The largest number of bookies in one write set that are not among `answered`."""
        return max(
            sum(self._ensemble[position] not in answered for position in positions(self._quorum, start))
            for start in range(self._quorum.ensemble)
        )

    def _answered(self, bookie: str, entry: int) -> Reading | None:
        reading = self._readings.get(entry)
        if self.phase is not Phase.READING or reading is None or bookie not in reading.waiting:
            return None
        del reading.waiting[bookie]
        return reading

    def _advance(self) -> list[Effect]:
        effects: list[Effect] = []
        while self.phase is Phase.READING:
            reading = self._readings[self._next]
            if reading.found:
                del self._readings[self._next]
                effects.append(Keep(self._next))
                self._next += 1
                effects += self._read_ahead()
            elif reading.absent > self._quorum.write - self._quorum.ack:
                self.phase = Phase.ENDED
                effects.append(End(self._next - 1))
            elif not reading.waiting:
                self.phase = Phase.FAILED
                effects.append(GiveUp(self._next))
            else:
                break
        return effects

    def _read_ahead(self) -> list[Effect]:
        effects: list[Effect] = []
        first = max(self._readings, default=self._next - 1) + 1
        for entry in range(first, self._next + self._ahead):
            bookies = self._metadata.write_set(entry)
            self._readings[entry] = Reading(dict.fromkeys(bookies))
            effects += [ReadFenced(entry, bookie) for bookie in bookies]
        return effects
