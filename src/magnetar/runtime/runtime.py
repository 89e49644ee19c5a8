"""The contract every room gets its time, chance, tasks and threads from.

Sockets come from the running loop's `create_server` and `create_connection` and timers from its `call_later`, which the
simulator replaces with the loop itself. Code that needs anything else asks here, or it cannot run in the simulator.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from magnetar.runtime.files import Files

T = TypeVar("T")


class Owner:
    """Holds tasks and awaits them: no task outlives the thing it works for.

    A task that ends with an exception tells `on_error` (the node's own: log and, if unexpected, stop). `close()`
    cancels what is left and waits for it.
    """

    def __init__(self, name: str, on_error: Callable[[str, BaseException], None] | None = None) -> None:
        self.name = name
        self.closed = False
        self._on_error = on_error
        self._tasks: dict[asyncio.Task[Any], None] = {}  # a dict keeps the order of spawning; a set would not

    def adopt(self, task: asyncio.Task[Any]) -> None:
        self._tasks[task] = None
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            return
        if self._on_error is None:
            task.get_loop().call_exception_handler(
                {"message": f"task of {self.name} failed", "exception": error, "task": task}
            )
        else:
            self._on_error(self.name, error)

    async def close(self) -> None:
        self.closed = True
        current = asyncio.current_task()
        while True:
            left = [task for task in self._tasks if task is not current]
            if not left:
                return
            for task in left:
                task.cancel()
            await asyncio.wait(left)


class Runtime(Protocol):
    files: Files

    def wall(self) -> int:
        """Milliseconds since 1970: for timestamps people and clients see, never for measuring."""
        ...

    def monotonic(self) -> float:
        """Seconds that only grow: for deadlines and durations."""
        ...

    def rng(self, stream: str) -> random.Random:
        """A generator of its own per stream, so that a draw in one does not disturb another."""
        ...

    def spawn(self, owner: Owner, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]: ...

    def offload(self, work: Callable[[], T], lane: str) -> asyncio.Future[T]:
        """Run `work` on the lane's one thread, in the order of the calls; the future completes on the loop."""
        ...

    def mark(self, name: str, **facts: object) -> None:
        """A rare event worth seeing: a hold point, a step shown to people, coverage of the simulator."""
        ...
