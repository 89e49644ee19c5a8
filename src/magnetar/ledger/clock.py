"""The wall clock for retention: a wrong system clock does not move it.

Pure: it gets each reading of the wall clock together with the monotonic time. It follows the wall clock while both
advance together. It ignores a jump until it has lasted for `CLOCK_JUMP_BELIEVED_S`; until then the time continues from
its old value. After a start there is no old value, so no time is `trusted` until the wall clock has been steady for
`CLOCK_START_TRUSTED_S`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from magnetar.base.limits import CLOCK_DRIFT_S_MAX, CLOCK_JUMP_BELIEVED_S, CLOCK_START_TRUSTED_S


class Clock(Protocol):
    @property
    def trusted(self) -> bool:
        """Whether anything may be deleted because of its age."""
        ...

    def now_ms(self) -> int: ...


class WallClock:
    """The wall clock as it is."""

    trusted = True

    def __init__(self, wall: Callable[[], int]) -> None:
        self.now_ms = wall


@dataclass(slots=True)
class _Line:
    """A wall time that advances with the monotonic one."""

    wall_ms: int
    at_s: float
    since_s: float  # monotonic time of its first reading

    def expected_ms(self, now_s: float) -> int:
        return self.wall_ms + int((now_s - self.at_s) * 1000)

    def follow(self, wall_ms: int, now_s: float) -> bool:
        """True if this reading lies on the line. The line then continues from it, so a slow drift is not a jump."""
        if abs(wall_ms - self.expected_ms(now_s)) > CLOCK_DRIFT_S_MAX * 1000:
            return False
        self.wall_ms, self.at_s = wall_ms, now_s
        return True


class SteadyClock:
    def __init__(self, wall_ms: int, now_s: float) -> None:
        self._line = _Line(wall_ms, now_s, now_s)
        self._doubted: _Line | None = None
        self.trusted = False  # whether anything may be deleted because of its age

    @property
    def doubts(self) -> bool:
        """The wall clock has jumped, and the jump is not believed yet."""
        return self._doubted is not None

    def read(self, wall_ms: int, now_s: float) -> int:
        """The time in milliseconds that ages are measured by."""
        if self._line.follow(wall_ms, now_s):
            self._doubted = None
        elif not self.trusted:
            self._line = _Line(wall_ms, now_s, now_s)
        else:
            self._doubt(wall_ms, now_s)
        self.trusted = self.trusted or now_s - self._line.since_s >= CLOCK_START_TRUSTED_S
        return self._line.expected_ms(now_s)

    def _doubt(self, wall_ms: int, now_s: float) -> None:
        if self._doubted is None or not self._doubted.follow(wall_ms, now_s):
            self._doubted = _Line(wall_ms, now_s, now_s)
        elif now_s - self._doubted.since_s >= CLOCK_JUMP_BELIEVED_S:
            self._line, self._doubted = self._doubted, None
