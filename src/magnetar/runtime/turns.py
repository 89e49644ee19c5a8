"""Shares the turns of the event loop between pieces of work that need more than one turn.

A dispatcher with a backlog, a connection with many commands and a journal with many answers each limit their own work
in one turn. Without this module, a thousand of them would still run in one turn of the loop. They therefore spend one
budget together: `left` says how much of it remains, in estimated microseconds of processor time. Callers look at `left`
before they begin, subtract what they did, and continue with `later` if nothing remains. The costs are constants, so
that the order of events does not depend on the speed of the machine.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from magnetar.base.limits import TURN_COST_MAX, TURN_WORK_COST

Work = Callable[[], None]


class Turns:
    """Of one broker. Used on its loop."""

    __slots__ = ("_armed", "_cost_max", "_new", "_waiting", "left")

    def __init__(self, cost_max: int = TURN_COST_MAX) -> None:
        self.left = cost_max
        self._cost_max = cost_max
        self._new: deque[Work] = deque()
        self._waiting: deque[Work] = deque()
        self._armed = False

    def later(self, work: Work) -> None:
        """Calls `work` in one of the next turns, after all work that already waits."""
        self._waiting.append(work)
        self._arm()

    def soon(self, work: Work) -> None:
        """As `later`, before work that already had a turn: for a request of a client that has asked for little."""
        self._new.append(work)
        self._arm()

    def _arm(self) -> None:
        if not self._armed:
            self._armed = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        """Work that is added during this call waits for the next turn, also if this one has room."""
        self._armed = False
        self.left = self._cost_max
        new, waiting = len(self._new), len(self._waiting)
        try:
            if waiting:  # one of them in any case: new work without end must not stop them
                waiting -= 1
                self._do(self._waiting)
            if new:  # half a budget in any case: one expensive piece in each turn must not stop all requests
                self.left = max(self.left, self._cost_max // 2)
            while new and self.left > 0:
                new -= 1
                self._do(self._new)
            while waiting and self.left > 0:
                waiting -= 1
                self._do(self._waiting)
        finally:
            if self._new or self._waiting:
                self._arm()

    def _do(self, works: deque[Work]) -> None:
        self.left -= TURN_WORK_COST
        works.popleft()()
