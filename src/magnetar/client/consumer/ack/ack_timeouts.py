"""The acknowledgement timeout: requests redelivery of messages that the application did not acknowledge in time.

Pure decisions. The unit is the entry, because brokers redeliver entries; each message taken from a batch gives the
whole batch a new deadline. All deadlines have the same distance, so that they expire in the order of delivery.
"""

from __future__ import annotations

Position = tuple[int, int]


class AckTimeouts:
    __slots__ = ("_due", "timeout_s")

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._due: dict[Position, float] = {}  # ordered by deadline

    def __len__(self) -> int:
        return len(self._due)

    def add(self, position: Position, now: float) -> None:
        self._due.pop(position, None)
        self._due[position] = now + self.timeout_s

    def remove(self, position: Position) -> None:
        self._due.pop(position, None)

    def remove_until(self, position: Position) -> None:
        """The messages up to this position were acknowledged cumulatively."""
        for pending in [pending for pending in self._due if pending <= position]:
            del self._due[pending]

    def next_due(self) -> float | None:
        return next(iter(self._due.values()), None)

    def take_due(self, now: float) -> list[Position]:
        expired: list[Position] = []
        for position, due in self._due.items():
            if due > now:
                break
            expired.append(position)
        for position in expired:
            del self._due[position]
        return sorted(expired)

    def forget(self) -> None:
        self._due.clear()
