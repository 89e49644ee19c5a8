"""Which ledgers may go: consumed by every cursor, and past what retention keeps.

Pure. A ledger is dropped whole or not at all, oldest first, and never one that is still written. As in Pulsar the
two limits are alternatives: what is consumed is kept until it is older than the time OR the topic is larger than the
size; -1 is without limit and 0 keeps nothing. It trusts `upto` to be the lowest mark-delete of all cursors: nothing
after it is ever dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from magnetar.base.ids import AFTER_ALL, Position
from magnetar.ledger.chain import Link

INFINITE = -1
_MINUTE_MS = 60_000
_MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Retention:
    minutes: int = 0
    megabytes: int = 0

    @property
    def endless(self) -> bool:
        """Nothing is ever let go."""
        return self.minutes == INFINITE and self.megabytes == INFINITE

    def expired(self, closed_ms: int, now_ms: int) -> bool:
        return self.minutes == 0 or (self.minutes > 0 and now_ms - closed_ms > self.minutes * _MINUTE_MS)

    def oversized(self, bytes_left: int) -> bool:
        """Whether a topic that would still hold this much after the drop is at its size or over it."""
        return self.megabytes != INFINITE and bytes_left >= self.megabytes * _MEGABYTE


def droppable(links: Sequence[Link], upto: Position, retention: Retention, now_ms: int) -> int:
    """How many ledgers at the beginning may be dropped."""
    left = sum(link.bytes for link in links)
    for count, link in enumerate(links):
        consumed = Position(link.ledger, link.entries - 1) <= upto
        if not link.closed_ms or not consumed:
            return count
        left -= link.bytes
        if not retention.expired(link.closed_ms, now_ms) and not retention.oversized(left):
            return count
    return len(links)


def may_drop(links: Sequence[Link], retention: Retention, now_ms: int) -> bool:
    """Whether opening the topic could let something go, wherever its cursors stand: a ledger that a crash left open has
    no age until somebody has closed it."""
    if retention.endless:
        return False
    return any(not link.closed_ms for link in links) or droppable(links, AFTER_ALL, retention, now_ms) > 0
