"""A small runtime for unit and crash tests: the real loop, no threads, files of the test's choosing.

`offload` does the work immediately, on the loop, and completes its future with `call_soon`. So a test has one thread
and is the same every time, while callers still see the contract: never a result inside the call. Time is the loop's
own; randomness comes from the seed. It assumes that its caller is inside a running loop.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from magnetar.base.errors import Closed
from magnetar.runtime.files import Files
from magnetar.runtime.runtime import Owner
from magnetar.runtime.turns import Turns

T = TypeVar("T")

EPOCH_MS = 1_750_000_000_000  # where this runtime's wall clock starts: any fixed instant


class InlineRuntime:
    def __init__(self, files: Files, seed: int = 0) -> None:
        self.files = files
        self.turns = Turns()
        self.marked: list[tuple[str, dict[str, object]]] = []
        self._seed = seed
        self._rngs: dict[str, random.Random] = {}
        self.clock_offset_s = 0.0  # of the wall clock: a test sets it wrong

    def wall(self) -> int:
        return EPOCH_MS + int((self.monotonic() + self.clock_offset_s) * 1000)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def rng(self, stream: str) -> random.Random:
        random_ = self._rngs.get(stream)
        if random_ is None:
            random_ = self._rngs[stream] = random.Random(f"{self._seed}:{stream}")
        return random_

    def spawn(self, owner: Owner, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        if owner.closed:
            work.close()
            raise Closed(f"{owner.name} is closed and accepts no more tasks")
        task = asyncio.get_running_loop().create_task(work)
        owner.adopt(task)
        return task

    def offload(self, work: Callable[[], T], lane: str) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        try:
            result = work()
        except BaseException as error:  # any error belongs to the awaiting caller, as on a real thread
            loop.call_soon(_fail, future, error)
        else:
            loop.call_soon(_succeed, future, result)
        return future

    def mark(self, name: str, **facts: object) -> None:
        self.marked.append((name, facts))


def _succeed(future: asyncio.Future[T], result: T) -> None:
    if not future.cancelled():
        future.set_result(result)


def _fail(future: asyncio.Future[T], error: BaseException) -> None:
    if not future.cancelled():
        future.set_exception(error)
