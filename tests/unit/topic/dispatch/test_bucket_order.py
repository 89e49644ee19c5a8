"""The guard of entry buckets: an entry holds every bucket it spans, and nothing newer passes something older there."""

from __future__ import annotations

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from magnetar.base.errors import InvalidTransition
from magnetar.base.ids import Position
from magnetar.topic.dispatch.bucket_order import BucketOrder
from magnetar.topic.dispatch.entry_buckets import EntryBuckets, slot_of, span

BUCKETS = 5
BOUNDARIES = [(place * 65536 // BUCKETS, (place + 1) * 65536 // BUCKETS - 1) for place in range(BUCKETS)]


def pos(entry: int) -> Position:
    return Position(1, entry)


def test_entry_of_two_buckets_blocks_both_until_it_is_acknowledged() -> None:
    order = BucketOrder[str]()
    order.sent(slot_of(1, 2), "a", pos(0))
    assert not order.may_send(slot_of(2, 2), "b", pos(1))
    assert order.may_send(slot_of(3, 3), "b", pos(1))
    with pytest.raises(InvalidTransition):
        order.sent(slot_of(2, 2), "b", pos(1))
    order.waits(slot_of(2, 2), pos(1))
    assert order.acked(slot_of(1, 2), pos(0))  # somebody waits for what it frees
    assert order.may_send(slot_of(2, 2), "b", pos(1))


def test_entry_of_two_buckets_waits_for_both_without_overtaking() -> None:
    order = BucketOrder[str]()
    order.sent(slot_of(2, 2), "b", pos(0))
    assert not order.may_send(slot_of(1, 2), "a", pos(1))
    order.waits(slot_of(1, 2), pos(1))
    assert not order.may_send(slot_of(1, 1), "a", pos(2))  # bucket 1 is free, yet an older one waits there
    order.waits(slot_of(1, 1), pos(2))
    assert order.take(lambda _: "a", 9, lambda _: True) == []
    order.acked(slot_of(2, 2), pos(0))
    assert order.take(lambda _: "a", 9, lambda _: True) == [pos(1), pos(2)]
    assert order.take(lambda _: "a", 9, lambda _: True) == []  # not twice
    order.put_back([pos(1)])
    assert order.take(lambda _: "a", 9, lambda _: True) == [pos(1)]


def test_entries_of_departed_consumer_wait_in_order_per_bucket() -> None:
    order = BucketOrder[str]()
    order.sent(slot_of(0, 1), "a", pos(0))
    order.sent(slot_of(1, 1), "a", pos(1))
    assert order.consumers_left(["a"]) == [pos(0), pos(1)]
    assert order.held() == 0
    assert not order.may_send(slot_of(0, 0), "b", pos(2))
    assert order.take(lambda _: "b", 9, lambda _: True) == [pos(0), pos(1)]


def test_unready_consumer_delays_its_own_buckets_only() -> None:
    order = BucketOrder[str]()
    for number, slot in enumerate([slot_of(0, 0), slot_of(1, 1), slot_of(0, 1), slot_of(1, 1), slot_of(2, 2)]):
        order.waits(slot, pos(number))
    owner = {0: "slow", 1: "b", 2: "b"}
    assert order.take(lambda slot: owner[span(slot)[0]], 9, lambda name: name != "slow") == [pos(1), pos(4)]


def test_what_is_skipped_or_cleared_blocks_nothing() -> None:
    order = BucketOrder[str]()
    order.sent(slot_of(0, 3), "a", pos(0))
    order.waits(slot_of(1, 2), pos(1))
    order.discard_upto(pos(1))
    assert (order.held(), order.waiting()) == (0, 0)
    assert order.may_send(slot_of(0, 3), "b", pos(2))
    order.sent(slot_of(0, 0), "a", pos(2))
    order.clear()
    assert order.holder(0) is None


class NoBucketAtTwoConsumers(RuleBasedStateMachine):
    """A dispatcher in small: entries are read in order, sent if the guard allows, else they wait. The model knows where
    each is, and looks at every pair of entries that have a bucket in common.
    """

    guard: type[BucketOrder[int]] = BucketOrder

    def __init__(self) -> None:
        super().__init__()
        self.order = self.guard()
        self.selector = EntryBuckets[int](BOUNDARIES)
        self.consumers: list[int] = []
        self.joined = 0
        self.read = 0
        self.slot: dict[Position, int] = {}
        self.held: dict[Position, int] = {}
        self.waiting: set[Position] = set()
        self.done: set[Position] = set()

    def _common(self, one: Position, other: Position) -> bool:
        return bool(set(span(self.slot[one])) & set(span(self.slot[other])))

    def _try(self, position: Position) -> bool:
        consumer = self.selector.select(self.slot[position])
        if consumer is None:
            return False
        older = any(p < position and self._common(p, position) for p in self.waiting)
        elsewhere = any(c != consumer and self._common(p, position) for p, c in self.held.items())
        assert self.order.may_send(self.slot[position], consumer, position) == (not older and not elsewhere)
        if older or elsewhere:
            return False
        self.order.sent(self.slot[position], consumer, position)
        self.waiting.discard(position)
        self.held[position] = consumer
        return True

    @rule()
    def join(self) -> None:
        if len(self.consumers) < 4:
            self.joined += 1
            self.consumers.append(self.joined)
            self.selector.add(self.joined, f"c{self.joined}", self.joined, BOUNDARIES)
            self.order.moved()

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        gone = data.draw(st.sampled_from(self.consumers))
        self.consumers.remove(gone)
        self.selector.remove(gone)
        theirs = sorted(p for p, c in self.held.items() if c == gone)
        assert self.order.consumers_left([gone]) == theirs
        for position in theirs:
            del self.held[position]
            self.waiting.add(position)

    @rule(first=st.integers(0, BUCKETS - 1), more=st.integers(0, 2))
    def entry(self, first: int, more: int) -> None:
        position = pos(self.read)
        self.read += 1
        self.slot[position] = slot_of(first, min(first + more, BUCKETS - 1))
        if not self._try(position):
            self.order.waits(self.slot[position], position)
            self.waiting.add(position)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), again=st.booleans())
    def answer(self, data: st.DataObject, again: bool) -> None:
        position = data.draw(st.sampled_from(sorted(self.held)))
        del self.held[position]
        if again:
            self.order.waits(self.slot[position], position)
            self.waiting.add(position)
        else:
            self.order.acked(self.slot[position], position)
            self.done.add(position)

    @precondition(lambda self: self.waiting)
    @rule(n=st.integers(1, 4), idle=st.integers(0, 4))
    def hand_out(self, n: int, idle: int) -> None:
        taken = self.order.take(self.selector.select, n, lambda consumer: consumer != idle)
        assert taken == sorted(taken)
        for position in taken:
            assert self._try(position)  # what is taken can be sent, in the order given

    @invariant()
    def every_entry_is_in_one_place(self) -> None:
        assert len(self.held) + len(self.waiting) + len(self.done) == self.read
        assert self.order.held() == len(self.held)
        assert self.order.waiting() == len(self.waiting)

    @invariant()
    def a_bucket_has_one_holder(self) -> None:
        for bucket in range(BUCKETS):
            holders = {c for p, c in self.held.items() if bucket in span(self.slot[p])}
            assert len(holders) <= 1
            assert self.order.holder(bucket) == next(iter(holders), None)

    def teardown(self) -> None:
        """Whatever happened, everything goes out in the end."""
        if not self.consumers:
            self.join()
        for _ in range(self.read + 1):
            for position in sorted(self.held):
                del self.held[position]
                self.order.acked(self.slot[position], position)
                self.done.add(position)
            for position in self.order.take(self.selector.select, 100, lambda _: True):
                assert self._try(position)
        assert not self.waiting


_FEW = settings(max_examples=25, stateful_step_count=25, deadline=None)


def test_no_bucket_is_at_two_consumers_in_any_history() -> None:
    run_state_machine_as_test(NoBucketAtTwoConsumers, settings=_FEW)


class LooksAtItsFirstBucketOnly(BucketOrder[int]):
    """What a guard that tracks a spanning entry for one of its buckets would do."""

    def may_send(self, slot: int, consumer: int, position: Position) -> bool:
        first = span(slot)[0]
        return super().may_send(slot_of(first, first), consumer, position)


class _Wrong(NoBucketAtTwoConsumers):
    guard = LooksAtItsFirstBucketOnly


def test_mutant_tracking_one_bucket_of_spanning_entry_is_found() -> None:
    settled = settings(_FEW, max_examples=300, phases=[Phase.generate], database=None, derandomize=True)
    with pytest.raises((AssertionError, InvalidTransition)):
        run_state_machine_as_test(_Wrong, settings=settled)
