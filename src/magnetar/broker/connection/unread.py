"""A bound on the bytes that a broker holds because peers do not read them.

Nothing is pushed to a connection over its own bound, but what was written before stays until its peer reads it or the
keep-alive ends the connection. Above the bound for all of them the broker closes the connection that is over its own
bound for the longest time. A slow peer that reads is not that one for long: each time that it has read enough, it goes
to the end of the line. This module decides and counts; the transports hold the bytes.
"""

from __future__ import annotations

from typing import Protocol

from magnetar.base.limits import (
    CONNECTION_WRITE_BYTES_HIGH,
    CONNECTION_WRITE_BYTES_LOW,
    CONNECTION_WRITE_BYTES_SUM,
    UNREAD_BYTES_MAX,
)


class Receiver(Protocol):
    def abort(self, reason: str) -> None: ...


class Unread:
    """The connections of one broker that are over their bound. `abort` may lead to `remove`."""

    def __init__(self, bytes_max: int = UNREAD_BYTES_MAX) -> None:
        self.bytes = 0
        self.bytes_max = bytes_max
        self._sizes: dict[Receiver, int] = {}  # the one over its bound for the longest time is first

    def __len__(self) -> int:
        return len(self._sizes)

    def add(self, receiver: Receiver, size: int) -> None:
        self._sizes[receiver] = self._sizes.get(receiver, 0) + size
        self.bytes += size
        while self.bytes > self.bytes_max:
            oldest = next(iter(self._sizes))
            self.remove(oldest)
            oldest.abort(
                f"bytes that peers do not read exceed {self.bytes_max}, and this peer has not read for the longest time"
            )

    def remove(self, receiver: Receiver) -> None:
        """It has read enough, or is closed."""
        self.bytes -= self._sizes.pop(receiver, 0)


def write_bytes_high(connections: int) -> int:
    """Unread bytes of a new connection, above which nothing is pushed to it. `connections`: the number of open ones."""
    share = CONNECTION_WRITE_BYTES_SUM // max(1, connections)
    return max(CONNECTION_WRITE_BYTES_LOW, min(CONNECTION_WRITE_BYTES_HIGH, share))
