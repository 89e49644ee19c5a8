"""How long a broker pauses before it leads a topic again whose segments refuse its terms.

One refusal is ordinary: another broker leads, and this one was late. If term after term is refused, an owner knows a
term that no record has. Each attempt then costs a write of the record and a failed operation. The first attempt after a
refusal is immediate, and the pauses between later ones grow. This module performs no I/O.
"""

from __future__ import annotations

from magnetar.base.limits import FENCED_CALM_S, FENCED_PAUSE_S_MAX, FENCED_PAUSE_S_MIN


class Pause:
    """Times are monotonic, in seconds."""

    __slots__ = ("_pause_s", "_refused_at")

    def __init__(self) -> None:
        self._refused_at = -FENCED_CALM_S
        self._pause_s = 0.0

    def refused(self, now: float) -> float:
        """A term was refused: how long to wait, 0 for not at all."""
        again = now - self._refused_at < self._pause_s + FENCED_CALM_S
        self._pause_s = min(max(2 * self._pause_s, FENCED_PAUSE_S_MIN), FENCED_PAUSE_S_MAX) if again else 0.0
        self._refused_at = now
        return self._pause_s

    def lasts(self, now: float) -> bool:
        return now < self._refused_at + self._pause_s
