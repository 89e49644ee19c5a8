"""Proof of order: compares the sent messages, the results of the sends, and the received messages.

Every key counts from zero, and one sender writes it. Counters alone therefore judge a run of any length. A stored
message that never arrived is lost. A message that arrived without being sent, or after its send failed, is invented. A
message whose first arrival follows a higher number of its key is disordered. A message at two positions was stored
twice. A repeated arrival from the same position is valid, because unacknowledged messages are redelivered. This module
only judges.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import Enum

SHOWN_MAX = 20  # findings of each kind that keep their text; all are counted


class SendOutcome(Enum):
    STORED = "stored"
    UNKNOWN = "unknown"  # the message may be stored
    FAILED = "failed"  # the message is not stored


@dataclass(frozen=True, slots=True)
class Finding:
    kind: str  # lost, invented, disordered, duplicated
    key: str
    number: int
    text: str


@dataclass(slots=True)
class _Key:
    sent: int = 0  # all lower numbers were sent
    fates: dict[int, SendOutcome] = field(default_factory=dict)
    places: dict[int, Hashable] = field(default_factory=dict)  # number -> position of its first arrival
    highest: int = -1  # highest received number


class OrderChecker:
    """`counts` has the number of findings of each kind; `redelivered` counts repeated arrivals from the same
    position.
    """

    def __init__(self) -> None:
        self.sent = 0
        self.received = 0
        self.redelivered = 0
        self.fates: dict[SendOutcome, int] = dict.fromkeys(SendOutcome, 0)
        self.counts: dict[str, int] = {}
        self.findings: list[Finding] = []
        self._keys: dict[str, _Key] = {}
        self._missing = 0

    @property
    def keys(self) -> int:
        return len(self._keys)

    @property
    def outstanding(self) -> int:
        """Stored messages, by the results known so far, that have not been received."""
        return self._missing

    @property
    def kept(self) -> bool:
        return not self.counts

    def afresh(self) -> OrderChecker:
        """The same messages and results with no arrivals: for another reader of the same topic."""
        other = OrderChecker()
        other.sent = self.sent
        other.fates = dict(self.fates)
        other._keys = {key: _Key(known.sent, dict(known.fates)) for key, known in self._keys.items()}
        other._missing = self.fates[SendOutcome.STORED]
        return other

    def next(self, key: str) -> int:
        """The number of the key's next message, which is sent now."""
        known = self._keys.setdefault(key, _Key())
        known.sent += 1
        self.sent += 1
        return known.sent - 1

    def told(self, key: str, number: int, fate: SendOutcome) -> None:
        known = self._keys[key]
        if number in known.fates:
            self._found(
                "invented", key, number, f"two results of one send: {known.fates[number].value}, then {fate.value}"
            )
            return
        known.fates[number] = fate
        self.fates[fate] += 1
        if fate is SendOutcome.STORED and number not in known.places:
            self._missing += 1
        if fate is SendOutcome.FAILED and number in known.places:
            self._found("invented", key, number, "received although its send failed")

    def came(self, key: str, number: int, place: Hashable, who: str = "") -> None:
        known = self._keys.setdefault(key, _Key())
        self.received += 1
        if number >= known.sent:
            self._found("invented", key, number, f"never sent (received by {who})")
            return
        if number in known.places:
            if known.places[number] == place:
                self.redelivered += 1
            else:
                self._found("duplicated", key, number, f"stored at {known.places[number]} and at {place}")
            return
        fate = known.fates.get(number)
        known.places[number] = place
        if fate is SendOutcome.STORED:
            self._missing -= 1
        if fate is SendOutcome.FAILED:
            self._found("invented", key, number, "received although its send failed")
        if number < known.highest:
            self._found("disordered", key, number, f"received after {known.highest} (at {place}, received by {who})")
        known.highest = max(known.highest, number)

    def judge(self) -> list[Finding]:
        """Call at the end: a stored message that did not arrive is lost. Returns all findings."""
        for key, known in sorted(self._keys.items()):
            for number, fate in sorted(known.fates.items()):
                if fate is SendOutcome.STORED and number not in known.places:
                    self._found("lost", key, number, "stored, but never received")
            for number in range(known.sent):
                if number not in known.fates:
                    self._found("lost", key, number, "the result of its send is unknown")
        return self.findings

    def _found(self, kind: str, key: str, number: int, text: str) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if self.counts[kind] <= SHOWN_MAX:
            self.findings.append(Finding(kind, key, number, text))
