"""A clock that a test moves: the broker's loop and runtime read the machine's time plus an offset.

Timers of the broker hang on its loop, whose time is the same clock: after a move those that are due ring in their
order, at once. Nothing is patched. Clients in the test's process keep the machine's time.
"""

from __future__ import annotations

import asyncio

from magnetar.base.errors import Misuse
from magnetar.runtime.files import Files
from magnetar.runtime.system_runtime import RealRuntime

_TURNS = 20  # of the loop, for timers that are due and for what they start


class Offset:
    """How far the broker's time is ahead of the machine's: the same over all its lives."""

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds = 0.0

    async def advance(self, seconds: float) -> None:
        """In the broker's thread, until the timers that are due have rung."""
        self.seconds += seconds
        for _ in range(_TURNS):
            await asyncio.sleep(0)


class ClockRuntime(RealRuntime):
    """The machine's, with another time."""

    def __init__(self, files: Files, offset: Offset) -> None:
        super().__init__(files)
        self._offset = offset

    def wall(self) -> int:
        return super().wall() + round(self._offset.seconds * 1000)

    def monotonic(self) -> float:
        return super().monotonic() + self._offset.seconds


class ClockLoop(asyncio.SelectorEventLoop):
    """asyncio's own, with another time."""

    def __init__(self, offset: Offset) -> None:
        self._offset = offset
        super().__init__()

    def time(self) -> float:
        return super().time() + self._offset.seconds


def check_seconds(seconds: float) -> None:
    if not seconds >= 0:
        raise Misuse("a clock moves forward: seconds must not be negative", seconds=seconds)
