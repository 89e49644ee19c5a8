"""A clock that a test moves: the broker's loop and runtime read the machine's time plus an offset.

The broker's timers use its loop, which has the same clock. After a move, all due timers fire immediately and in order.
Nothing is patched. Clients in the test's process keep the machine's time.
"""

from __future__ import annotations

import asyncio

from magnetar.base.errors import Misuse
from magnetar.runtime.files import Files
from magnetar.runtime.system_runtime import RealRuntime

_TURNS = 20  # turns of the loop for due timers and for the work that they start


class Offset:
    """The difference between the broker's time and the machine's; kept across restarts."""

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds = 0.0

    async def advance(self, seconds: float) -> None:
        """In the broker's thread: moves the time and waits until the due timers have fired."""
        self.seconds += seconds
        for _ in range(_TURNS):
            await asyncio.sleep(0)


class ClockRuntime(RealRuntime):
    """The machine's runtime with another clock."""

    def __init__(self, files: Files, offset: Offset) -> None:
        super().__init__(files)
        self._offset = offset

    def wall(self) -> int:
        return super().wall() + round(self._offset.seconds * 1000)

    def monotonic(self) -> float:
        return super().monotonic() + self._offset.seconds


class ClockLoop(asyncio.SelectorEventLoop):
    """asyncio's loop with another clock."""

    def __init__(self, offset: Offset) -> None:
        self._offset = offset
        super().__init__()

    def time(self) -> float:
        return super().time() + self._offset.seconds


def check_seconds(seconds: float) -> None:
    if not seconds >= 0:
        raise Misuse("seconds must not be negative: a clock only moves forward", seconds=seconds)
