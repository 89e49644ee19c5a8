"""One read as a machine: order of bookies, speculation, and what all answers together say."""

from __future__ import annotations

import pytest

from magnetar.base.errors import InvalidTransition
from magnetar.ledger.bookkeeper.read_state import Outcome, ReadState, order


def test_bookies_in_quarantine_are_asked_last() -> None:
    assert order("abc", {"a"}) == ["b", "c", "a"]
    assert order("abc", {"a"}, preferred="c") == ["c", "b", "a"]
    assert order("abc", {"a"}, preferred="a") == ["b", "c", "a"]


def test_failure_asks_next_bookie() -> None:
    state = ReadState("abc")
    assert state.next() == "a"
    assert state.failed("a", Outcome.ABSENT) == "b"
    assert state.succeeded("b")
    assert state.next() is None


def test_slow_answer_asks_second_bookie_and_first_good_answer_counts() -> None:
    state = ReadState("abc")
    assert (state.next(), state.next()) == ("a", "b")
    assert state.succeeded("b")
    assert not state.succeeded("a")


def test_read_waits_for_slow_bookie_after_failures() -> None:
    state = ReadState("ab")
    state.next()
    state.next()
    assert state.failed("b", Outcome.FAILED) is None
    assert not state.exhausted
    assert state.failed("a", Outcome.ABSENT) is None
    assert state.exhausted


@pytest.mark.parametrize(
    ("outcomes", "result"),
    [
        ((Outcome.ABSENT, Outcome.ABSENT), Outcome.ABSENT),
        ((Outcome.ABSENT, Outcome.FAILED), Outcome.FAILED),
        ((Outcome.DAMAGED, Outcome.ABSENT), Outcome.DAMAGED),
        ((Outcome.DAMAGED, Outcome.FAILED), Outcome.FAILED),
    ],
)
def test_absence_needs_every_bookie(outcomes: tuple[Outcome, Outcome], result: Outcome) -> None:
    state = ReadState("ab")
    state.next()
    for bookie, outcome in zip("ab", outcomes, strict=True):
        state.failed(bookie, outcome)
    assert state.exhausted
    assert state.result is result


def test_answer_that_was_not_asked_is_refused() -> None:
    with pytest.raises(InvalidTransition):
        ReadState("ab").failed("a", Outcome.FAILED)
