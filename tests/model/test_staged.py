"""Every interleaving of tasks, drivers and publishing brokers of a small sink: each row of a committed batch comes
once, whatever is repeated, late, lost or dead; and without any one safeguard it does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from magnetar.base import validation
from magnetar.staged import machine
from magnetar.staged.machine import Committed, StageBegun
from tests.model.explore import Found, explore
from tests.model.staging import Rules, Staging

ONE = (((0,),),)  # one task with one row
TWO = (((0,), (1,)),)
SHUFFLED = (((0,), (1,)), ((1, 0),))  # the second run has another number of partitions


@dataclass(frozen=True)
class Row:
    name: str
    cuts: tuple[Any, ...]
    states: int  # seen when it was written: fewer would mean that something is not tried any more
    batches: int = 1
    faults: dict[str, int] = field(default_factory=dict)

    def explored(self, rules: Rules | None = None) -> Found:
        world = Staging(self.batches, self.cuts, rules or Rules())
        return explore(world.start(**self.faults), world.moves, broken=world.broken, unsettled=world.unsettled)


ROWS = {
    row.name: row
    for row in [
        Row("two tasks", TWO, 140),
        Row("two batches", ONE, 58, batches=2),
        Row("a task is repeated", TWO, 5108, faults={"repeats": 1}),
        Row("a driver dies, its tasks live on", SHUFFLED, 27293, faults={"deaths": 1}),
        Row("two drivers, two batches", ONE, 47090, batches=2, faults={"deaths": 1}),
        Row("an answer of a commit is lost", SHUFFLED, 596, faults={"losses": 1}),
        Row("an answer is lost, a task is repeated", ONE, 640, faults={"losses": 1, "repeats": 1}),
        Row("a lease ends", TWO, 1346, faults={"leases": 1}),
        Row("a lease ends while a batch is published", ONE, 150, batches=2, faults={"leases": 1}),
        Row("a lease ends under a repeated task", ONE, 890, faults={"leases": 1, "repeats": 1}),
        Row("a publishing broker dies", (((0, 1), (2,)),), 1921, faults={"crashes": 1}),
        Row("two brokers publish at once", (((0, 1),),), 2113, batches=2, faults={"crashes": 2}),
        Row("a driver and a broker die", ONE, 254106, batches=2, faults={"deaths": 1, "crashes": 1}),
    ]
}


LARGE = {"a driver and a broker die"}  # ten seconds of one core


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LARGE)) for name in ROWS])
def test_each_row_comes_once_in_any_interleaving_of(name: str, record_property: Callable[[str, object], None]) -> None:
    found = ROWS[name].explored()
    record_property("states", found.states)
    assert not found.wrong, str(found)
    assert found.states >= ROWS[name].states, "fewer interleavings are tried than when this was written"


def no_batch_check() -> Rules:
    def commit(sink: Any, batch: int, numbers: Any, **more: Any) -> Any:
        low = msgspec.structs.replace(sink, last=min(sink.last, batch - 1))
        after, outcome = machine.commit(low, batch, numbers, **more)
        return msgspec.structs.replace(after, last=max(after.last, sink.last)), outcome

    def begin(sink: Any, batch: int, **more: Any) -> Any:
        after, begun = machine.begin(msgspec.structs.replace(sink, last=-1), batch, **more)
        return msgspec.structs.replace(after, last=sink.last), begun

    return Rules(begin=begin, commit=commit)


def abort_undoes() -> Rules:
    def drop(sink: Any, numbers: tuple[int, ...], **more: Any) -> Any:
        chosen = tuple(one for one in sink.chosen if one.number not in numbers)
        gone = tuple(one.number for one in sink.chosen if one.number in numbers)
        sink = msgspec.structs.replace(sink, chosen=chosen, dropped=(*sink.dropped, *gone))
        return machine.drop(sink, numbers, **more)

    return Rules(drop=drop)


def stage_numbers_repeat() -> Rules:
    """As if a task's name were made of what a restarted driver counts anew."""

    def begin(sink: Any, batch: int, **more: Any) -> Any:
        for one in sink.stages:
            if one.batch == batch and not one.sealed:
                return sink, StageBegun(one.number)
        return machine.begin(sink, batch, **more)

    return Rules(begin=begin)


def sequence_ids_begin_anew() -> Rules:
    def commit(sink: Any, batch: int, numbers: Any, **more: Any) -> Any:
        after, outcome = machine.commit(sink, batch, numbers, **more)
        if isinstance(outcome, Committed):
            chosen = tuple(one if one.batch != batch else msgspec.structs.replace(one, first=0) for one in after.chosen)
            after = msgspec.structs.replace(after, chosen=chosen)
        return after, outcome

    return Rules(commit=commit)


def leases_end_what_was_chosen() -> Rules:
    def expire(sink: Any, **more: Any) -> Any:
        over = machine.expire(sink, **more)
        chosen = tuple(one.number for one in over.chosen)
        return msgspec.structs.replace(over, chosen=(), dropped=(*over.dropped, *chosen))

    return Rules(expire=expire)


def batches_are_published_together() -> Rules:
    return Rules(due=lambda sink: sink.chosen)


def losers_are_kept() -> Rules:
    def commit(sink: Any, batch: int, numbers: Any, **more: Any) -> Any:
        after, outcome = machine.commit(sink, batch, numbers, **more)
        return msgspec.structs.replace(after, dropped=sink.dropped), outcome

    return Rules(commit=commit)


@pytest.mark.parametrize(
    ("mutant", "row", "wrong"),
    [
        (no_batch_check, "an answer of a commit is lost", "twice"),
        (no_batch_check, "two drivers, two batches", "twice"),
        (abort_undoes, "an answer of a commit is lost", "lost"),
        (stage_numbers_repeat, "a driver dies, its tasks live on", ""),
        (sequence_ids_begin_anew, "two batches", "lost"),
        (leases_end_what_was_chosen, "a lease ends while a batch is published", "lost"),
        (batches_are_published_together, "two batches", "lost"),
        (losers_are_kept, "a task is repeated", "left"),
        (lambda: Rules(deduplicates=False), "a publishing broker dies", "twice"),
        (lambda: Rules(deduplicates=False), "two brokers publish at once", "twice"),
    ],
    ids=lambda one: one.__name__ if callable(one) else "",
)
def test_without_safeguard_row_is_lost_or_doubled(mutant: Callable[[], Rules], row: str, wrong: str) -> None:
    with validation.disabled():
        found = ROWS[row].explored(mutant())
    assert found.wrong, "a safeguard that nobody misses, or a mutant that mutates nothing"
    assert wrong in found.wrong, str(found)
