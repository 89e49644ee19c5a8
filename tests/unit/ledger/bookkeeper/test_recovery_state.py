"""The recovery of one ledger as a machine: when it is fenced, which entries it keeps, where it ends."""

from __future__ import annotations

import pytest

from magnetar.ledger.bookkeeper.ledger_metadata import LedgerMetadata, Segment, positions
from magnetar.ledger.bookkeeper.recovery_state import (
    Begin,
    Effect,
    End,
    Fence,
    GiveUp,
    Keep,
    Phase,
    ReadFenced,
    RecoveryState,
)
from magnetar.ledger.store import Quorum

OLD, NEW = Segment(0, ("x", "y", "z")), Segment(10, ("a", "b", "c"))


def recovery(write: int = 3, ack: int = 2, *, ahead: int = 1) -> RecoveryState:
    return RecoveryState(LedgerMetadata(Quorum(3, write, ack), (OLD, NEW)), ahead)


def reading(lac: int = 11, write: int = 3, ack: int = 2, *, ahead: int = 1) -> RecoveryState:
    state = recovery(write, ack, ahead=ahead)
    for bookie in "abc":
        state.fenced(bookie, lac)
        state.validate()
    assert state.phase is Phase.READING
    return state


def kept(effects: list[Effect]) -> list[Effect]:
    return [effect for effect in effects if not isinstance(effect, ReadFenced)]


def test_bookies_of_last_segment_are_fenced() -> None:
    assert recovery().begin() == [Fence("a"), Fence("b"), Fence("c")]


def test_reading_begins_when_every_write_set_is_fenced() -> None:
    state = recovery()
    assert state.fenced("a", 12) == []
    assert state.fenced("b", 11) == [Begin(12), *(ReadFenced(13, bookie) for bookie in "bca")]


@pytest.mark.parametrize(("write", "ack", "needed"), [(3, 3, 1), (3, 2, 2), (3, 1, 3), (2, 2, 2), (2, 1, 3), (1, 1, 3)])
def test_fences_needed_follow_quorums(write: int, ack: int, needed: int) -> None:
    state = recovery(write, ack)
    for count, bookie in enumerate("abc", 1):
        state.fenced(bookie)
        assert (state.phase is Phase.READING) == (count >= needed)


def test_second_answer_of_bookie_does_not_count() -> None:
    state = recovery()
    state.fenced("a")
    assert state.fenced("a") == []
    assert state.phase is Phase.FENCING


def test_recovery_begins_at_segment_in_force_h_j2() -> None:
    """Defect: a recovery that began at entry 0, where bookies of older segments are not fenced."""
    state = recovery()
    state.fenced("a")
    effects = state.fenced("b", 3)  # the bookie knows an older end only
    assert effects[0] == Begin(9)
    assert {effect.entry for effect in effects if isinstance(effect, ReadFenced)} == {10}
    assert {effect.bookie for effect in effects if isinstance(effect, ReadFenced)} == set("abc")


def test_fencing_that_cannot_succeed_gives_up() -> None:
    state = recovery()
    assert state.not_fenced("a") == []
    assert state.not_fenced("b") == [GiveUp(-1)]
    assert state.phase is Phase.FAILED
    assert state.fenced("c") == []


def test_found_entry_is_kept_and_next_is_read() -> None:
    state = reading()
    assert state.found("a", 12) == [Keep(12), *(ReadFenced(13, bookie) for bookie in "bca")]
    state.validate()


def test_entry_on_one_bookie_is_kept_after_absence_on_other() -> None:
    state = reading()
    assert state.absent("a", 12) == []
    assert kept(state.found("b", 12)) == [Keep(12)]


def test_entry_that_cannot_be_acknowledged_is_end() -> None:
    state = reading()
    state.absent("a", 12)
    assert state.absent("c", 12) == [End(11)]
    assert state.phase is Phase.ENDED


@pytest.mark.parametrize(("write", "ack", "absences"), [(3, 3, 1), (3, 2, 2), (3, 1, 3), (2, 2, 1), (2, 1, 2)])
def test_absences_needed_follow_quorums(write: int, ack: int, absences: int) -> None:
    state = reading(11, write, ack)
    bookies = [NEW.bookies[position] for position in positions(Quorum(3, write, ack), 12)]
    for count, bookie in enumerate(bookies, 1):
        state.absent(bookie, 12)
        assert (state.phase is Phase.ENDED) == (count >= absences)


def test_error_is_not_absence() -> None:
    state = reading()
    state.absent("a", 12)
    assert state.failed("b", 12) == []
    assert state.failed("c", 12) == [GiveUp(12)]


def test_absence_twice_of_same_bookie_counts_once() -> None:
    state = reading()
    state.absent("a", 12)
    assert state.absent("a", 12) == []
    assert state.phase is Phase.READING


def test_entries_read_ahead_are_kept_in_order() -> None:
    state = reading(ahead=3)
    assert state.found("a", 13) == []
    assert kept(state.found("a", 12)) == [Keep(12), Keep(13)]
    state.absent("a", 14)
    assert state.absent("b", 14) == [End(13)]


def test_entry_behind_absent_one_is_not_kept() -> None:
    state = reading(ahead=3)
    state.found("a", 13)
    state.absent("a", 12)
    assert state.absent("b", 12) == [End(11)]
    assert state.found("a", 14) == []


def test_late_answers_change_nothing() -> None:
    state = reading()
    state.found("a", 12)
    assert state.found("b", 12) == []
    assert state.absent("b", 12) == []
    assert state.fenced("c", 50) == []
    assert state.lac == 11
