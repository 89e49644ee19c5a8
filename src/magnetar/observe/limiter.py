"""How many lines of one kind a log may hold: so many in a second, then only how many more there were.

A peer can cause a line with every request or frame, and would fill the disk that the messages are on. Pure: times come
in, decisions go out. A kind is a logger and its event, both words of ours, so their number is bounded.
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
    """`lines_max` of one kind in a second."""

    def __init__(self, lines_max: int) -> None:
        self._lines_max = lines_max
        self._windows: dict[str, _Window] = {}

    def admit(self, kind: str, now_s: float) -> bool:
        """Whether a line of this kind may be written now. Ask `overdue` first: its counts belong before it."""
        window = self._windows.get(kind)
        if window is None or not 0 <= now_s - window.since_s < WINDOW_S:
            window = self._windows[kind] = _Window(now_s)
        if window.lines < self._lines_max:
            window.lines += 1
            return True
        window.dropped += 1
        return False

    def overdue(self, now_s: float) -> list[tuple[str, int]]:
        """How many lines of each kind were dropped in a second that is over; each is told once."""
        over = [kind for kind, window in self._windows.items() if not 0 <= now_s - window.since_s < WINDOW_S]
        return [(kind, dropped) for kind in over if (dropped := self._windows.pop(kind).dropped)]
