"""The loops that brokers of tests run on: uvloop where it is installed, asyncio's own where the clock can be moved. The
servers of both go through faults.
"""

from __future__ import annotations

import asyncio

from magnetar.testing.clock import ClockLoop, Offset
from magnetar.testing.faults import Faults, FaultServers


class FaultClockLoop(FaultServers, ClockLoop):
    """asyncio's, with a clock of its own."""

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
        """uvloop is not there for everybody, so its class is not known before."""

    loop = FaultLoop()
    loop.faults = faults
    return loop
