"""Compares the orders that the demo's pipeline received with the rows that it wrote.

An order has a customer and a number. The numbers of a customer start at zero, and customer and number determine the
price. For each row, the check therefore knows whether the order was sent, whether the sum is right, and whether the row
is a duplicate or out of order; `magnetar.testing.order` decides about the order. Both handle plain values and know no
broker and no Spark, so they judge both impartially.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from magnetar.testing.order import Arrival, Arrivals

TAX_PERCENT = 19

Row = tuple[int, int, int]  # customer, number, gross price in cents


def cents(customer: int, number: int) -> int:
    """The net price of an order."""
    return 100 + (customer * 7919 + number * 104_729) % 9_900


def gross(net: int) -> int:
    """The gross price as the pipeline computes it, rounded down to whole cents."""
    return net * (100 + TAX_PERCENT) // 100


@dataclass(slots=True)
class Orders:
    """Results of the sends. The pipeline must write every acknowledged order to both outputs."""

    sent: int = 0
    acknowledged: int = 0
    failed: int = 0
    _next: dict[int, int] = field(default_factory=dict)
    _stored: dict[Hashable, set[int]] = field(default_factory=dict)

    def sending(self, customer: int) -> int:
        """The number of this customer's next order."""
        number = self._next.get(customer, 0)
        self._next[customer] = number + 1
        self.sent += 1
        return number

    def receipt(self, customer: int, number: int) -> None:
        self.acknowledged += 1
        self._stored.setdefault(customer, set()).add(number)

    def failure(self) -> None:
        """A failed send has no guarantee, but the broker may have stored the order."""
        self.failed += 1

    @property
    def in_flight(self) -> int:
        return self.sent - self.acknowledged - self.failed

    @property
    def counts(self) -> Mapping[int, int]:
        return self._next

    @property
    def stored(self) -> Mapping[Hashable, set[int]]:
        return self._stored


@dataclass(frozen=True, slots=True)
class OrderReport:
    """One output of the pipeline. `invented` counts rows that were never sent or have a wrong sum."""

    place: str
    rows: int
    lost: int
    twice: int
    disordered: int
    invented: int

    @property
    def ok(self) -> bool:
        return not (self.lost or self.twice or self.disordered or self.invented)


def judge(orders: Orders, place: str, rows: Iterable[Row]) -> OrderReport:
    """`rows` must be in stored order."""
    arrivals = Arrivals()
    count = invented = 0
    for customer, number, paid in rows:
        count += 1
        if not 0 <= number < orders.counts.get(customer, 0) or paid != gross(cents(customer, number)):
            invented += 1
        else:
            arrivals.add(customer, number)
    counts = arrivals.counts
    lost = arrivals.missing(orders.stored)
    return OrderReport(place, count, lost, counts[Arrival.REPEATED], counts[Arrival.DISORDERED], invented)


@dataclass(frozen=True, slots=True)
class Outcome:
    """`restarts` counts restarts after the query ended without a kill."""

    sent: int
    acknowledged: int
    failed: int
    splits: int
    merges: int
    query_kills: int
    broker_kills: int
    restarts: int
    places: list[OrderReport]

    @property
    def ok(self) -> bool:
        return self.acknowledged > 0 and bool(self.places) and all(judged.ok for judged in self.places)

    def document(self) -> dict[str, Any]:
        return {**asdict(self), "places": [{**asdict(one), "ok": one.ok} for one in self.places], "ok": self.ok}

    def sentence(self) -> str:
        if self.ok:
            return "every key in order, nothing lost, nothing twice, in the topic and in Parquet"
        if not self.acknowledged:
            return "no order was acknowledged: the run proves nothing"
        wrong = {name: sum(getattr(one, name) for one in self.places) for name in _WRONG}
        return ", ".join(f"{count} {name}" for name, count in wrong.items() if count) or "nothing was written"


_WRONG = ("lost", "twice", "disordered", "invented")
