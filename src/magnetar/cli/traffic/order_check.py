"""The proof of order: what was sent, what its senders were told, what was received, and whether the three agree.

Every key counts from zero, and one sender writes it. Then any run of any length is judged from counters alone: a number
that was stored and never came is lost; one that came and was not sent, or that its sender was told is not stored, is
invented; one that first comes behind a higher one of its key is out of order; one that is found at two places is
stored twice. Coming again from the same place is no fault: whatever was not acknowledged does. Decides only.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import Enum

SHOWN_MAX = 20  # findings of one kind that are kept in words; all are counted


class SendOutcome(Enum):
    STORED = "stored"
    UNKNOWN = "unknown"  # it may be stored
    FAILED = "failed"  # it is not


@dataclass(frozen=True, slots=True)
class Finding:
    kind: str  # lost, invented, disordered, duplicated
    key: str
    number: int
    text: str


@dataclass(slots=True)
class _Key:
    sent: int = 0  # numbers below this were handed over
    fates: dict[int, SendOutcome] = field(default_factory=dict)
    places: dict[int, Hashable] = field(default_factory=dict)  # number -> where it was first found
    highest: int = -1  # received


class OrderChecker:
    """`counts` has a number for each kind of finding; `redelivered` is what came again from the same place."""

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
        """Stored, as far as it was told, and not received."""
        return self._missing

    @property
    def kept(self) -> bool:
        return not self.counts

    def afresh(self) -> OrderChecker:
        """The same messages with the same fates, and nothing received: for another reader of the same topic."""
        other = OrderChecker()
        other.sent = self.sent
        other.fates = dict(self.fates)
        other._keys = {key: _Key(known.sent, dict(known.fates)) for key, known in self._keys.items()}
        other._missing = self.fates[SendOutcome.STORED]
        return other

    def next(self, key: str) -> int:
        """The number of the key's next message, which is handed over now."""
        known = self._keys.setdefault(key, _Key())
        known.sent += 1
        self.sent += 1
        return known.sent - 1

    def told(self, key: str, number: int, fate: SendOutcome) -> None:
        known = self._keys[key]
        if number in known.fates:
            self._found("invented", key, number, f"told twice: {known.fates[number].value}, then {fate.value}")
            return
        known.fates[number] = fate
        self.fates[fate] += 1
        if fate is SendOutcome.STORED and number not in known.places:
            self._missing += 1
        if fate is SendOutcome.FAILED and number in known.places:
            self._found("invented", key, number, "it came, and its sender was told that it is not stored")

    def came(self, key: str, number: int, place: Hashable, who: str = "") -> None:
        known = self._keys.setdefault(key, _Key())
        self.received += 1
        if number >= known.sent:
            self._found("invented", key, number, f"nobody sent it (received by {who})")
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
            self._found("invented", key, number, "it came, and its sender was told that it is not stored")
        if number < known.highest:
            self._found("disordered", key, number, f"it came behind {known.highest} (at {place}, received by {who})")
        known.highest = max(known.highest, number)

    def judge(self) -> list[Finding]:
        """At the end: what was stored and did not come is lost. All findings."""
        for key, known in sorted(self._keys.items()):
            for number, fate in sorted(known.fates.items()):
                if fate is SendOutcome.STORED and number not in known.places:
                    self._found("lost", key, number, "its sender was told that it is stored, and it never came")
            for number in range(known.sent):
                if number not in known.fates:
                    self._found("lost", key, number, "its sender was never told what became of it")
        return self.findings

    def _found(self, kind: str, key: str, number: int, text: str) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if self.counts[kind] <= SHOWN_MAX:
            self.findings.append(Finding(kind, key, number, text))
