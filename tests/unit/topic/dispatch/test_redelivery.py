"""The replay set and the pending map, each beside a plain model."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from magnetar.base.ids import Position
from magnetar.topic.dispatch.redelivery import RedeliveryQueue, UnackedMessages
from tests.support.search_effort import examples

POSITIONS = st.builds(Position, st.integers(0, 3), st.integers(0, 12))


class ReplayMatchesASet(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.replay = RedeliveryQueue()
        self.model: set[Position] = set()

    @rule(positions=st.lists(POSITIONS, max_size=30))
    def add(self, positions: list[Position]) -> None:
        self.replay.add(positions)
        self.model.update(positions)

    @rule(position=POSITIONS)
    def add_one(self, position: Position) -> None:
        self.replay.add_one(position)
        self.model.add(position)

    @rule(n=st.integers(0, 20))
    def pop(self, n: int) -> None:
        expected = sorted(self.model)[:n]
        assert self.replay.pop_first(n) == expected
        self.model.difference_update(expected)

    @rule(n=st.integers(0, 20), odd=st.integers(0, 1))
    def pop_wanted(self, n: int, odd: int) -> None:
        expected = [p for p in sorted(self.model) if p.entry % 2 == odd][:n]
        assert self.replay.pop_first(n, lambda p: p.entry % 2 == odd) == expected
        self.model.difference_update(expected)

    @rule(position=POSITIONS)
    def discard(self, position: Position) -> None:
        assert self.replay.discard(position) == (position in self.model)
        self.model.discard(position)

    @rule(position=POSITIONS)
    def discard_upto(self, position: Position) -> None:
        gone = {p for p in self.model if p <= position}
        assert self.replay.discard_upto(position) == len(gone)
        self.model -= gone

    @invariant()
    def same(self) -> None:
        assert list(self.replay) == sorted(self.model)
        assert len(self.replay) == len(self.model)
        assert bool(self.replay) == bool(self.model)
        assert self.replay.peek() == min(self.model, default=None)
        assert all(p in self.replay for p in self.model)


TestReplayMatchesASet = ReplayMatchesASet.TestCase
TestReplayMatchesASet.settings = settings(max_examples=examples(100))


def test_hundred_thousand_positions_come_out_once_and_in_order() -> None:
    replay = RedeliveryQueue()
    for start in range(0, 100_000, 1000):
        replay.add([Position(1, (entry * 7919) % 100_000) for entry in range(start, start + 1000)])
    replay.add([Position(1, 5), Position(1, 5)])
    out: list[Position] = []
    while replay:
        out += replay.pop_first(100)
    assert out == [Position(1, entry) for entry in range(100_000)]


def test_taken_positions_that_come_back_stand_in_front_again() -> None:
    replay = RedeliveryQueue([Position(1, entry) for entry in range(200)])
    taken = replay.pop_first(150)
    replay.add_one(taken[3])
    replay.add(taken[10:12])
    assert replay.pop_first(4) == [taken[3], taken[10], taken[11], Position(1, 150)]


class PendingMatchesADict(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.pending = UnackedMessages()
        self.model: dict[Position, tuple[int, int]] = {}

    @rule(position=POSITIONS, messages=st.integers(1, 9), slot=st.integers(-1, 3))
    def add(self, position: Position, messages: int, slot: int) -> None:
        self.pending.add(position, messages, slot)
        self.model[position] = (messages, slot)

    @rule(ledger=st.integers(0, 3), first=st.integers(0, 9), counts=st.lists(st.integers(1, 5), max_size=4))
    def add_run(self, ledger: int, first: int, counts: list[int]) -> None:
        self.pending.add_run(ledger, first, counts, 7)
        self.model.update({Position(ledger, first + i): (count, 7) for i, count in enumerate(counts)})

    @rule(position=POSITIONS)
    def remove(self, position: Position) -> None:
        assert self.pending.remove(position) == self.model.pop(position, None)

    @rule(position=POSITIONS, left=st.integers(0, 9))
    def part_of_a_batch(self, position: Position, left: int) -> None:
        held = self.model.get(position)
        if held is None or left >= held[0]:
            assert self.pending.lower(position, left) == 0
        else:
            assert self.pending.lower(position, left) == held[0] - left
            self.model[position] = (left, held[1])

    @rule(position=POSITIONS)
    def cumulative(self, position: Position) -> None:
        expected = sorted((p, *v) for p, v in self.model.items() if p <= position)
        assert self.pending.remove_upto(position) == expected
        for p, _, _ in expected:
            del self.model[p]

    @rule()
    def everything(self) -> None:
        assert self.pending.remove_all() == sorted((p, *v) for p, v in self.model.items())
        self.model.clear()

    @invariant()
    def same(self) -> None:
        assert self.pending.positions() == sorted(self.model)
        assert len(self.pending) == len(self.model)
        assert self.pending.messages == sum(messages for messages, _ in self.model.values())
        assert all(self.pending.get(p) == v and p in self.pending for p, v in self.model.items())


TestPendingMatchesADict = PendingMatchesADict.TestCase
TestPendingMatchesADict.settings = settings(max_examples=examples(100))


@given(position=POSITIONS)
def test_acknowledgement_of_what_is_not_held_changes_nothing(position: Position) -> None:
    pending = UnackedMessages()
    assert pending.remove(position) is None
    assert pending.get(position) is None
    assert pending.messages == 0
