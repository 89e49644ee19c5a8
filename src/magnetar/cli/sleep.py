"""Interruptible wait for code without a running loop. Ctrl-C ends it immediately and leaves no state behind: one loop
serves all waits of a command, with timers only and no task that could be lost.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self


class InterruptibleSleep:
    """`with Pause() as pause: pause(0.5)`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()

    def __call__(self, seconds: float) -> None:
        self._loop.call_later(seconds, self._loop.stop)
        self._loop.run_forever()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.close()
