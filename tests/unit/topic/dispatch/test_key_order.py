"""The guard of key order: one holder per slot, nothing newer past something older, whatever joins, leaves, acks and
nacks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from magnetar.base.errors import InvalidTransition
from magnetar.base.ids import Position
from magnetar.topic.dispatch.key_order import KeyOrder
from magnetar.topic.dispatch.key_selectors import AutoSplit
from tests.support.search_effort import examples

SLOTS = 6


def pos(entry: int) -> Position:
    return Position(1, entry)


class NoKeyAtTwoConsumers(RuleBasedStateMachine):
    """A dispatcher in small: entries are read in order, sent if the guard allows, else they wait; the model knows
    where each is.
    """

    guard: type[KeyOrder[int]] = KeyOrder

    def __init__(self) -> None:
        super().__init__()
        self.order = self.guard()
        self.selector = AutoSplit[int](slots=SLOTS)
        self.consumers: list[int] = []
        self.joined = 0
        self.busy = 3
        self.read = 0  # next entry never read
        self.slot: dict[Position, int] = {}
        self.held: dict[Position, int] = {}
        self.waiting: set[Position] = set()
        self.taken: list[Position] = []
        self.first_deliveries: dict[int, list[Position]] = {}

    def try_send(self, position: Position) -> bool:
        slot = self.slot[position]
        consumer = self.selector.select(slot)
        older_waits = any(p < position for p in self.waiting if self.slot[p] == slot)
        elsewhere = any(c != consumer for p, c in self.held.items() if self.slot[p] == slot)
        if consumer is None:
            return False
        assert self.order.may_send(slot, consumer, position) == (not older_waits and not elsewhere)
        if older_waits or elsewhere:
            with pytest.raises(InvalidTransition):
                self.order.sent(slot, consumer, position)
            return False
        self.order.sent(slot, consumer, position)
        self.waiting.discard(position)
        self.held[position] = consumer
        seen = self.first_deliveries.setdefault(slot, [])
        if position not in seen:
            assert not seen or position > seen[-1], "a key's messages are first delivered in order"
            seen.append(position)
        return True

    @precondition(lambda self: len(self.consumers) < 4)
    @rule()
    def join(self) -> None:
        self.joined += 1
        self.consumers.append(self.joined)
        self.selector.add(self.joined)
        self.order.moved()

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        consumer = data.draw(st.sampled_from(self.consumers))
        self.consumers.remove(consumer)
        self.selector.remove(consumer)
        released = sorted(p for p, c in self.held.items() if c == consumer)
        assert self.order.consumers_left([consumer]) == released
        for position in released:
            del self.held[position]
            self.waiting.add(position)

    @rule(slots=st.lists(st.integers(0, SLOTS - 1), min_size=1, max_size=6))
    def read_new_entries(self, slots: list[int]) -> None:
        for slot in slots:
            position = pos(self.read)
            self.read += 1
            self.slot[position] = slot
            if not self.try_send(position):
                self.order.waits(slot, position)
                self.waiting.add(position)

    def ready(self, consumer: int) -> bool:
        return consumer % 3 != self.busy

    def ready_owner(self, slot: int) -> int | None:
        consumer = self.selector.select(slot)
        return consumer if consumer is not None and self.ready(consumer) else None

    @rule(n=st.integers(1, 8), busy=st.integers(0, 3))
    def take_for_redelivery(self, n: int, busy: int) -> None:
        self.busy = busy
        taken = self.order.take(self.selector.select, n, self.ready)
        assert taken == sorted(taken)
        assert len(set(taken)) == len(taken) <= n
        assert set(taken) <= self.waiting - set(self.taken)
        for position in taken:
            consumer = self.ready_owner(self.slot[position])
            assert consumer is not None
            assert self.order.holder(self.slot[position]) in (None, consumer)
        if len(taken) < n:
            for position in self.waiting - set(self.taken) - set(taken):
                slot = self.slot[position]
                consumer = self.ready_owner(slot)
                assert consumer is None or self.order.holder(slot) not in (None, consumer), (
                    "nothing sendable was left behind"
                )
        self.taken += taken

    @rule(permits=st.integers(0, 8))
    def send_what_was_taken(self, permits: int) -> None:
        unsent = [p for i, p in enumerate(self.taken) if p in self.waiting and (i >= permits or not self.try_send(p))]
        self.order.put_back(unsent)
        self.taken = []

    @precondition(lambda self: self.held)
    @rule(data=st.data(), twice=st.booleans())
    def ack(self, data: st.DataObject, twice: bool) -> None:
        position = data.draw(st.sampled_from(sorted(self.held)))
        slot = self.slot[position]
        del self.held[position]
        freed = all(self.slot[p] != slot for p in self.held)
        assert self.order.acked(slot, position) == freed
        if twice:
            assert not self.order.acked(slot, position)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def ack_late_after_nack(self, data: st.DataObject) -> None:
        position = data.draw(st.sampled_from(sorted(self.waiting)))
        self.order.acked(self.slot[position], position)
        self.waiting.discard(position)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def nack(self, data: st.DataObject) -> None:
        position = data.draw(st.sampled_from(sorted(self.held)))
        slot = self.slot[position]
        del self.held[position]
        assert self.order.waits(slot, position) == all(self.slot[p] != slot for p in self.held)
        self.waiting.add(position)

    @rule(back=st.integers(0, 5))
    def skip(self, back: int) -> None:
        upto = pos(self.read - 1 - back)
        self.order.discard_upto(upto)
        self.held = {p: c for p, c in self.held.items() if p > upto}
        self.waiting = {p for p in self.waiting if p > upto}

    @invariant()
    def unacked_entries_of_a_slot_are_with_one_consumer(self) -> None:
        for slot in range(SLOTS):
            holders = {c for p, c in self.held.items() if self.slot[p] == slot}
            assert len(holders) <= 1
            assert self.order.holder(slot) == next(iter(holders), None)
            assert self.order.count(slot) == sum(self.slot[p] == slot for p in self.held)

    @invariant()
    def memory_is_what_is_unacked(self) -> None:
        assert self.order.held() == len(self.held)
        assert self.order.waiting() == len(self.waiting)
        assert self.order._taken <= self.waiting
        assert self.order._slots == {p: self.slot[p] for p in self.waiting}
        assert all(self.order._waiting.values())
        assert all(self.order._held.values())


NoKeyAtTwoConsumers.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=60, deadline=None)
TestNoKeyAtTwoConsumers = NoKeyAtTwoConsumers.TestCase


class GivesToAnybody(KeyOrder[int]):
    def may_send(self, slot: int, consumer: int, position: Position) -> bool:
        return True


class LetsOvertake(KeyOrder[int]):
    def may_send(self, slot: int, consumer: int, position: Position) -> bool:
        return self._holders.get(slot, consumer) == consumer


class KeepsLeavers(KeyOrder[int]):
    def consumers_left(self, consumers: Collection[int]) -> list[Position]:
        return sorted(position for consumer in consumers for position in self._held.get(consumer, {}))


class TakesFromHolders(KeyOrder[int]):
    def take(self, select: Callable[[int], int | None], n: int, ready: Callable[[int], bool]) -> list[Position]:
        holders, self._holders = self._holders, {}
        try:
            return super().take(select, n, ready)
        finally:
            self._holders = holders


@pytest.mark.parametrize("hole", [GivesToAnybody, LetsOvertake, KeepsLeavers, TakesFromHolders])
def test_machine_catches_guard_with_hole(hole: type[KeyOrder[int]]) -> None:
    holed = type("Holed", (NoKeyAtTwoConsumers,), {"guard": hole})
    quick = settings(
        max_examples=300,
        stateful_step_count=60,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
    )
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        run_state_machine_as_test(holed, settings=quick)


def test_newer_entry_does_not_overtake_older_one_that_waits() -> None:
    order = KeyOrder[str]()
    order.sent(7, "a", pos(1))
    order.waits(7, pos(1))
    assert order.holder(7) is None
    assert not order.may_send(7, "a", pos(2))
    assert order.may_send(7, "b", pos(1))
    order.sent(7, "b", pos(1))
    assert order.may_send(7, "b", pos(2))
    assert not order.may_send(7, "a", pos(2))


def test_moved_slot_stays_blocked_until_last_unacked_entry() -> None:
    order = KeyOrder[str]()
    order.sent(7, "a", pos(1))
    order.sent(7, "a", pos(2))
    assert not order.acked(7, pos(1))
    assert not order.may_send(7, "b", pos(3))
    assert order.acked(7, pos(2))
    assert order.may_send(7, "b", pos(3))


def test_ack_under_wrong_slot_frees_nothing() -> None:
    order = KeyOrder[str]()
    order.sent(7, "a", pos(1))
    order.sent(8, "a", pos(2))
    assert not order.acked(8, pos(1))
    assert order.count(7) == order.count(8) == 1


def test_taken_entries_hold_back_newer_ones_until_sent() -> None:
    order = KeyOrder[str]()
    order.waits(7, pos(1))
    assert order.take(lambda slot: "a", 10, lambda consumer: True) == [pos(1)]
    assert order.take(lambda slot: "a", 10, lambda consumer: True) == []
    assert not order.may_send(7, "a", pos(2))
    order.put_back([pos(1)])
    assert order.take(lambda slot: "a", 10, lambda consumer: True) == [pos(1)]


def test_repeated_late_acknowledgements_do_not_accumulate() -> None:
    order = KeyOrder[str]()
    for entry in range(5000):
        order.waits(7, pos(entry))
        order.take(lambda slot: "a", 0, lambda consumer: False)
        order.acked(7, pos(entry))
    assert order.waiting() == 0
    assert sum(map(len, order._files.values())) <= 70


def test_slot_nobody_owns_waits_until_somebody_joins() -> None:
    order = KeyOrder[str]()
    order.waits(7, pos(1))
    assert order.take(lambda slot: None, 10, lambda consumer: True) == []
    order.moved()
    assert order.take(lambda slot: "a", 10, lambda consumer: True) == [pos(1)]


def test_after_rewind_nothing_is_remembered() -> None:
    order = KeyOrder[str]()
    order.sent(7, "a", pos(1))
    order.waits(8, pos(2))
    order.take(lambda slot: "a", 1, lambda consumer: True)
    order.clear()
    assert (order.held(), order.waiting(), order.holder(7)) == (0, 0, None)
    assert order.may_send(7, "b", pos(9))
