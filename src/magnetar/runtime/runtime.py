"""The contract for time, randomness, tasks and threads of all packages.

Sockets come from the running loop's `create_server` and `create_connection`, timers from its `call_later`; the
simulator replaces the loop itself. All other services must come from this contract, otherwise the code cannot run in
the simulator.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from magnetar.runtime.files import Files
from magnetar.runtime.turns import Turns

T = TypeVar("T")


class Owner:
    """Owns tasks and awaits them: a task never outlives its owner.

    An exception of a task is passed to `on_error` (the node logs it and stops if it is unexpected). `close()` cancels
    the remaining tasks and waits for them.
    """

    def __init__(self, name: str, on_error: Callable[[str, BaseException], None] | None = None) -> None:
        self.name = name
        self.closed = False
        self._on_error = on_error
        self._tasks: dict[asyncio.Task[Any], None] = {}  # a dict keeps the order of creation; a set would not

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
    turns: Turns  # of the loop that everything of this broker runs on

    def wall(self) -> int:
        """Milliseconds since 1970: for timestamps that people and clients see, never for durations."""
        ...

    def monotonic(self) -> float:
        """Monotonic seconds: for deadlines and durations."""
        ...

    def rng(self, stream: str) -> random.Random:
        """A separate generator per stream, so that draws in one do not affect another."""
        ...

    def spawn(self, owner: Owner, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]: ...

    def offload(self, work: Callable[[], T], lane: str) -> asyncio.Future[T]:
        """Runs `work` on the lane's single thread, in call order; the future completes on the loop."""
        ...

    def mark(self, name: str, **facts: object) -> None:
        """Records a rare event: a hold point, a step shown to users, coverage of the simulator."""
        ...
