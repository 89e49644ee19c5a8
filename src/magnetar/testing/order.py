"""Checks the order of numbered messages: the sent messages, the results of the sends, and the messages of each reader.

The messages of a key are numbered from zero, and one producer writes each key. Numbers alone therefore judge a run of
any length. A stored message that never arrived is lost. A message that arrived without being sent, or after its send
failed, is invented. A message whose first arrival follows a higher number of its key is disordered. A message at two
positions was stored twice. A repeated arrival from the same position is valid, because unacknowledged messages are
redelivered.

Pure: handles plain values, and knows no client and no broker. `verify-order`, the demo and the simulator use it too.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, TypeVar

SHOWN_MAX = 20  # findings of each kind that keep their text; all are counted

W = TypeVar("W")


class SendOutcome(Enum):
    STORED = "stored"
    UNKNOWN = "unknown"  # the message may be stored
    FAILED = "failed"  # the message is not stored


@dataclass(frozen=True, slots=True)
class OrderFinding:
    kind: str  # lost, invented, disordered, duplicated
    key: str
    number: int
    text: str


class KeyOrder(Generic[W]):
    """The highest number of each key so far, with its witness: a message, a position or a line of a log."""

    __slots__ = ("_highest",)

    def __init__(self) -> None:
        self._highest: dict[Hashable, tuple[int, W]] = {}

    def add(self, key: Hashable, number: int, witness: W) -> W | None:
        """Returns the witness of the higher number if this number is out of order."""
        highest = self._highest.get(key)
        if highest is not None and number < highest[0]:
            return highest[1]
        self._highest[key] = (number, witness)
        return None


class Arrival(Enum):
    IN_ORDER = "in order"
    DISORDERED = "disordered"  # first arrival, after a higher number of its key
    REPEATED = "repeated"  # again from the same position
    DUPLICATED = "duplicated"  # stored at two positions


class Arrivals:
    """Arrivals of one reader, or of all readers of one subscription. Without positions, every repetition is valid."""

    __slots__ = ("_order", "_positions", "counts")

    def __init__(self) -> None:
        self.counts = dict.fromkeys(Arrival, 0)
        self._order: KeyOrder[int] = KeyOrder()
        self._positions: dict[Hashable, dict[int, Hashable]] = {}

    @property
    def distinct(self) -> int:
        return self.counts[Arrival.IN_ORDER] + self.counts[Arrival.DISORDERED]

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def add(self, key: Hashable, number: int, position: Hashable = None) -> tuple[Arrival, Hashable]:
        """Returns with a disordered message the higher number, and with a repeated one its first position."""
        positions = self._positions.setdefault(key, {})
        evidence: Hashable = None
        if number in positions:
            evidence = positions[number]
            arrival = Arrival.REPEATED if evidence == position else Arrival.DUPLICATED
        else:
            positions[number] = position
            evidence = self._order.add(key, number, number)
            arrival = Arrival.IN_ORDER if evidence is None else Arrival.DISORDERED
        self.counts[arrival] += 1
        return arrival, evidence

    def has(self, key: Hashable, number: int) -> bool:
        return number in self._positions.get(key, ())

    def missing(self, stored: Mapping[Hashable, Iterable[int]]) -> int:
        """How many of these messages have not arrived."""
        return sum(not self.has(key, number) for key, numbers in stored.items() for number in numbers)


@dataclass(slots=True)
class _Sends:
    """The messages of one key."""

    count: int = 0
    outcomes: dict[int, SendOutcome] = field(default_factory=dict)


class OrderChecker:
    """Call `next_number` before each send, `record_result` with its result, `record_received` for each received
    message, and `finish` at the end.

    `counts` has the number of findings of each kind. `redelivered` counts repeated arrivals from the same position.
    """

    def __init__(self) -> None:
        self.sent = 0
        self.received = 0
        self.outcomes: dict[SendOutcome, int] = dict.fromkeys(SendOutcome, 0)
        self.counts: dict[str, int] = {}
        self.findings: list[OrderFinding] = []
        self._sends: dict[str, _Sends] = {}
        self._arrivals = Arrivals()
        self._missing = 0

    @property
    def keys(self) -> int:
        return len(self._sends)

    @property
    def redelivered(self) -> int:
        return self._arrivals.counts[Arrival.REPEATED]

    @property
    def outstanding(self) -> int:
        """Stored messages, by the results known so far, that have not been received."""
        return self._missing

    @property
    def ok(self) -> bool:
        return not self.counts

    def for_another_reader(self) -> OrderChecker:
        """The same messages and results with no arrivals: for another reader of the same topic."""
        other = OrderChecker()
        other.sent = self.sent
        other.outcomes = dict(self.outcomes)
        other._sends = {key: _Sends(sends.count, dict(sends.outcomes)) for key, sends in self._sends.items()}
        other._missing = self.outcomes[SendOutcome.STORED]
        return other

    def next_number(self, key: str) -> int:
        """The number of the key's next message, which the caller sends now."""
        sends = self._sends.setdefault(key, _Sends())
        sends.count += 1
        self.sent += 1
        return sends.count - 1

    def record_result(self, key: str, number: int, outcome: SendOutcome) -> None:
        outcomes = self._sends[key].outcomes
        if number in outcomes:
            text = f"two results of one send: {outcomes[number].value}, then {outcome.value}"
            self._report("invented", key, number, text)
            return
        outcomes[number] = outcome
        self.outcomes[outcome] += 1
        arrived = self._arrivals.has(key, number)
        if outcome is SendOutcome.STORED and not arrived:
            self._missing += 1
        if outcome is SendOutcome.FAILED and arrived:
            self._report("invented", key, number, "received although its send failed")

    def record_received(self, key: str, number: int, position: Hashable = None, reader: str = "") -> None:
        """`position` is the place where the message is stored. Without it, a second copy counts as redelivered."""
        sends = self._sends.setdefault(key, _Sends())
        self.received += 1
        if not 0 <= number < sends.count:
            self._report("invented", key, number, f"never sent (received by {reader})")
            return
        arrival, evidence = self._arrivals.add(key, number, position)
        if arrival is Arrival.REPEATED:
            return
        if arrival is Arrival.DUPLICATED:
            self._report("duplicated", key, number, f"stored at {evidence} and at {position}")
            return
        outcome = sends.outcomes.get(number)
        if outcome is SendOutcome.STORED:
            self._missing -= 1
        if outcome is SendOutcome.FAILED:
            self._report("invented", key, number, "received although its send failed")
        if arrival is Arrival.DISORDERED:
            self._report("disordered", key, number, f"received after {evidence} (at {position}, received by {reader})")

    def finish(self) -> list[OrderFinding]:
        """Call once at the end: a stored message that did not arrive is lost. Returns all findings."""
        for key, sends in sorted(self._sends.items()):
            for number, outcome in sorted(sends.outcomes.items()):
                if outcome is SendOutcome.STORED and not self._arrivals.has(key, number):
                    self._report("lost", key, number, "stored, but never received")
            for number in range(sends.count):
                if number not in sends.outcomes:
                    self._report("lost", key, number, "the result of its send is unknown")
        return self.findings

    def _report(self, kind: str, key: str, number: int, text: str) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if self.counts[kind] <= SHOWN_MAX:
            self.findings.append(OrderFinding(kind, key, number, text))
