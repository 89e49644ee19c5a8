"""The judge of order: each fault is found, and what is no fault is not."""

from __future__ import annotations

from magnetar import testing
from magnetar.testing.order import SHOWN_MAX, Arrival, Arrivals, KeyOrder, OrderChecker, SendOutcome


def sent(count: int, fate: SendOutcome | None = SendOutcome.STORED) -> OrderChecker:
    ordering = OrderChecker()
    for _ in range(count):
        number = ordering.next_number("k")
        if fate is not None:
            ordering.record_result("k", number, fate)
    return ordering


def kinds(ordering: OrderChecker) -> list[tuple[str, int]]:
    return [(finding.kind, finding.number) for finding in ordering.finish()]


def test_everything_in_order_is_kept():
    ordering = sent(3)
    assert ordering.outstanding == 3
    for number in range(3):
        ordering.record_received("k", number, number)
    assert (kinds(ordering), ordering.ok, ordering.outstanding) == ([], True, 0)


def test_stored_and_never_received_is_lost():
    ordering = sent(3)
    ordering.record_received("k", 0, 0)
    ordering.record_received("k", 2, 2)
    assert kinds(ordering) == [("lost", 1)]
    assert not ordering.ok


def test_lower_number_that_first_comes_behind_higher_one_is_disorder():
    ordering = sent(3)
    for number in (0, 2, 1):
        ordering.record_received("k", number, number)
    assert kinds(ordering) == [("disordered", 1)]


def test_redelivery_from_same_position_is_valid_and_other_is_duplicate():
    ordering = sent(2)
    for number in (0, 1, 0, 1):
        ordering.record_received("k", number, number)
    assert (ordering.ok, ordering.redelivered) == (True, 2)
    ordering.record_received("k", 1, "elsewhere")
    assert kinds(ordering) == [("duplicated", 1)]


def test_unsent_or_definitely_unstored_message_is_invented():
    ordering = sent(1, SendOutcome.FAILED)
    ordering.record_received("k", 0, 0)
    ordering.record_received("k", 7, 7)
    assert kinds(ordering) == [("invented", 0), ("invented", 7)]
    late = sent(1, None)
    late.record_received("k", 0, 0)
    late.record_result("k", 0, SendOutcome.FAILED)
    assert kinds(late) == [("invented", 0)]


def test_unknown_outcome_may_appear_but_missing_outcome_is_fault():
    ordering = sent(2, SendOutcome.UNKNOWN)
    ordering.record_received("k", 1, 1)
    assert kinds(ordering) == []
    assert kinds(sent(1, None)) == [("lost", 0)]


def test_fate_told_twice_is_fault():
    ordering = sent(1, SendOutcome.UNKNOWN)
    ordering.record_result("k", 0, SendOutcome.STORED)
    assert [finding.text for finding in ordering.findings] == ["two results of one send: unknown, then stored"]


def test_another_reader_is_judged_by_same_messages():
    ordering = sent(2)
    for number in range(2):
        ordering.record_received("k", number, number)
    late = ordering.for_another_reader()
    assert (late.outstanding, late.received, late.keys) == (2, 0, 1)
    late.record_received("k", 1, 1)
    assert kinds(late) == [("lost", 0)]
    assert ordering.ok


def test_all_faults_are_counted_and_some_are_told():
    ordering = sent(SHOWN_MAX + 5)
    ordering.finish()
    assert (ordering.counts, len(ordering.findings)) == ({"lost": SHOWN_MAX + 5}, SHOWN_MAX)


def test_negative_number_is_invented():
    ordering = sent(1)
    ordering.record_received("k", -1)
    assert ordering.counts == {"invented": 1}


def test_repetition_without_positions_counts_as_redelivered():
    ordering = sent(1)
    ordering.record_received("k", 0)
    ordering.record_received("k", 0)
    assert (ordering.ok, ordering.received, ordering.redelivered) == (True, 2, 1)


def test_result_after_arrival_leaves_nothing_outstanding():
    ordering = sent(1, None)
    ordering.record_received("k", 0)
    ordering.record_result("k", 0, SendOutcome.STORED)
    assert ordering.outstanding == 0
    assert ordering.finish() == []


def test_arrivals_are_classified_with_their_evidence():
    arrivals = Arrivals()
    assert arrivals.add("k", 0, "a") == (Arrival.IN_ORDER, None)
    assert arrivals.add("k", 2, "b") == (Arrival.IN_ORDER, None)
    assert arrivals.add("k", 1, "c") == (Arrival.DISORDERED, 2)
    assert arrivals.add("k", 1, "c") == (Arrival.REPEATED, "c")
    assert arrivals.add("k", 1, "d") == (Arrival.DUPLICATED, "c")
    assert (arrivals.distinct, arrivals.total) == (3, 5)
    assert arrivals.missing({"k": [0, 1, 3], "other": [0]}) == 2


def test_lower_number_returns_witness_of_higher_one():
    order: KeyOrder[str] = KeyOrder()
    assert order.add("a", 3, "first") is None
    assert order.add("b", 1, "other key") is None
    assert order.add("a", 2, "late") == "first"
    assert order.add("a", 3, "equal") is None
    assert order.add("a", 1, "later") == "equal"


def test_public_names_are_those_of_module():
    assert testing.OrderChecker is OrderChecker
    assert testing.SendOutcome is SendOutcome
    assert {"OrderChecker", "OrderFinding", "SendOutcome"} <= set(dir(testing))
