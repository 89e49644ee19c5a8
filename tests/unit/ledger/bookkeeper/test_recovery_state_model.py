"""Writers, recoverers and bookies in random interleavings: no recovery loses an acknowledged entry.

The bookies are a model: what they store, whether they are fenced. Messages arrive in any order, late or never. The
recovery machine and the writer's machine are the product's own; broken ones must be caught by the same runs.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from magnetar.ledger.bookkeeper.ledger_metadata import LedgerMetadata, Segment
from magnetar.ledger.bookkeeper.recovery_state import Begin, End, Fence, GiveUp, Keep, ReadFenced, RecoveryState
from magnetar.ledger.bookkeeper.recovery_state import Effect as RecoveryEffect
from magnetar.ledger.bookkeeper.write_state import Acknowledge, ChangeEnsemble, Send, WriteState
from magnetar.ledger.bookkeeper.write_state import Effect as WriteEffect
from magnetar.ledger.store import Quorum

SEEDS = 1_500
ENTRIES = 6
BOOKIES = "abcdefg"


class NoFenceOnRead(RecoveryState):
    """The first defect of 4.13: reads of entries without the fence flag."""


class FirstSegment(RecoveryState):
    """The second defect: the recovery looks at the first segment."""

    def __init__(self, metadata: LedgerMetadata, ahead: int) -> None:
        super().__init__(LedgerMetadata(metadata.quorum, metadata.segments[:1]), ahead)


class OneAbsence(RecoveryState):
    """Believes one bookie that does not have the entry."""

    def absent(self, bookie: str, entry: int) -> list[RecoveryEffect]:
        reading = self._readings.get(entry)
        if reading is not None:
            reading.absent += self._quorum.write
        return super().absent(bookie, entry)


class ErrorIsAbsence(RecoveryState):
    def failed(self, bookie: str, entry: int) -> list[RecoveryEffect]:
        return self.absent(bookie, entry)


class CountsReplaced(WriteState):
    """Counts stores of the positions that a change replaces."""

    def _acknowledge(self) -> list[WriteEffect]:
        self._excluded = 0
        return super()._acknowledge()


@dataclass
class Bookie:
    stored: dict[int, int] = field(default_factory=dict)  # entry -> the end that its writer knew
    fenced: bool = False


class Run:
    """One life of a ledger. `steps` are the messages under way; each is delivered once, in any order, or lost."""

    def __init__(self, seed: int, writer: type[WriteState], recoverer: type[RecoveryState]) -> None:
        self.rng = random.Random(seed)
        ensemble = self.rng.randint(2, 3)
        write = self.rng.randint(2, ensemble)
        self.quorum = Quorum(ensemble, write, self.rng.randint(1, write))
        self.metadata = LedgerMetadata(self.quorum, (Segment(0, tuple(BOOKIES[:ensemble])),))
        self.recoverer_type = recoverer
        self.bookies = {name: Bookie() for name in BOOKIES}
        self.steps: list[Callable[[], None]] = []
        self.writer = writer(self.metadata)
        self.sent_lac: dict[int, int] = {}
        self.acknowledged = -1
        self.recovery: RecoveryState | None = None
        self.kept: list[int] = []
        self.end: int | None = None

    def go(self) -> None:
        for _ in range(ENTRIES):
            self.steps.append(self.add)
        self.steps.append(self.recover)
        for _ in range(self.rng.randint(0, 2)):
            self.steps.append(self.fail)
        while self.steps:
            step = self.steps.pop(self.rng.randrange(len(self.steps)))
            step()
            self.writer.validate()

    # The writer

    def add(self) -> None:
        entry, _ = self.writer.add(1)
        self.sent_lac[entry] = self.writer.lac
        for bookie in self.writer.targets(entry):
            self.send(entry, bookie)
        self.perform(self.writer.due())

    def fail(self) -> None:
        self.perform(self.writer.failed(self.rng.choice(self.writer.ensemble)))

    def send(self, entry: int, bookie: str) -> None:
        self.steps.append(lambda: self.arrive(entry, bookie))

    def arrive(self, entry: int, bookie: str) -> None:
        store = self.bookies[bookie]
        if store.fenced:
            return
        store.stored[entry] = self.sent_lac[entry]
        self.steps.append(lambda: self.perform(self.writer.stored(bookie, entry)))

    def perform(self, effects: list[WriteEffect]) -> None:
        for effect in effects:
            match effect:
                case Acknowledge(entry):
                    self.acknowledged = entry
                case Send(entry, bookie):
                    self.send(entry, bookie)
                case ChangeEnsemble(positions):
                    self.steps.append(lambda positions=positions: self.change(positions))

    def change(self, positions: tuple[int, ...]) -> None:
        if self.recovery is not None:
            return  # the compare-and-set fails: the writer is fenced
        free = [name for name in BOOKIES if name not in self.writer.ensemble]
        new = dict(zip(positions, self.rng.sample(free, len(positions)), strict=True))
        self.metadata = self.metadata.with_segments(self.writer.proposal(new))
        self.steps.append(lambda: self.perform(self.writer.changed(new)))

    # The recovery

    def recover(self) -> None:
        self.recovery = self.recoverer_type(self.metadata, self.rng.randint(1, 3))
        self.follow(self.recovery.begin())

    def follow(self, effects: list[RecoveryEffect]) -> None:
        for effect in effects:
            match effect:
                case Fence(bookie):
                    self.steps.append(lambda bookie=bookie: self.fence(bookie))
                case ReadFenced(entry, bookie):
                    self.steps.append(lambda entry=entry, bookie=bookie: self.read(entry, bookie))
                case Keep(entry):
                    self.kept.append(entry)
                case End(last):
                    self.end = last
                case Begin() | GiveUp():
                    pass

    def fence(self, bookie: str) -> None:
        assert self.recovery is not None
        recovery = self.recovery
        if self.rng.random() < 0.2:
            self.steps.append(lambda: self.follow(recovery.not_fenced(bookie)))
            return
        store = self.bookies[bookie]
        store.fenced = True
        lac = store.stored[max(store.stored)] if store.stored else -1
        self.steps.append(lambda: self.follow(recovery.fenced(bookie, lac)))

    def read(self, entry: int, bookie: str) -> None:
        assert self.recovery is not None
        recovery = self.recovery
        if self.rng.random() < 0.1:
            self.steps.append(lambda: self.follow(recovery.failed(bookie, entry)))
            return
        store = self.bookies[bookie]
        store.fenced = store.fenced or not isinstance(recovery, NoFenceOnRead)
        answer = recovery.found if entry in store.stored else recovery.absent
        self.steps.append(lambda: self.follow(answer(bookie, entry)))


def losses(writer: type[WriteState] = WriteState, recoverer: type[RecoveryState] = RecoveryState) -> tuple[int, int]:
    """Runs that lost an acknowledged entry, and runs that ended with a sealed ledger."""
    lost = sealed = 0
    for seed in range(SEEDS):
        run = Run(seed, writer, recoverer)
        run.go()
        if run.end is not None:
            sealed += 1
            lost += run.acknowledged > run.end
    return lost, sealed


def test_no_interleaving_loses_acknowledged_entry_h_j2() -> None:
    lost, sealed = losses()
    assert lost == 0
    assert sealed > SEEDS / 3


@pytest.mark.parametrize("recoverer", [NoFenceOnRead, FirstSegment, OneAbsence, ErrorIsAbsence])
def test_defect_of_recovery_is_caught_h_j2(recoverer: type[RecoveryState]) -> None:
    assert losses(recoverer=recoverer)[0] > 0


def test_writer_that_counts_replaced_bookies_is_caught() -> None:
    assert losses(writer=CountsReplaced)[0] > 0
