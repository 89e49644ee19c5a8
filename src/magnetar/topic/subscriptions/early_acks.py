"""Acknowledgements of a segment that a consumer reads before it has acknowledged what comes before (H-F20).

The cursor does not see them. If an ancestor has to be delivered again they are dropped, and the segment is delivered
again from the cursor, behind its ancestors. When all ancestors are done they are applied, also if the consumer has
left by then; a close waits for that. A consumer that comes before continues behind them.
Keeps one position, up to EARLY_ACKS_MAX single entries and up to EARLY_ACK_WORDS_MAX words of their
batches, and fewer where all subscriptions together have too much. An acknowledgement beyond is not kept: its message
is delivered again to the next consumer.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from magnetar.base.ids import BEFORE_ALL, Position
from magnetar.base.limits import (
    EARLY_ACK_BYTES,
    EARLY_ACK_WORD_BYTES,
    EARLY_ACK_WORDS_MAX,
    EARLY_ACKS_MAX,
    STATE_CHARGE_STEP_BYTES,
)
from magnetar.ledger.state_account import StateAccount, StateCharge

if TYPE_CHECKING:
    from magnetar.topic.subscriptions.subscription import Subscription


class EarlyAcks:
    """`seeks`: how often the subscription had been moved when the consumer attached."""

    __slots__ = ("_charge", "_each", "_until", "_words", "over", "seeks")

    def __init__(self, seeks: int, account: StateAccount | None = None) -> None:
        self._charge = StateCharge(account or StateAccount())
        self.seeks = seeks
        self.over = asyncio.Event()  # applied or dropped
        self._until: tuple[Position, list[int] | None] | None = None
        self._each: dict[Position, list[int] | None] = {}  # words: set bits stay unacknowledged
        self._words = 0  # of all entries in `_each`

    @property
    def mark(self) -> Position:
        """Everything at or before is acknowledged."""
        if self._until is None:
            return BEFORE_ALL
        position, words = self._until
        return position if not any(words or ()) else Position(position.ledger, position.entry - 1)

    def is_acked(self, position: Position) -> bool:
        """Whether the whole entry is acknowledged."""
        return position <= self.mark or (position in self._each and not any(self._each[position] or ()))

    def untouched(self, position: Position) -> bool:
        """No entry from this one on is acknowledged."""
        return not self._each and position > self.mark

    async def settled(self, wait_s: float) -> None:
        """Returns when the acknowledgements are applied or dropped, or after `wait_s`."""
        if self._until is not None or self._each:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self.over.wait()

    def add(self, acks: list[tuple[Position, list[int] | None]]) -> None:
        for position, words in acks:
            before = self._each.get(position)
            if position in self._each:
                both = None if before is None or words is None else _common(before, words)
                self._each[position] = both
                self._words += len(both or ()) - len(before or ())
            elif self._has_room(len(words or ())):
                self._each[position] = words
                self._words += len(words or ())
        self._settle()

    def _has_room(self, words: int) -> bool:
        if self._charge.others_full and self._bytes >= STATE_CHARGE_STEP_BYTES:
            return False
        return len(self._each) < EARLY_ACKS_MAX and self._words + words <= EARLY_ACK_WORDS_MAX

    @property
    def _bytes(self) -> int:
        return len(self._each) * EARLY_ACK_BYTES + self._words * EARLY_ACK_WORD_BYTES

    def _settle(self) -> None:
        self._charge.settle(self._bytes)

    def release(self) -> None:
        """Applied, dropped or unloaded with its topic: charged no more."""
        self._charge.settle(0)

    def add_until(self, position: Position, words: list[int] | None) -> None:
        if self._until is not None:
            before, words_before = self._until
            if position < before or (position == before and words_before is None):
                return
            if position == before and words_before is not None and words is not None:
                words = _common(words_before, words)
        self._until = position, words
        if self._each:
            self._each = {one: words for one, words in self._each.items() if one >= position}
            self._words = sum(len(words or ()) for words in self._each.values())
            self._settle()

    def apply(self, subscription: Subscription) -> None:
        """As if they came now."""
        self.release()
        self.over.set()
        if self._until is not None:
            subscription.ack_to(None, *self._until)
        if self._each:
            subscription.ack(None, list(self._each.items()))


def _common(first: list[int], second: list[int]) -> list[int]:
    """What neither acknowledges."""
    if len(first) != len(second):
        return first if len(first) < len(second) else second
    return [left & right for left, right in zip(first, second, strict=True)]
