"""The judge of order: each fault is found, and what is no fault is not."""

from __future__ import annotations

from magnetar.cli.traffic.order_check import SHOWN_MAX, OrderChecker, SendOutcome


def sent(count: int, fate: SendOutcome | None = SendOutcome.STORED) -> OrderChecker:
    ordering = OrderChecker()
    for _ in range(count):
        number = ordering.next("k")
        if fate is not None:
            ordering.told("k", number, fate)
    return ordering


def kinds(ordering: OrderChecker) -> list[tuple[str, int]]:
    return [(finding.kind, finding.number) for finding in ordering.judge()]


def test_everything_in_order_is_kept():
    ordering = sent(3)
    assert ordering.outstanding == 3
    for number in range(3):
        ordering.came("k", number, number)
    assert (kinds(ordering), ordering.kept, ordering.outstanding) == ([], True, 0)


def test_stored_and_never_received_is_lost():
    ordering = sent(3)
    ordering.came("k", 0, 0)
    ordering.came("k", 2, 2)
    assert kinds(ordering) == [("lost", 1)]
    assert not ordering.kept


def test_lower_number_that_first_comes_behind_a_higher_one_is_disorder():
    ordering = sent(3)
    for number in (0, 2, 1):
        ordering.came("k", number, number)
    assert kinds(ordering) == [("disordered", 1)]


def test_coming_again_from_the_same_place_is_no_fault_and_from_another_is_a_duplicate():
    ordering = sent(2)
    for number in (0, 1, 0, 1):
        ordering.came("k", number, number)
    assert (ordering.kept, ordering.redelivered) == (True, 2)
    ordering.came("k", 1, "elsewhere")
    assert kinds(ordering) == [("duplicated", 1)]


def test_what_nobody_sent_or_was_said_not_to_be_stored_is_invented():
    ordering = sent(1, SendOutcome.FAILED)
    ordering.came("k", 0, 0)
    ordering.came("k", 7, 7)
    assert kinds(ordering) == [("invented", 0), ("invented", 7)]
    late = sent(1, None)
    late.came("k", 0, 0)
    late.told("k", 0, SendOutcome.FAILED)
    assert kinds(late) == [("invented", 0)]


def test_unknown_fate_may_come_or_not_but_a_missing_fate_is_a_fault():
    ordering = sent(2, SendOutcome.UNKNOWN)
    ordering.came("k", 1, 1)
    assert kinds(ordering) == []
    assert kinds(sent(1, None)) == [("lost", 0)]


def test_fate_told_twice_is_a_fault():
    ordering = sent(1, SendOutcome.UNKNOWN)
    ordering.told("k", 0, SendOutcome.STORED)
    assert [finding.text for finding in ordering.findings] == ["two results of one send: unknown, then stored"]


def test_another_reader_is_judged_by_the_same_messages():
    ordering = sent(2)
    for number in range(2):
        ordering.came("k", number, number)
    late = ordering.afresh()
    assert (late.outstanding, late.received, late.keys) == (2, 0, 1)
    late.came("k", 1, 1)
    assert kinds(late) == [("lost", 0)]
    assert ordering.kept


def test_all_faults_are_counted_and_some_are_told():
    ordering = sent(SHOWN_MAX + 5)
    ordering.judge()
    assert (ordering.counts, len(ordering.findings)) == ({"lost": SHOWN_MAX + 5}, SHOWN_MAX)
