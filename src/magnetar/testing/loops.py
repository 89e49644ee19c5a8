"""The loops of brokers in tests: uvloop if it is installed, asyncio's own for a movable clock. Servers of both use
faults.
"""

from __future__ import annotations

import asyncio

from magnetar.testing.clock import ClockLoop, Offset
from magnetar.testing.faults import Faults, FaultServers


class FaultClockLoop(FaultServers, ClockLoop):
    """asyncio's loop with a movable clock."""

    def __init__(self, faults: Faults, offset: Offset) -> None:
        self.faults = faults
        super().__init__(offset)


def make_loop(faults: Faults, offset: Offset | None) -> asyncio.AbstractEventLoop:
    if offset is not None:
        return FaultClockLoop(faults, offset)
    try:
        import uvloop
    except ModuleNotFoundError:
        return FaultClockLoop(faults, Offset())

    class FaultLoop(FaultServers, uvloop.Loop):  # type: ignore[misc]
        """Defined here, because uvloop and its class are optional."""

    loop = FaultLoop()
    loop.faults = faults
    return loop
