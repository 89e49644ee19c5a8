"""Decides which broker leads a scalable topic: only the one that has won the lock AND written its term into the record.

Safety never depends on the lock; it depends on the term (H-B1, H-B2). A leadership ends when its term is refused by any
owner, when a proof finds another term, when the lock is known to be lost, or when no proof came in time (H-B9, H-B11).
Only that leadership ends, not a later one of the same broker (H-B12). Its end releases the lock, so that another broker
can compete. The actor owns the time and the lock; this machine only decides the next step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from magnetar.base import validation
from magnetar.base.ids import Term
from magnetar.scalable.machines.effects import (
    CallLost,
    ReadRecord,
    RecordOvertaken,
    RecordRead,
    RecordWritten,
    WriteRecord,
)
from magnetar.scalable.machines.table import Transition
from magnetar.scalable.record.record import NO_TERM, Lifecycle, Record

OP = "take-over"


class Phase(Enum):
    FOLLOWING = "another broker leads, or the topic needs no leader"
    COMPETING = "the lock was requested"
    READING = "this broker has the lock; the record is being read"
    CLAIMING = "the next term is being written"
    LEADING = "this broker leads the term"


# Events, beside those of the store


@dataclass(frozen=True, slots=True)
class Needed:
    """A request, a watch, a sweep or a segment that disagrees with the record needs a leader (H-B5)."""


@dataclass(frozen=True, slots=True)
class LockWon:
    pass


@dataclass(frozen=True, slots=True)
class LockTaken:
    """Another broker has the lock."""


@dataclass(frozen=True, slots=True)
class LockFreed:
    """No broker has the lock any more."""


@dataclass(frozen=True, slots=True)
class LockLost:
    """This broker lost the lock and was notified: its session ended."""


@dataclass(frozen=True, slots=True)
class ProofDue:
    """Time for an idle leader to look whether the term is still its own; also after every event of the session."""


@dataclass(frozen=True, slots=True)
class BeliefExpired:
    """No proof came for so long that the leadership of this term is not believed any more."""

    term: Term


@dataclass(frozen=True, slots=True)
class TermRefused:
    """A task of this term met a higher one."""

    term: Term


# Effects, beside those of the store


@dataclass(frozen=True, slots=True)
class CompeteForLock:
    pass


@dataclass(frozen=True, slots=True)
class ReleaseLock:
    pass


@dataclass(frozen=True, slots=True)
class BeginTerm:
    """Open the task group of this term; requests that waited are served from here on (H-B10)."""

    term: Term
    record: Record
    version: int


@dataclass(frozen=True, slots=True)
class ResumeReshape:
    """Finishes the operation that the record has, before anything else."""

    term: Term
    record: Record
    version: int


@dataclass(frozen=True, slots=True)
class ResumeDeletion:
    term: Term
    record: Record
    version: int


@dataclass(frozen=True, slots=True)
class EndTerm:
    """Cancel the task group of this term."""

    term: Term
    why: str


Event = (
    Needed
    | LockWon
    | LockTaken
    | LockFreed
    | LockLost
    | ProofDue
    | BeliefExpired
    | TermRefused
    | RecordRead
    | RecordWritten
    | RecordOvertaken
    | CallLost
)
Effect = CompeteForLock | ReleaseLock | ReadRecord | WriteRecord | BeginTerm | ResumeReshape | ResumeDeletion | EndTerm


@dataclass(frozen=True, slots=True)
class TakeOver:
    phase: Phase = Phase.FOLLOWING
    claim: Record | None = None  # while CLAIMING: the record that is being written
    term: Term = NO_TERM  # while LEADING
    incarnation: int = 0


Step = tuple[TakeOver, tuple[Effect, ...]]


def step(state: TakeOver, event: Event) -> Step:
    row = TABLE.get((state.phase, type(event)))
    if row is None:
        return state, ()
    after, effects = row.take(state, event)
    if validation.enabled:
        validate(after)
    return after, effects


def validate(state: TakeOver) -> None:
    assert (state.claim is not None) is (state.phase is Phase.CLAIMING), "a claim exists while it is written"
    assert (state.term != NO_TERM) is (state.phase is Phase.LEADING), "only a leader has a term"


def _compete(state: TakeOver, _: Event) -> Step:
    """Compete"""
    return TakeOver(Phase.COMPETING), (CompeteForLock(),)


def _follow(state: TakeOver, _: Event) -> Step:
    """Follow"""
    return TakeOver(), ()


def _read(state: TakeOver, _: Event) -> Step:
    """Read the record: AFTER the lock, never before (H-B1)"""
    return TakeOver(Phase.READING), (ReadRecord(OP),)


def _claim(state: TakeOver, event: RecordRead) -> Step:
    """Write the next term and the next epoch over the version just read; nothing to lead: let the lock go"""
    record = event.record
    if record is None or record.lifecycle is Lifecycle.GONE:
        return TakeOver(), (ReleaseLock(),)
    claim = record.claimed()
    return TakeOver(Phase.CLAIMING, claim=claim), (WriteRecord(OP, event.version, claim),)


def _lead(state: TakeOver, event: RecordWritten) -> Step:
    """The broker leads now: it first finishes the operation of the record, then serves"""
    record = state.claim
    assert record is not None
    leading = TakeOver(Phase.LEADING, term=record.term, incarnation=record.incarnation)
    begin = BeginTerm(record.term, record, event.version)
    if record.lifecycle is Lifecycle.DELETING:
        return leading, (begin, ResumeDeletion(record.term, record, event.version))
    if record.intent is not None:
        return leading, (begin, ResumeReshape(record.term, record, event.version))
    return leading, (begin,)


def _prove(state: TakeOver, _: ProofDue) -> Step:
    """Read the term again"""
    return state, (ReadRecord(OP),)


def _proven(state: TakeOver, event: RecordRead) -> Step:
    """Still ours, or another's, or the topic's life is over"""
    record = event.record
    if record is None or record.lifecycle is Lifecycle.GONE or record.incarnation != state.incarnation:
        return _resign(state, "the topic was deleted")
    if record.term != state.term:
        return _resign(state, f"term {record.term} has taken over")
    return state, ()


def _refused(state: TakeOver, event: TermRefused) -> Step:
    """Of this term: resign. Of an earlier one of ours: nothing (H-B12)"""
    return _resign(state, "a call was refused") if event.term == state.term else (state, ())


def _disbelieve(state: TakeOver, event: BeliefExpired) -> Step:
    """Stop acting, then claim again if the lock allows"""
    if event.term != state.term:
        return state, ()
    return TakeOver(Phase.READING), (EndTerm(state.term, "the lock could not be confirmed in time"), ReadRecord(OP))


def _bereft(state: TakeOver, _: LockLost) -> Step:
    """Stop acting and compete again"""
    return TakeOver(Phase.COMPETING), (EndTerm(state.term, "the lock was lost"), CompeteForLock())


def _resign(state: TakeOver, why: str) -> Step:
    return TakeOver(), (EndTerm(state.term, why), ReleaseLock())


def _ask_again(state: TakeOver, event: CallLost) -> Step:
    """The outcome is unknown: read again. An earlier claim that was written does not count; the next one is higher"""
    return replace(state, phase=Phase.READING, claim=None), (ReadRecord(OP),)


P = Phase
TABLE: dict[tuple[Phase, type[Event]], Transition[TakeOver, Phase, Effect]] = {
    (P.FOLLOWING, Needed): Transition(_compete, (P.COMPETING,)),
    (P.FOLLOWING, LockFreed): Transition(_compete, (P.COMPETING,)),
    (P.FOLLOWING, LockWon): Transition(_read, (P.READING,)),
    (P.COMPETING, LockWon): Transition(_read, (P.READING,)),
    (P.COMPETING, LockTaken): Transition(_follow, (P.FOLLOWING,)),
    (P.COMPETING, LockFreed): Transition(_compete, (P.COMPETING,)),
    (P.READING, RecordRead): Transition(_claim, (P.CLAIMING, P.FOLLOWING)),
    (P.READING, CallLost): Transition(_ask_again, (P.READING,)),
    (P.READING, LockLost): Transition(_compete, (P.COMPETING,)),
    (P.CLAIMING, RecordWritten): Transition(_lead, (P.LEADING,)),
    (P.CLAIMING, RecordOvertaken): Transition(_read, (P.READING,)),
    (P.CLAIMING, CallLost): Transition(_ask_again, (P.READING,)),
    (P.CLAIMING, LockLost): Transition(_compete, (P.COMPETING,)),
    (P.LEADING, ProofDue): Transition(_prove, (P.LEADING,)),
    (P.LEADING, RecordRead): Transition(_proven, (P.LEADING, P.FOLLOWING)),
    (P.LEADING, TermRefused): Transition(_refused, (P.LEADING, P.FOLLOWING)),
    (P.LEADING, BeliefExpired): Transition(_disbelieve, (P.LEADING, P.READING)),
    (P.LEADING, LockLost): Transition(_bereft, (P.COMPETING,)),
}
