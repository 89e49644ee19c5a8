"""The Runtime of a simulated machine: virtual time, randomness from the seed, threads with the speed of a disk.

`offload` does the work in one step of its own, later than the call, and completes it later still, both after drawn
delays. A thread does one thing at a time; threads do not affect each other. So a crash finds work that was not begun,
and finished work without a delivered result. A `PowerLoss` from the disk takes the machine with it. Time and tasks are
the loop's.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from magnetar.base.errors import Closed
from magnetar.runtime.files import Files
from magnetar.runtime.runtime import Owner
from magnetar.runtime.turns import Turns
from simulation.environment.disk import PowerLoss
from simulation.environment.incarnation import Incarnation
from simulation.environment.inline_runtime import EPOCH_MS

if TYPE_CHECKING:
    from simulation.environment.host import Host

T = TypeVar("T")

BEGIN_S_MAX = 0.0002  # until a lane's thread has the work
WORK_S_MIN = 0.00005
WORK_S_MAX = 0.002
LATE_CHANCE = 0.01  # of work that takes long: a disk that collects its garbage
LATE_S_MAX = 0.2


class SimulatedRuntime:
    def __init__(self, host: Host, incarnation: Incarnation) -> None:
        self.host = host
        self.incarnation = incarnation
        self.files: Files = host.files
        self.turns = Turns()
        self._loop = host.loop
        self._rngs: dict[str, random.Random] = {}
        self._lanes: dict[str, SimulatedThread] = {}

    def wall(self) -> int:
        return EPOCH_MS + round((self._loop.time() + self.host.clock_offset_s) * 1000)

    def monotonic(self) -> float:
        return self._loop.time()

    def rng(self, stream: str) -> random.Random:
        random_ = self._rngs.get(stream)
        if random_ is None:
            random_ = self._rngs[stream] = self.host.streams.fork("schedule", f"{self.incarnation}/{stream}")
        return random_

    def spawn(self, owner: Owner, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        if owner.closed:
            work.close()
            raise Closed(f"{owner.name} is closed and accepts no more tasks")
        task: asyncio.Task[T] = self._loop.create_task(work)
        owner.adopt(task)
        return task

    def offload(self, work: Callable[[], T], lane: str) -> asyncio.Future[T]:
        thread = self._lanes.get(lane)
        if thread is None:
            chance = self.host.streams.fork("schedule", f"{self.incarnation}/lane/{lane}")
            thread = self._lanes[lane] = SimulatedThread(self.host, chance)
        return thread.run(work)

    def mark(self, name: str, **facts: object) -> None:
        if self.host.on_mark is not None and not self.incarnation.dead:
            # What the world does about a mark is not of this life: it may end it.
            self._loop.outside.copy().run(self.host.on_mark, self.host, name, facts)
        if self.incarnation.dead:
            raise PowerLoss(f"{self.incarnation} died at {name}")


class SimulatedThread:
    """One thread, as its callers see it."""

    def __init__(self, host: Host, chance: random.Random) -> None:
        self._host = host
        self._chance = chance
        self._free_at = 0.0

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        loop = self._host.loop
        future: asyncio.Future[T] = loop.create_future()
        begin = max(loop.time(), self._free_at) + BEGIN_S_MAX * self._chance.random()
        self._free_at = begin + self._takes()
        loop.call_at(begin, self._work, work, future, self._free_at)
        return future

    def _takes(self) -> float:
        chance = self._chance
        high = LATE_S_MAX if chance.random() < LATE_CHANCE else WORK_S_MAX
        return (WORK_S_MIN + (high - WORK_S_MIN) * chance.random()) * self._host.slow_disk

    def _work(self, work: Callable[[], Any], future: asyncio.Future[Any], end: float) -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            result = work()
        except PowerLoss:
            self._host.crash()
            return
        except StopIteration as stop:  # a future refuses this one, as on a real lane
            error = RuntimeError(f"work raised {stop!r}")
        except BaseException as raised:  # belongs to the awaiting caller, as on a real thread
            error = raised
        self._host.loop.call_at(end, _complete, future, result, error)


def _complete(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
