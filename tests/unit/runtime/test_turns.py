"""The shared budget of a turn: what waits gets its turn in order, and new requests come before long work."""

from __future__ import annotations

import pytest

from magnetar.base.limits import TURN_WORK_COST
from magnetar.runtime.turns import Turns
from tests.support.virtual_clock import run_on_clock, settle


class Diary:
    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.done: list[str] = []

    def work(self, name: str, cost: int = 0, again: int = 0) -> None:
        self.done.append(name)
        self.turns.left -= cost
        if again:
            self.turns.later(lambda: self.work(name, cost, again - 1))


def test_work_beyond_budget_waits_for_later_turns() -> None:
    async def body() -> None:
        diary = Diary(Turns(100))
        for name in "abcd":
            diary.turns.later(lambda name=name: diary.work(name, 60))
        assert diary.done == []
        await settle(1)
        assert diary.done == ["a", "b"]
        await settle(1)
        assert diary.done == ["a", "b", "c", "d"]

    run_on_clock(body)


def test_continued_work_runs_in_another_turn() -> None:
    async def body() -> None:
        diary = Diary(Turns(100))
        diary.turns.later(lambda: diary.work("a", again=2))
        for turn in range(1, 4):
            await settle(1)
            assert diary.done == ["a"] * turn

    run_on_clock(body)


def test_work_that_finds_nothing_costs_something() -> None:
    async def body() -> None:
        diary = Diary(Turns(10 * TURN_WORK_COST))
        for _ in range(15):
            diary.turns.later(lambda: diary.work("a"))
        await settle(1)
        assert len(diary.done) == 10
        await settle(1)
        assert len(diary.done) == 15

    run_on_clock(body)


def test_new_work_precedes_continued_work_without_stopping_it() -> None:
    async def body() -> None:
        diary = Diary(Turns(100))
        for name in "ab":
            diary.turns.later(lambda name=name: diary.work(name, 100))
        for name in "xyz":
            diary.turns.soon(lambda name=name: diary.work(name, 100))
        await settle(1)
        assert diary.done == ["a", "x"]  # one of the old in each turn, and half a budget of the new
        await settle(1)
        assert diary.done == ["a", "x", "b", "y"]
        await settle(1)
        assert diary.done == ["a", "x", "b", "y", "z"]
        diary.done.clear()
        diary.turns.later(lambda: diary.work("a", 50))
        diary.turns.later(lambda: diary.work("b", 50))
        diary.turns.soon(lambda: diary.work("x", 50))
        await settle(1)
        assert diary.done == ["a", "x"]

    run_on_clock(body)


def test_expensive_work_without_end_does_not_stop_new_work() -> None:
    async def body() -> None:
        diary = Diary(Turns(100))
        diary.turns.later(lambda: diary.work("a", 100, again=50))
        for name in "xyz":
            diary.turns.soon(lambda name=name: diary.work(name, 20))
        await settle(2)
        assert set("xyz") <= set(diary.done)

    run_on_clock(body)


def test_work_that_fails_does_not_stop_others() -> None:
    def fails() -> None:
        raise ValueError("of this work alone")

    async def body() -> None:
        diary = Diary(Turns(100))
        diary.turns.later(fails)
        diary.turns.later(lambda: diary.work("a"))
        await settle(3)
        assert diary.done == ["a"]

    with pytest.raises(AssertionError, match="of this work alone"):  # the loop hears of it
        run_on_clock(body)
