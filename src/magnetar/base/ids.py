"""Identifiers that must not be mixed, and the position of an entry.

A position is a plain tuple so that comparing and hashing cost nothing on the path of a message.
"""

from __future__ import annotations

from typing import NamedTuple, NewType

LedgerId = NewType("LedgerId", int)
SegmentId = NewType("SegmentId", int)
Epoch = NewType("Epoch", int)
Term = NewType("Term", int)


class Position(NamedTuple):
    """Where an entry stands: ledger, then entry. `(ledger, -1)` stands before the first entry of a ledger."""

    ledger: int
    entry: int

    def __str__(self) -> str:
        return f"{self.ledger}:{self.entry}"


BEFORE_ALL = Position(-1, -1)  # Pulsar's "earliest" on the wire is (-1, -1)
AFTER_ALL = Position(2**63 - 1, 2**63 - 1)  # Pulsar's "latest"
