"""The judge of the demo's pipeline says no when it should: lost, twice, out of order, invented; and when nothing is
shown."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from magnetar.cli.demo.order_check import OrderReport, Orders, Outcome, Row, cents, gross, judge


def some_orders(customers: int = 3, each: int = 5) -> tuple[Orders, list[Row]]:
    """All acknowledged, and what a pipeline makes of them."""
    orders, rows = Orders(), []
    for _ in range(each):
        for customer in range(customers):
            number = orders.sending(customer)
            orders.receipt(customer, number)
            rows.append((customer, number, gross(cents(customer, number))))
    return orders, rows


def an_outcome(*places: OrderReport, acknowledged: int = 15) -> Outcome:
    return Outcome(
        15, acknowledged, 0, splits=1, merges=1, query_kills=1, broker_kills=1, restarts=0, places=list(places)
    )


def test_what_was_sent_is_there_once_and_in_order() -> None:
    orders, rows = some_orders()
    assert judge(orders, "topic", rows) == OrderReport("topic", 15, 0, 0, 0, 0)
    assert an_outcome(judge(orders, "topic", rows)).ok


def test_other_customers_may_overtake() -> None:
    orders, rows = some_orders()
    assert judge(orders, "topic", sorted(rows)).ok


MUTANTS: dict[str, Callable[[list[Row]], list[Row]]] = {
    "lost": lambda rows: rows[:7] + rows[8:],
    "twice": lambda rows: [*rows[:7], rows[6], *rows[7:]],
    "disordered": lambda rows: [*rows[:3], rows[6], *rows[4:6], rows[3], *rows[7:]],
    "invented": lambda rows: [*rows, (0, 5, gross(cents(0, 5)))],
}


@pytest.mark.parametrize("what", MUTANTS)
def test_single_wrong_row_is_found_and_named(what: str) -> None:
    orders, rows = some_orders()
    judged = judge(orders, "topic", MUTANTS[what](rows))
    assert {name: getattr(judged, name) for name in MUTANTS} == {**dict.fromkeys(MUTANTS, 0), what: 1}
    assert not judged.ok
    outcome = an_outcome(judge(orders, "parquet", rows), judged)
    assert not outcome.ok
    assert outcome.sentence() == f"1 {what}"
    assert [one["ok"] for one in outcome.document()["places"]] == [True, False]


@pytest.mark.parametrize("row", [(9, 0, gross(cents(9, 0))), (0, -1, gross(cents(0, -1))), (1, 2, 1)])
def test_customer_number_or_sum_that_nobody_sent_is_invented(row: Row) -> None:
    orders, rows = some_orders()
    assert judge(orders, "topic", [*rows, row]).invented == 1


def test_wrong_sum_does_not_stand_for_right_one() -> None:
    orders, rows = some_orders()
    customer, number, paid = rows[4]
    judged = judge(orders, "topic", [*rows[:4], (customer, number, paid + 1), *rows[5:]])
    assert (judged.lost, judged.invented) == (1, 1)


def test_order_without_receipt_may_be_absent_or_there_once() -> None:
    orders, rows = some_orders()
    number = orders.sending(0)
    orders.failure()
    row = (0, number, gross(cents(0, number)))
    assert orders.in_flight == 0
    assert judge(orders, "topic", rows).ok
    assert judge(orders, "topic", [*rows, row]).ok
    assert judge(orders, "topic", [*rows, row, row]).twice == 1


def test_any_shuffle_that_swaps_customer_s_orders_is_no() -> None:
    orders, rows = some_orders(customers=2, each=8)
    for seed in range(50):
        shuffled = rows[:]
        random.Random(seed).shuffle(shuffled)
        numbers = {one: [number for customer, number, _ in shuffled if customer == one] for one in (0, 1)}
        straight = all(found == sorted(found) for found in numbers.values())
        assert judge(orders, "topic", shuffled).ok is straight


def test_nothing_acknowledged_or_nothing_judged_shows_nothing() -> None:
    orders, rows = some_orders()
    assert not an_outcome().ok
    nothing = an_outcome(judge(orders, "topic", rows), acknowledged=0)
    assert not nothing.ok
    assert nothing.sentence() == "no order was acknowledged: the run proves nothing"
