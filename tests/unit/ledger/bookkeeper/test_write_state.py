"""The writer of one ledger as a machine: orders of answers, failures and ensemble changes."""

from __future__ import annotations

import itertools

import pytest

from magnetar.base.errors import InvalidTransition
from magnetar.ledger.bookkeeper.ledger_metadata import LedgerMetadata, Segment
from magnetar.ledger.bookkeeper.write_state import (
    Acknowledge,
    ChangeEnsemble,
    Effect,
    Phase,
    Send,
    Starve,
    WriteState,
)
from magnetar.ledger.store import Quorum


class Driven:
    """A machine that checks itself after every event."""

    def __init__(self, ensemble: int = 3, write: int = 3, ack: int = 2) -> None:
        bookies = tuple("abcdefg"[:ensemble])
        self.state = WriteState(LedgerMetadata(Quorum(ensemble, write, ack), (Segment(0, bookies),)))

    def add(self, size: int = 10) -> list[str]:
        entry, _ = self.state.add(size)
        targets = self.state.targets(entry)
        self.state.validate()
        return targets

    def stored(self, bookies: str, entry: int) -> list[Effect]:
        return [effect for bookie in bookies for effect in self._checked(self.state.stored(bookie, entry))]

    def failed(self, bookie: str) -> list[Effect]:
        return self._checked(self.state.failed(bookie))

    def changed(self, new: dict[int, str]) -> list[Effect]:
        return self._checked(self.state.changed(new))

    def _checked(self, effects: list[Effect]) -> list[Effect]:
        self.state.validate()
        return effects


def test_entry_is_acknowledged_by_ack_quorum() -> None:
    driven = Driven()
    assert driven.add() == ["a", "b", "c"]
    assert driven.stored("a", 0) == []
    assert driven.stored("c", 0) == [Acknowledge(0)]
    assert driven.stored("b", 0) == []
    assert (driven.state.lac, driven.state.length) == (0, 10)


def test_same_bookie_twice_counts_once() -> None:
    driven = Driven()
    driven.add()
    assert driven.stored("aa", 0) == []


def test_bookie_outside_write_set_does_not_count() -> None:
    driven = Driven(ensemble=3, write=2, ack=2)
    assert driven.add() == ["a", "b"]
    assert driven.stored("ac", 0) == []
    assert driven.stored("b", 0) == [Acknowledge(0)]


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_acknowledgements_come_in_order(order: tuple[int, ...]) -> None:
    driven = Driven()
    for _ in range(4):
        driven.add()
    confirmed: list[int] = []
    for done, entry in enumerate(order, 1):
        confirmed += [effect.entry for effect in driven.stored("ab", entry) if isinstance(effect, Acknowledge)]
        complete = set(order[:done])
        assert driven.state.lac == next(each for each in range(5) if each not in complete) - 1
    assert confirmed == sorted(confirmed)
    assert confirmed[-1] == 3


def test_failed_bookie_is_replaced_from_first_pending_entry() -> None:
    driven = Driven()
    for _ in range(4):
        driven.add()
    driven.stored("abc", 0)
    driven.stored("c", 2)
    assert driven.failed("b") == [ChangeEnsemble((1,))]
    assert driven.state.proposal({1: "d"}) == (Segment(0, ("a", "b", "c")), Segment(1, ("a", "d", "c")))
    assert driven.changed({1: "d"}) == [Send(1, "d"), Send(2, "d"), Send(3, "d")]
    assert driven.stored("d", 2) == []  # entry 1 is before it
    assert driven.stored("ad", 1) == [Acknowledge(2)]


def test_change_without_acknowledged_entry_replaces_segment() -> None:
    driven = Driven()
    driven.add()
    driven.failed("a")
    assert driven.state.proposal({0: "d"}) == (Segment(0, ("d", "b", "c")),)


def test_store_of_replaced_bookie_does_not_count() -> None:
    driven = Driven()
    driven.add()
    driven.stored("b", 0)
    driven.failed("b")
    assert driven.stored("a", 0) == []  # b stored it too, but is not in the next ensemble
    assert driven.changed({1: "d"}) == [Send(0, "d")]
    assert driven.stored("b", 0) == []
    assert driven.stored("d", 0) == [Acknowledge(0)]


def test_bookies_that_stay_acknowledge_during_change() -> None:
    driven = Driven()
    driven.add()
    driven.failed("b")
    assert driven.stored("ac", 0) == [Acknowledge(0)]
    assert driven.changed({1: "d"}) == []
    assert driven.state.segments == (Segment(0, ("a", "d", "c")),)


def test_entry_added_during_change_goes_to_new_bookie_afterwards() -> None:
    driven = Driven()
    driven.add()
    driven.failed("b")
    assert driven.add() == ["c", "a"]
    assert driven.changed({1: "d"}) == [Send(0, "d"), Send(1, "d")]
    assert driven.add() == ["c", "a", "d"]


