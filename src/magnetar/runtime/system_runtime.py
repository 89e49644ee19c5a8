"""The runtime of this machine: its clocks, randomness from the kernel, tasks of the running loop, one thread per lane,
and its files.

It implements the contract of `runtime.py` and adds no behaviour. The creator calls `close()` after the last use, which
waits for the lanes.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import random
import time
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from magnetar.base.errors import Closed
from magnetar.runtime.disk import RealFiles
from magnetar.runtime.files import Files
from magnetar.runtime.portal import Portal, portal
from magnetar.runtime.runtime import Owner
from magnetar.runtime.turns import Turns
from magnetar.runtime.worker_thread import SerialWorker

T = TypeVar("T")
Marked = Callable[[str, dict[str, object]], None]


class RealRuntime:
    """`marks` are called with every `mark`, on the loop, in order; empty if no observer is registered."""

    def __init__(self, files: Files | None = None) -> None:
        self.files: Files = RealFiles() if files is None else files
        self.turns = Turns()
        self.marks: list[Marked] = []
        self._lanes: dict[str, SerialWorker] = {}
        self._rngs: dict[str, random.Random] = {}
        self._abandoned = False
        _OPEN.add(self)

    def wall(self) -> int:
        return time.time_ns() // 1_000_000

    monotonic = staticmethod(time.monotonic)  # direct alias, because each run asks several times

    def rng(self, stream: str) -> random.Random:
        generator = self._rngs.get(stream)
        if generator is None:
            generator = self._rngs[stream] = random.Random(os.urandom(32))  # noqa: S311 - for names and delays, no secrets
        return generator

    def spawn(self, owner: Owner, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        if owner.closed:
            work.close()
            raise Closed(f"{owner.name} is closed and accepts no more tasks")
        task = asyncio.get_running_loop().create_task(work)
        owner.adopt(task)
        return task

    def offload(self, work: Callable[[], T], lane: str) -> asyncio.Future[T]:
        if self._abandoned:
            return asyncio.get_running_loop().create_future()
        worker = self._lanes.get(lane)
        if worker is None:
            worker = self._lanes[lane] = SerialWorker(lane)
        return worker.run(work)

    def portal(self) -> Portal:
        """The loop thread of this process, for callers that cannot await."""
        return portal()

    def mark(self, name: str, **facts: object) -> None:
        for heard in self.marks:
            heard(name, facts)

    def close(self) -> None:
        """Finishes the work of all lanes and joins their threads. Blocks; `offload` must not be called afterwards."""
        for lane in self._lanes.values():
            lane.close()
        _OPEN.discard(self)

    def abandon(self) -> None:
        """Simulates the death of the process, for tests: drops work that has not begun, and completes no further
        `offload`.
        """
        self._abandoned = True
        for lane in self._lanes.values():
            lane.drop()
        self.close()


_OPEN: weakref.WeakSet[RealRuntime] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for runtime in list(_OPEN):
        runtime.close()
