"""The checkers of what operators set and what is delayed: what is wrong is found, what is legal is let through."""

from __future__ import annotations

import pytest

from simulation import history as record
from simulation.check import dead_letters
from simulation.check.suite import check_history
from simulation.history import INVOKE, OK, UNKNOWN, History, Value

TOPIC = "persistent://public/default/t"
VALUE = Value("p", "k", 0)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0


def was_set(*ends: tuple[str, str]) -> History:
    history = History()
    for value, phase in ends:
        history.note("steward", record.SET, INVOKE, key="color", to=value)
        history.note("steward", record.SET, phase, key="color", to=value)
    return history


def told(history: History, *values: str | None) -> list[int]:
    for number, value in enumerate(values):
        history.note(f"b{number}", record.TOLD, OK, key="color", to=value)
    return [finding.invariant for finding in check_history(history)]


@pytest.mark.parametrize("value", ["red", None])
def test_broker_that_tells_what_was_set_before_is_found(value: str | None) -> None:
    assert told(was_set(("red", OK), ("blue", OK)), "blue", value) == [16]


def test_disagreeing_brokers_are_found_although_each_may_be_right() -> None:
    assert told(was_set(("red", OK), ("blue", UNKNOWN)), "red", "blue") == [16]


@pytest.mark.parametrize("value", ["red", "blue"])
def test_what_nobody_heard_of_may_have_happened_or_not(value: str) -> None:
    assert told(was_set(("red", OK), ("blue", UNKNOWN)), value, value) == []


def test_what_was_never_set_is_not_there() -> None:
    assert told(was_set(), None) == []
    assert told(was_set(), "red") == [16]


def delayed(due: float, came: float, *, kind: str = "Shared", jumped: bool = False) -> list[str]:
    clock = Clock()
    history = History(lambda: clock.now)
    history.note("world", record.TOPIC, OK, TOPIC, deduplication=False, kept=True)
    if jumped:
        history.note("world", record.FAULT, OK, what="  0.500 jump b0 (5)")
    history.note("c", record.SUBSCRIBE, OK, TOPIC, subscription="s", session=2, type=kind, earliest=True)
    history.note("p", record.SEND, INVOKE, TOPIC, value=VALUE, session=1, due=due)
    history.note("p", record.SEND, OK, TOPIC, value=VALUE, place=(1, 0, 0), session=1)
    clock.now = came
    history.note("c", record.RECEIVE, OK, TOPIC, subscription="s", value=VALUE, place=(1, 0, 0), session=2, epoch=1)
    return [str(finding) for finding in check_history(history)]


def test_delayed_message_that_comes_early_is_found() -> None:
    assert len(delayed(2.0, 1.9)) == 1


def test_one_that_comes_in_time_or_late_is_let_through() -> None:
    assert delayed(2.0, 2.0) == []
    assert delayed(2.0, 60.0) == []


def test_single_consumer_is_active_immediately_unless_clock_was_set() -> None:
    assert delayed(2.0, 1.0, kind="Exclusive") == []
    assert delayed(2.0, 1.0, jumped=True) == []


def dead_letter_findings(*events: tuple[str, str]) -> list[int]:
    """A queue of which this is written down, and then all is quiet. What its checker says."""
    history = History()
    history.note("world", record.TOPIC, OK, TOPIC, deduplication=False, kept=True, scalable=True)
    history.note("c", record.SUBSCRIBE, OK, TOPIC, subscription="q", session=1, type="Queue", earliest=True)
    for operation, phase in events:
        history.note("c", operation, phase, TOPIC, subscription="q", session=1, value=VALUE)
    history.note("world", record.SETTLE, OK, TOPIC, subscription="q")
    return [finding.invariant for finding in dead_letters.check(history)]


def test_buried_message_that_nobody_refused_is_found() -> None:
    assert dead_letter_findings((record.BURY, INVOKE), (record.BURY, OK)) == [17]


def test_refused_message_that_is_never_buried_is_found() -> None:
    assert dead_letter_findings((record.NACK, OK), (record.BURY, INVOKE)) == [17]


def test_refused_message_that_is_buried_is_let_through() -> None:
    assert dead_letter_findings((record.NACK, OK), (record.BURY, INVOKE), (record.BURY, OK)) == []
