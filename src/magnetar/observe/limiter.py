"""Limits the log lines of one kind: a fixed number per second, and then only the number of dropped lines.

A peer can cause a line with every request or frame, and could fill the disk that stores the messages. Pure: takes
times, returns decisions. A kind is a logger and its event, which are constants of our code, so their number is bounded.
"""

from __future__ import annotations

from dataclasses import dataclass

WINDOW_S = 1.0


@dataclass(slots=True)
class _Window:
    since_s: float
    lines: int = 0
    dropped: int = 0


class LineLimiter:
    """`lines_max` lines of one kind per second."""

    def __init__(self, lines_max: int) -> None:
        self._lines_max = lines_max
        self._windows: dict[str, _Window] = {}

    def admit(self, kind: str, now_s: float) -> bool:
        """Whether a line of this kind may be written now. Call `overdue` first: its counts precede this line."""
        window = self._windows.get(kind)
        if window is None or not 0 <= now_s - window.since_s < WINDOW_S:
            window = self._windows[kind] = _Window(now_s)
        if window.lines < self._lines_max:
            window.lines += 1
            return True
        window.dropped += 1
        return False

    def overdue(self, now_s: float) -> list[tuple[str, int]]:
        """The number of dropped lines per kind in past seconds; each count is returned once."""
        over = [kind for kind, window in self._windows.items() if not 0 <= now_s - window.since_s < WINDOW_S]
        return [(kind, dropped) for kind in over if (dropped := self._windows.pop(kind).dropped)]
