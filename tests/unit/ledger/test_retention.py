"""Which ledgers may go, by what is consumed, by age and by size."""

from __future__ import annotations

import pytest

from magnetar.base.ids import AFTER_ALL, BEFORE_ALL, Position
from magnetar.ledger.chain import LedgerSpan
from magnetar.ledger.retention import INFINITE, Retention, Rule, TopicSizes, droppable, may_drop

MB = 1024 * 1024
NOW_MS = 100 * 60_000
LINKS = [
    LedgerSpan(1, 10, 4 * MB, closed_ms=10 * 60_000),
    LedgerSpan(3, 10, 4 * MB, closed_ms=50 * 60_000),
    LedgerSpan(5, 10, 4 * MB, closed_ms=90 * 60_000),
    LedgerSpan(7, 10, 4 * MB),
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
def test_without_retention_whole_consumed_ledgers_go_and_open_one_stays(upto, dropped):
    assert droppable(LINKS, upto, Rule(Retention(0, 0), NOW_MS)) == dropped


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
def test_either_limit_lets_consumed_ledger_go(minutes, megabytes, dropped):
    assert droppable(LINKS, AFTER_ALL, Rule(Retention(minutes, megabytes), NOW_MS)) == dropped


def test_retention_never_drops_what_cursor_still_needs():
    assert droppable(LINKS, Position(3, 5), Rule(Retention(0, 0), NOW_MS)) == 1


def test_last_ledger_goes_too_once_it_is_closed_and_consumed():
    links = [*LINKS[:3], LINKS[3].closed(NOW_MS)]
    assert droppable(links, Position(7, 9), Rule(Retention(0, 0), NOW_MS)) == 4
    assert droppable(links, Position(7, 8), Rule(Retention(0, 0), NOW_MS)) == 3


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
def test_topic_is_opened_if_trimmable_or_ledger_lacks_end(
    links: list[LedgerSpan], retention: Retention, worth: bool
) -> None:
    assert may_drop(links, Rule(retention, NOW_MS)) is worth


def test_sealed_last_ledger_is_kept_while_it_is_young() -> None:
    links = [LedgerSpan(1, 10, MB, closed_ms=NOW_MS - 1), LedgerSpan(3, 10, MB, closed_ms=NOW_MS)]
    rule = Rule(Retention(0, 0), NOW_MS + 599_999, sealed_ms_min=600_000)
    assert droppable(links, AFTER_ALL, rule, sealed=True) == 1
    assert droppable(links, AFTER_ALL, rule, sealed=False) == 2
    later = Rule(Retention(0, 0), NOW_MS + 600_000, sealed_ms_min=600_000)
    assert droppable(links, AFTER_ALL, later, sealed=True) == 2


def test_untrusted_clock_drops_nothing_for_its_age() -> None:
    assert droppable(LINKS, AFTER_ALL, Rule(Retention(1, INFINITE), NOW_MS, aging=False)) == 0
    assert droppable(LINKS, AFTER_ALL, Rule(Retention(1, 8), NOW_MS, aging=False)) == 2
    assert droppable(LINKS, AFTER_ALL, Rule(Retention(0, 0), NOW_MS, aging=False)) == 3


@pytest.mark.parametrize(("megabytes", "dropped"), [(4, 3), (8, 2), (12, 2), (13, 1), (20, 1), (21, 0)])
def test_size_limit_counts_ledgers_of_all_segments(megabytes: int, dropped: int) -> None:
    """Two segments: LINKS, and one with ledgers that ended at minutes 20 and 60. The open ledger holds 4 MB."""
    closed = [(link.closed_ms, link.bytes) for link in LINKS if link.closed_ms]
    sizes = TopicSizes([*closed, (20 * 60_000, 4 * MB), (60 * 60_000, 4 * MB)], open_bytes=4 * MB)
    assert droppable(LINKS, AFTER_ALL, Rule(Retention(INFINITE, megabytes), NOW_MS, sizes=sizes)) == dropped


def test_ledgers_that_end_together_do_not_drop_each_other() -> None:
    links = [LedgerSpan(1, 10, 8 * MB, closed_ms=50)]
    sizes = TopicSizes([(50, 8 * MB), (50, 8 * MB)])
    assert droppable(links, AFTER_ALL, Rule(Retention(INFINITE, 8), NOW_MS, sizes=sizes)) == 0
