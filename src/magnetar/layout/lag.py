"""How far a subscription, a group or a hold is behind: messages, bytes, and the oldest message that is waiting.

A value only. Parts of one subscription (partitions, segments) add up. It counts messages, never entries.
"""

from __future__ import annotations

import msgspec

from magnetar.base.public import public


@public("magnetar")
class Lag(msgspec.Struct, frozen=True):
    """How much of a topic is not acknowledged yet.

    `messages` counts messages, also those inside of batches. `bytes` is the stored size from the oldest of them on.
    `oldest_ms` is the publish time of the oldest, in milliseconds since 1970; 0: there is none, or it has no readable
    time. `age_s` is its age when the lag was asked for.
    """

    messages: int = 0
    bytes: int = 0
    oldest_ms: int = 0
    age_s: float = 0.0

    def __add__(self, other: Lag) -> Lag:
        times = [time for time in (self.oldest_ms, other.oldest_ms) if time]
        return Lag(
            self.messages + other.messages,
            self.bytes + other.bytes,
            min(times, default=0),
            max(self.age_s, other.age_s),
        )

    def at(self, now_ms: int) -> Lag:
        """The same with the age that it has at this time."""
        age_s = max(0, now_ms - self.oldest_ms) / 1000 if self.oldest_ms else 0.0
        return msgspec.structs.replace(self, age_s=age_s)


NO_LAG = Lag()
