"""When memory of topics that left is given back: once, when the leaving is over, and all of it."""

from __future__ import annotations

from magnetar.base.limits import DEPARTURE_LOOKS_MAX, TOPICS_GONE_MANY
from magnetar.broker.memory_policy import MemoryReturnPolicy

MANY = TOPICS_GONE_MANY


def asked(*left: int, loaded: int = 0) -> list[int]:
    """After which looks it was time."""
    departures = MemoryReturnPolicy()
    return [number for number, count in enumerate(left) if departures.look(count, loaded)]


def test_memory_is_returned_once_when_no_more_topics_leave() -> None:
    assert asked(0, 10 * MANY, 10 * MANY, 10 * MANY) == [2]


def test_topics_leaving_in_small_steps_cause_one_return() -> None:
    steps = [number * MANY // 2 for number in range(7)]
    assert asked(*steps, steps[-1], steps[-1]) == [len(steps)]


def test_endless_leaving_does_not_delay_return_without_bound() -> None:
    leaving = [MANY + number for number in range(DEPARTURE_LOOKS_MAX + 3)]
    assert asked(*leaving, leaving[-1], leaving[-1]) == [DEPARTURE_LOOKS_MAX, len(leaving)]


def test_steady_churn_of_topics_causes_no_return_every_minute() -> None:
    looks = 3 * MANY
    assert len(asked(*range(looks))) == 2


def test_few_leaving_topics_cause_no_return_of_memory() -> None:
    assert asked(MANY - 1, MANY - 1, MANY - 1) == []
    assert asked(2 * MANY, 2 * MANY, loaded=9 * MANY) == []
    assert asked(2 * MANY, 2 * MANY, loaded=8 * MANY) == [1]


def test_what_leaves_after_return_counts_anew() -> None:
    assert asked(MANY, MANY, MANY + 1, MANY + 1, 2 * MANY, 2 * MANY) == [1, 5]
