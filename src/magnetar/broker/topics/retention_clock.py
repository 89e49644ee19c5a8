"""Reads the clocks of the runtime for retention, and logs when the wall clock jumps. `ledger/clock.py` decides."""

from __future__ import annotations

from magnetar.ledger.clock import SteadyClock
from magnetar.observe.log import get
from magnetar.runtime.runtime import Runtime

log = get("retention_clock")


class RetentionClock:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._steady = SteadyClock(runtime.wall(), runtime.monotonic())

    @property
    def trusted(self) -> bool:
        """False for some minutes after the start: nothing is deleted because of its age."""
        return self._steady.trusted

    def now_ms(self) -> int:
        """Also called in every round of housekeeping: a jump must last before it is accepted."""
        doubted, wall_ms = self._steady.doubts, self._runtime.wall()
        now_ms = self._steady.read(wall_ms, self._runtime.monotonic())
        if self._steady.doubts and not doubted:
            self._runtime.mark("clock.jumped", by_s=(wall_ms - now_ms) // 1000)
            log.warning("clock_jumped", by_s=(wall_ms - now_ms) // 1000, do="check the time service of this host")
        elif doubted and not self._steady.doubts:
            log.warning("clock_settled", wall_ms=wall_ms)
        return now_ms
