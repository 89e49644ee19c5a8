"""Charges what one subscription keeps in memory to an account of all subscriptions, and stops it where that is full.

A dispatcher calls `settle` with the size after a run, not for each message. While `full` is true it hands nothing out.
Memory of other subscriptions wakes no dispatcher, so a timer looks again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from magnetar.base.limits import DISPATCH_RUN_ENTRIES_MAX, STATE_CHARGE_STEP_BYTES, STATE_LOOK_S
from magnetar.ledger.state_account import StateAccount, StateCharge

if TYPE_CHECKING:
    from magnetar.topic.topic import Topic


class StateGate:
    __slots__ = ("_again", "_charge", "_looks", "_topic", "settle")

    def __init__(self, topic: Topic, account: StateAccount, again: Callable[[], None]) -> None:
        self._topic = topic
        self._again = again
        self._charge = StateCharge(account)
        self._looks = False  # a timer looks whether the account has room again
        self.settle = self._charge.settle

    @property
    def full(self) -> bool:
        """All subscriptions together have too much, and this one more than a step."""
        if not self._charge.full:
            return False
        if not self._looks:
            self._looks = True
            self._topic.later(STATE_LOOK_S, self._look)
        return True

    def entries_max(self, charged: int, each: int) -> int:
        """How many more entries of `each` bytes may be handed out together, beside those that are charged: a run, or
        the rest of a step while all subscriptions together have too much."""
        return STATE_CHARGE_STEP_BYTES // each - charged if self._charge.others_full else DISPATCH_RUN_ENTRIES_MAX

    def _look(self) -> None:
        self._looks = False
        self._again()
