"""Compares acknowledged messages with received messages, one by one.

A message has a key and a number. The numbers of a key start at zero, and one producer writes each key. `DeliveryTally`
records every receipt and every arrival. It finds acknowledged messages that never arrived, messages that arrived after
a later message of their key, and duplicates. `magnetar.testing.order` decides about each arrival. Both handle plain
values and know no client and no broker, so they judge every broker by the same rules.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from magnetar.testing.order import Arrival, Arrivals


class Kind(Enum):
    """The types of subscription. `ordered` types deliver the messages of a key in order. Stream consumers read the
    scalable topic, all others the plain topic.
    """

    EXCLUSIVE = "Exclusive"
    FAILOVER = "Failover"
    SHARED = "Shared"
    KEY_SHARED = "Key_Shared"
    STREAM = "Stream"

    @property
    def ordered(self) -> bool:
        return self is not Kind.SHARED

    @property
    def scalable(self) -> bool:
        return self is Kind.STREAM


@dataclass(frozen=True, slots=True)
class SubscriptionReport:
    """The result for one subscription."""

    type: str
    arrived: int
    missing: int  # acknowledged to the producer, but not received
    disordered: int
    ordered: bool  # whether this type guarantees order
    duplicates: int

    @property
    def ok(self) -> bool:
        return self.missing == 0 and not (self.ordered and self.disordered)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`failed` counts sends that ended with an error. They have no guarantee, and some may have arrived."""

    sent: int
    acknowledged: int
    failed: int
    kills: int
    subscriptions: list[SubscriptionReport]
    splits: int = 0
    merges: int = 0

    @property
    def ok(self) -> bool:
        return self.acknowledged > 0 and all(report.ok for report in self.subscriptions)

    def document(self) -> dict[str, Any]:
        rows = [{**asdict(report), "ok": report.ok} for report in self.subscriptions]
        return {**asdict(self), "subscriptions": rows, "ok": self.ok}

    def sentence(self) -> str:
        missing = sum(report.missing for report in self.subscriptions)
        disordered = sum(report.disordered for report in self.subscriptions if report.ordered)
        if self.ok:
            return "every acknowledged message arrived, in the order of its key"
        if not self.acknowledged:
            return "no message was acknowledged: the run proves nothing"
        return f"{missing} acknowledged messages are missing, {disordered} arrived out of order"


class DeliveryTally:
    def __init__(self, kinds: list[Kind]) -> None:
        self.arrivals = {kind: Arrivals() for kind in kinds}
        self.sent = 0
        self.acknowledged = 0
        self.failed = 0
        self.kills = 0
        self.splits = 0
        self.merges = 0
        # Acknowledged messages of the plain topic (False) and of the scalable topic (True). Each subscription must
        # receive those of its own topic.
        self._owed = {False: 0, True: 0}
        self._stored: dict[bool, dict[Hashable, set[int]]] = {False: {}, True: {}}

    def sending(self) -> None:
        self.sent += 1

    def receipt(self, key: int, number: int, *, scalable: bool = False) -> None:
        """The broker acknowledged the message: from now on, every subscription of its topic must receive it."""
        self.acknowledged += 1
        self._owed[scalable] += 1
        self._stored[scalable].setdefault(key, set()).add(number)

    def failure(self) -> None:
        self.failed += 1

    @property
    def in_flight(self) -> int:
        """Messages sent without an answer so far."""
        return self.sent - self.acknowledged - self.failed

    def backlog(self, kind: Kind) -> int:
        """Acknowledged messages that have not arrived. A message that arrives before its receipt counts as arrived with
        the receipt.
        """
        return max(0, self._owed[kind.scalable] - self.arrivals[kind].distinct)

    def settled(self) -> bool:
        """Every sent message has a result, and every acknowledged message has arrived."""
        if self.sent > self.acknowledged + self.failed:
            return False
        if any(self.backlog(kind) for kind in self.arrivals):
            return False
        return not any(self._missing(kind) for kind in self.arrivals)

    def _missing(self, kind: Kind) -> int:
        return self.arrivals[kind].missing(self._stored[kind.scalable])

    def verdict(self) -> Verdict:
        reports = [
            SubscriptionReport(
                type=kind.value,
                arrived=arrivals.distinct,
                missing=self._missing(kind),
                disordered=arrivals.counts[Arrival.DISORDERED],
                ordered=kind.ordered,
                duplicates=arrivals.counts[Arrival.REPEATED],
            )
            for kind, arrivals in self.arrivals.items()
        ]
        return Verdict(self.sent, self.acknowledged, self.failed, self.kills, reports, self.splits, self.merges)