def test_failure_during_change_is_next_change() -> None:
    driven = Driven()
    driven.add()
    driven.failed("b")
    assert driven.failed("c") == []
    effects = driven.changed({1: "d"})
    assert effects == [Send(0, "d"), ChangeEnsemble((2,))]
    assert driven.changed({2: "e"}) == [Send(0, "e")]
    assert driven.stored("de", 0) == [Acknowledge(0)]


def test_replacement_that_fails_before_its_answer_is_replaced() -> None:
    driven = Driven()
    driven.add()
    driven.failed("b")
    driven.changed({1: "d"})
    assert driven.failed("d") == [ChangeEnsemble((1,))]
    assert driven.failed("b") == []  # it left the ensemble


def test_failure_without_pending_entry_waits_for_next_add() -> None:
    driven = Driven()
    driven.add()
    driven.stored("ac", 0)
    assert driven.failed("b") == []
    assert driven.add() == ["c", "a"]
    assert driven.state.due() == [ChangeEnsemble((1,))]
    assert driven.changed({1: "d"}) == [Send(1, "d")]


def test_failure_is_counted_once() -> None:
    driven = Driven()
    driven.add()
    assert driven.failed("b") == [ChangeEnsemble((1,))]
    assert driven.failed("b") == []
    assert driven.failed("x") == []


def test_ledger_goes_on_without_replacement() -> None:
    driven = Driven()
    driven.add()
    driven.failed("b")
    assert driven.changed({}) == []
    assert driven.state.has_vacancies
    assert driven.state.segments == (Segment(0, ("a", "b", "c")),)
    assert driven.stored("ac", 0) == [Acknowledge(0)]
    assert driven.add() == ["c", "a"]


def test_too_few_bookies_for_write_set_end_ledger() -> None:
    driven = Driven()
    driven.add()
    driven.failed("b")
    driven.failed("c")
    driven.changed({})
    assert driven.changed({}) == [Starve()]


def test_vacant_position_is_filled_by_retry() -> None:
    driven = Driven()
    driven.add()
    driven.failed("b")
    driven.changed({})
    assert driven.state.retry() == [ChangeEnsemble((1,))]
    assert driven.changed({1: "d"}) == [Send(0, "d")]
    assert not driven.state.has_vacancies
    assert driven.state.retry() == []


def test_retry_without_pending_entry_waits_for_next_add() -> None:
    driven = Driven()
    driven.add()
    driven.failed("b")
    driven.changed({})
    driven.stored("ac", 0)
    assert driven.state.retry() == []
    assert driven.add() == ["c", "a"]
    assert driven.state.due() == [ChangeEnsemble((1,))]


def test_returned_bookie_fills_its_own_position() -> None:
    driven = Driven()
    driven.add()
    driven.failed("b")
    driven.changed({})
    driven.state.retry()
    before = driven.state.segments
    assert driven.state.proposal({1: "b"}) == before
    assert driven.changed({1: "b"}) == [Send(0, "b")]
    assert driven.stored("ab", 0) == [Acknowledge(0)]


def test_vacancy_joins_next_change() -> None:
    driven = Driven(ensemble=4, write=3, ack=1)
    driven.add()
    driven.failed("b")
    driven.changed({})
    assert driven.failed("c") == [ChangeEnsemble((1, 2))]
    assert driven.changed({1: "e", 2: "f"}) == [Send(0, "e"), Send(0, "f")]


def test_dead_ledger_acknowledges_nothing() -> None:
    driven = Driven()
    driven.add()
    driven.state.die()
    assert driven.stored("abc", 0) == []
    assert driven.failed("a") == []
    assert driven.state.lac == -1
    with pytest.raises(InvalidTransition):
        driven.state.add(1)


def test_close_during_change_ignores_its_answer() -> None:
    driven = Driven()
    driven.add()
    driven.failed("b")
    driven.state.close()
    assert driven.changed({1: "d"}) == []
    assert driven.state.segments == (Segment(0, ("a", "b", "c")),)
    assert driven.state.phase is Phase.CLOSED


def test_change_that_was_not_asked_is_refused() -> None:
    driven = Driven()
    driven.add()
    with pytest.raises(InvalidTransition):
        driven.changed({1: "d"})
    driven.failed("b")
    with pytest.raises(InvalidTransition):
        driven.changed({0: "d"})


def test_repaired_older_segment_is_taken_over() -> None:
    driven = Driven()
    driven.add()
    driven.stored("abc", 0)
    driven.add()
    driven.failed("b")
    driven.changed({1: "d"})
    repaired = (Segment(0, ("a", "x", "c")), driven.state.segments[1])
    assert driven.state.rebase(repaired)
    assert driven.state.segments == repaired
    assert not driven.state.rebase((Segment(0, ("a", "x", "c")),))


def test_recovered_entries_keep_their_lengths() -> None:
    metadata = LedgerMetadata(Quorum(2, 2, 2), (Segment(0, ("a", "b")),))
    state = WriteState(metadata, lac=4, length=100)
    assert state.add_stored(130) == (5, 130)
    state.stored("a", 5)
    assert state.stored("b", 5) == [Acknowledge(5)]
    assert state.length == 130
