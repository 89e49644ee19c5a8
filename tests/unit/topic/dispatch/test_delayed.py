"""Delayed messages: never early, late by less than a step, in order, and none forgotten."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from magnetar.base.ids import Position
from magnetar.topic.dispatch.delayed import Delayed
from tests.support.search_effort import examples

TICK_MS = 10


class DelayedMatchesATable(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.delayed = Delayed(TICK_MS)
        self.model: dict[Position, int] = {}
        self.now_ms = 1000

    def due_at(self, position: Position) -> int:
        return -(-self.model[position] // TICK_MS) * TICK_MS

    @rule(ledger=st.integers(0, 3), entry=st.integers(0, 30), wait_ms=st.integers(-50, 200), twice=st.booleans())
    def add(self, ledger: int, entry: int, wait_ms: int, twice: bool) -> None:
        position = Position(ledger, entry)
        at_ms = self.model.setdefault(position, self.now_ms + wait_ms)
        for _ in range(2 if twice else 1):
            self.delayed.add(at_ms, position)

    @rule(ms=st.integers(0, 60))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms

    @rule(limit=st.integers(0, 10))
    def due(self, limit: int) -> None:
        ripe = [p for p in self.model if self.due_at(p) <= self.now_ms]
        taken = self.delayed.due(self.now_ms, limit)
        assert taken == sorted(taken)
        assert len(taken) == min(limit, len(ripe))
        assert all(self.model[p] <= self.now_ms for p in taken), "never early"
        left = set(ripe) - set(taken)
        if taken and left:
            assert max(self.due_at(p) for p in taken) <= min(self.due_at(p) for p in left)
        for p in taken:
            del self.model[p]

    @rule(ledger=st.integers(0, 3), entry=st.integers(-1, 31))
    def discard_upto(self, ledger: int, entry: int) -> None:
        gone = [p for p in self.model if p <= (ledger, entry)]
        assert self.delayed.discard_upto(Position(ledger, entry)) == len(gone)
        for p in gone:
            del self.model[p]

    @invariant()
    def same(self) -> None:
        assert len(self.delayed) == len(self.model)
        assert self.delayed.next_due_ms() == min((self.due_at(p) for p in self.model), default=None)


TestDelayedMatchesATable = DelayedMatchesATable.TestCase
TestDelayedMatchesATable.settings = settings(max_examples=examples(100))


def test_message_is_delayed_to_its_millisecond_within_one_step() -> None:
    delayed = Delayed(100)
    delayed.add(1001, Position(1, 1))
    assert delayed.due(1000, 10) == []
    assert delayed.due(1099, 10) == []
    assert delayed.next_due_ms() == 1100
    assert delayed.due(1100, 10) == [Position(1, 1)]
    assert delayed.next_due_ms() is None


def test_messages_due_together_come_in_position_order() -> None:
    delayed = Delayed(100)
    for at_ms, position in [(500, (2, 0)), (300, (2, 9)), (400, (1, 7)), (100, (3, 1)), (400, (1, 2))]:
        delayed.add(at_ms, Position(*position))
    assert delayed.due(1000, 10) == [(1, 2), (1, 7), (2, 0), (2, 9), (3, 1)]


def test_limit_takes_earliest_due_and_leaves_rest_for_next_call() -> None:
    delayed = Delayed(100)
    for entry in range(10):
        delayed.add(100 * (10 - entry), Position(1, entry))
    assert delayed.due(5000, 3) == [(1, 7), (1, 8), (1, 9)]
    assert delayed.due(5000, 100) == [(1, entry) for entry in range(7)]


def test_ten_thousand_messages_of_one_second_share_few_arrays() -> None:
    delayed = Delayed(100)
    for entry in range(10_000):
        delayed.add(60_000 + entry % 1000, Position(1, entry))
    assert len(delayed) == 10_000
    assert len(delayed._buckets) <= 11
    assert delayed.due(59_999, 10_000) == []
    assert delayed.due(61_000, 20_000) == [(1, entry) for entry in range(10_000)]


def test_skipping_to_exactly_first_delayed_message_forgets_it() -> None:
    delayed = Delayed(100)
    delayed.add(1000, Position(1, 5))
    assert delayed.discard_upto(Position(1, 4)) == 0
    assert delayed.discard_upto(Position(1, 5)) == 1
    assert delayed.due(5000, 10) == []


def test_full_index_says_so_and_still_takes_what_was_read() -> None:
    delayed = Delayed(100, positions_max=2)
    assert not delayed.full
    for entry in range(3):
        delayed.add(1000, Position(1, entry))
    assert delayed.full
    assert len(delayed.due(1000, 2)) == 2
    assert not delayed.full
    delayed.clear()
    assert len(delayed) == 0
    assert delayed.next_due_ms() is None
