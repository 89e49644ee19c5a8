"""The memory of what subscriptions remember beyond their cursors: one sum for all subscriptions of a broker.

A structure is charged in steps when it has grown or shrunk, not for each message. At the bound a subscription that has
more than a step stops reading ahead; one that has less goes on with a few entries at a time.
"""

from __future__ import annotations

from magnetar.base.limits import (
    LOADED_TOPIC_BYTES,
    LOADED_TOPICS_MAX,
    STATE_CHARGE_STEP_BYTES,
    SUBSCRIPTIONS_STATE_BYTES_MAX,
)


class StateAccount:
    def __init__(self, bytes_max: int = SUBSCRIPTIONS_STATE_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0

    @property
    def full(self) -> bool:
        return self.bytes >= self.bytes_max


class LoadedAccount(StateAccount):
    """Topics in memory, with what their objects have beside a first subscription: `bytes`."""

    def __init__(self, topics_max: int = LOADED_TOPICS_MAX) -> None:
        super().__init__()
        self.topics = 0
        self.limit(topics_max)

    def limit(self, topics_max: int) -> None:
        self.topics_max = topics_max
        self.bytes_max = topics_max * LOADED_TOPIC_BYTES

    @property
    def full(self) -> bool:
        return self.topics * LOADED_TOPIC_BYTES + self.bytes >= self.bytes_max


class StateCharge:
    """The part of one structure."""

    __slots__ = ("_account", "bytes")

    def __init__(self, account: StateAccount) -> None:
        self._account = account
        self.bytes = 0

    @property
    def full(self) -> bool:
        """No more is to be remembered."""
        return self.bytes > 0 and self._account.full

    @property
    def others_full(self) -> bool:
        """A structure that is not charged may grow to one step."""
        return self._account.full

    def settle(self, size: int) -> None:
        """The structure has this size now. Less than a step is not charged."""
        if size < STATE_CHARGE_STEP_BYTES:
            size = 0
        elif abs(size - self.bytes) < STATE_CHARGE_STEP_BYTES:
            return
        self._account.bytes += size - self.bytes
        self.bytes = size
