"""Which ledgers may go, by what is consumed, by age and by size."""

from __future__ import annotations

import pytest

from magnetar.base.ids import AFTER_ALL, BEFORE_ALL, Position
from magnetar.ledger.chain import Link
from magnetar.ledger.retention import INFINITE, Retention, droppable, may_drop

MB = 1024 * 1024
NOW_MS = 100 * 60_000
LINKS = [
    Link(1, 10, 4 * MB, closed_ms=10 * 60_000),
    Link(3, 10, 4 * MB, closed_ms=50 * 60_000),
    Link(5, 10, 4 * MB, closed_ms=90 * 60_000),
    Link(7, 10, 4 * MB),
]


@pytest.mark.parametrize(
    ("upto", "dropped"),
    [
        (BEFORE_ALL, 0),
        (Position(1, 8), 0),
        (Position(1, 9), 1),
        (Position(5, 0), 2),
        (Position(5, 9), 3),
        (AFTER_ALL, 3),
    ],
)
def test_without_retention_whole_consumed_ledgers_go_and_the_open_one_stays(upto, dropped):
    assert droppable(LINKS, upto, Retention(0, 0), NOW_MS) == dropped


@pytest.mark.parametrize(
    ("minutes", "megabytes", "dropped"),
    [
        (INFINITE, INFINITE, 0),
        (60, INFINITE, 1),
        (45, INFINITE, 2),
        (50, INFINITE, 1),
        (INFINITE, 8, 2),
        (INFINITE, 9, 1),
        (INFINITE, 1000, 0),
        (60, 8, 2),
        (45, 1000, 2),
        (10, INFINITE, 2),
        (0, 1000, 3),
    ],
)
def test_either_limit_lets_a_consumed_ledger_go(minutes, megabytes, dropped):
    assert droppable(LINKS, AFTER_ALL, Retention(minutes, megabytes), NOW_MS) == dropped


def test_retention_never_drops_what_a_cursor_still_needs():
    assert droppable(LINKS, Position(3, 5), Retention(0, 0), NOW_MS) == 1


def test_the_last_ledger_goes_too_once_it_is_closed_and_consumed():
    links = [*LINKS[:3], LINKS[3].closed(NOW_MS)]
    assert droppable(links, Position(7, 9), Retention(0, 0), NOW_MS) == 4
    assert droppable(links, Position(7, 8), Retention(0, 0), NOW_MS) == 3


@pytest.mark.parametrize(
    ("links", "retention", "worth"),
    [
        (LINKS[:1], Retention(), True),
        (LINKS[:1], Retention(89, INFINITE), True),
        (LINKS[:1], Retention(91, INFINITE), False),
        (LINKS[:2], Retention(INFINITE, 4), True),
        (LINKS[:1], Retention(INFINITE, 4), False),
        (LINKS[3:], Retention(91, INFINITE), True),
        (LINKS, Retention(INFINITE, INFINITE), False),
        ([], Retention(), False),
    ],
)
def test_a_topic_is_worth_opening_where_something_could_go_or_a_crash_left_a_ledger_without_an_end(
    links: list[Link], retention: Retention, worth: bool
) -> None:
    assert may_drop(links, retention, NOW_MS) is worth
