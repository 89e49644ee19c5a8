"""Finds turns of a broker's loop that take too much processor time, because the broker serves no other request in such
a turn.

A timer fires every few milliseconds and reads the processor time of the loop's thread. Between two firings, the thread
can use at most the interval plus one longer turn. A larger difference therefore proves a turn longer than the limit. It
uses processor time and not the clock, because other load on the machine does not increase it. Any thread may collect
the garbage of the whole process; the probe excludes that time if other code shares the process.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable

from magnetar.base.limits import TESTING_PROBE_S, TESTING_TURN_S_MAX
from magnetar.runtime.bounded_call import processor_s


class LoopProbe:
    """`report` gets the minimum duration of such a turn, in the loop's thread. `observe` gets the processor time
    between any two firings.
    """

    def __init__(
        self,
        report: Callable[[float], object],
        *,
        limit_s: float = TESTING_TURN_S_MAX,
        interval_s: float = TESTING_PROBE_S,
        garbage: bool = False,
        observe: Callable[[float], object] | None = None,
    ) -> None:
        self.longest_s = 0.0
        self._report = report
        self._observe = observe
        self._limit_s = limit_s
        self._interval_s = interval_s
        self._garbage = garbage  # whether garbage collection counts as part of the turn
        self._thread = 0
        self._timer: asyncio.TimerHandle | None = None
        self._before_s = 0.0
        self._collecting_s = 0.0
        self._collected_s = 0.0

    def start(self) -> None:
        """Call it on the measured loop."""
        self._thread = threading.get_ident()
        if not self._garbage:
            gc.callbacks.append(self._collects)
        self._again()

    def stop(self) -> None:
        """Call it in the same thread. The current turn is not judged."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            if not self._garbage:
                gc.callbacks.remove(self._collects)

    def _again(self) -> None:
        self._collected_s = 0.0
        self._before_s = processor_s()
        self._timer = asyncio.get_running_loop().call_later(self._interval_s, self._look)

    def _look(self) -> None:
        used_s = processor_s() - self._before_s - self._collected_s
        if self._observe is not None:
            self._observe(used_s)
        turn_s = used_s - self._interval_s
        self.longest_s = max(self.longest_s, turn_s)
        if turn_s > self._limit_s:
            self._report(turn_s)
        self._again()

    def _collects(self, phase: str, info: dict[str, int]) -> None:
        if threading.get_ident() != self._thread:
            return
        if phase == "start":
            self._collecting_s = processor_s()
        else:
            self._collected_s += processor_s() - self._collecting_s
