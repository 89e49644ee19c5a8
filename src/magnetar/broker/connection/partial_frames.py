"""A bound on the bytes of incomplete large frames that all connections hold together.

Each frame has its own bound, and a connection has at most one. A regular peer sends the rest of a frame within
milliseconds, so only few are incomplete at a time. Above the bound the broker closes the connection whose frame is the
oldest, because it had the most time. This module decides and counts; the connections hold the bytes.
"""

from __future__ import annotations

from typing import Protocol

from magnetar.base.limits import PARTIAL_FRAMES_BYTES_MAX


class Sender(Protocol):
    def abort(self, reason: str) -> None: ...


class PartialFrames:
    """The incomplete frames of one broker. `abort` may lead to `remove`."""

    def __init__(self, bytes_max: int = PARTIAL_FRAMES_BYTES_MAX) -> None:
        self.bytes = 0
        self._bytes_max = bytes_max
        self._sizes: dict[Sender, int] = {}  # the frame that began first is first

    def add(self, sender: Sender, size: int) -> None:
        self._sizes[sender] = self._sizes.get(sender, 0) + size
        self.bytes += size
        while self.bytes > self._bytes_max:
            oldest = next(iter(self._sizes))
            self.remove(oldest)
            oldest.abort(
                f"incomplete frames of all connections exceed {self._bytes_max} bytes, and this frame is the oldest"
            )

    def remove(self, sender: Sender) -> None:
        """The frame is complete, or the connection is closed."""
        self.bytes -= self._sizes.pop(sender, 0)
