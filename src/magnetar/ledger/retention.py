"""Which ledgers may go: consumed by every cursor, and past what retention keeps.

Pure. A ledger is dropped whole or not at all, oldest first, and never one that is still written. As in Pulsar the
two limits are alternatives: what is consumed is kept until it is older than the time OR the topic is larger than the
size; -1 is without limit and 0 keeps nothing. It trusts `upto` to be the lowest mark-delete of all cursors: nothing
after it is ever dropped.

The size limit of a scalable topic is one for all its segments. `TopicSizes` holds the ledgers of all of them. A ledger
is too much when the ledgers of the topic that were closed after it, with the open ones, reach the limit. Each owner
decides by this rule about its own ledgers and needs no agreement: sizes that it does not know yet only keep more.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from magnetar.base.ids import AFTER_ALL, Position
from magnetar.ledger.chain import LedgerSpan

INFINITE = -1
_MINUTE_MS = 60_000
_MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Retention:
    minutes: int = 0
    megabytes: int = 0

    @property
    def endless(self) -> bool:
        """Messages are never deleted."""
        return self.minutes == INFINITE and self.megabytes == INFINITE

    def expired(self, closed_ms: int, now_ms: int) -> bool:
        return self.minutes == 0 or (self.minutes > 0 and now_ms - closed_ms > self.minutes * _MINUTE_MS)

    def oversized(self, bytes_left: int) -> bool:
        """Whether a topic that would still hold this much after the drop is at its size or over it."""
        return self.megabytes != INFINITE and bytes_left >= self.megabytes * _MEGABYTE


class TopicSizes:
    """The ledgers of all segments of a scalable topic: of the closed ones when they ended, of the others the bytes."""

    def __init__(self, closed: Iterable[tuple[int, int]], open_bytes: int = 0) -> None:
        """`closed`: the time of its end and the bytes of each ledger."""
        ledgers = sorted(closed)
        self._ends_ms = [end_ms for end_ms, _ in ledgers]
        self._newer = [open_bytes] * (len(ledgers) + 1)
        for index in range(len(ledgers) - 1, -1, -1):
            self._newer[index] = self._newer[index + 1] + ledgers[index][1]

    def newer(self, closed_ms: int) -> int:
        """Bytes of the ledgers that were closed after this time, and of those that are open."""
        return self._newer[bisect_right(self._ends_ms, closed_ms)]


@dataclass(frozen=True, slots=True)
class Rule:
    """What decides about the ledgers of one topic at one moment."""

    retention: Retention
    now_ms: int
    aging: bool = True  # False: the clock is not trusted yet, so that nothing is too old
    sizes: TopicSizes | None = None  # None: the topic is not part of another one
    sealed_ms_min: int = 0  # the last ledger of a sealed topic is kept at least this long after its end

    def allows(self, link: LedgerSpan, bytes_left: int, *, last_of_sealed: bool) -> bool:
        if last_of_sealed and self.now_ms - link.closed_ms < self.sealed_ms_min:
            return False
        if self.retention.minutes == 0 or (self.aging and self.retention.expired(link.closed_ms, self.now_ms)):
            return True
        return self.retention.oversized(bytes_left if self.sizes is None else self.sizes.newer(link.closed_ms))


def droppable(links: Sequence[LedgerSpan], upto: Position, rule: Rule, *, sealed: bool = False) -> int:
    """How many ledgers at the beginning may be dropped. `sealed`: the topic takes no more messages, so its last ledger
    was closed by that and not by its age."""
    left = sum(link.bytes for link in links)
    for count, link in enumerate(links):
        consumed = Position(link.ledger, link.entries - 1) <= upto
        if not link.closed_ms or not consumed:
            return count
        left -= link.bytes
        if not rule.allows(link, left, last_of_sealed=sealed and count == len(links) - 1):
            return count
    return len(links)


def may_drop(links: Sequence[LedgerSpan], rule: Rule, *, sealed: bool = False) -> bool:
    """True if opening the topic could delete a ledger, wherever its cursors stand. A ledger that a crash left open has
    no age until an owner has closed it."""
    if rule.retention.endless:
        return False
    return any(not link.closed_ms for link in links) or droppable(links, AFTER_ALL, rule, sealed=sealed) > 0
