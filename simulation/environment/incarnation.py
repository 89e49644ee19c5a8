"""What runs in a virtual loop: calls, futures and tasks, and the life of a machine that they belong to.

A `Life` is one run of one machine, held in a context variable, so that whatever is made inside belongs to it without
anybody saying so. Futures and tasks hash by their number, and so a set of them has one order in every run. None of it
runs anything: that is the loop's.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulation.environment.loop import VirtualLoop


BURIALS_MAX = 100  # a coroutine that waits again while it is closed is closed again, so often


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that nobody caught."""

    at_s: float
    message: str
    exception: BaseException | None

    def __str__(self) -> str:
        return f"{self.at_s:.6f} {self.message}: {self.exception!r}"


class Life:
    """One run of one machine. `stopped`: its calls are kept in `waiting`; `dead`: they are kept in `remains` for ever,
    so that no object of the dead is freed, and finishes something, in the middle of the world.
    """

    __slots__ = ("dead", "host", "number", "remains", "stopped", "waiting")

    def __init__(self, host: str, number: int) -> None:
        self.host = host
        self.number = number
        self.stopped = False
        self.dead = False
        self.waiting: deque[Call] = deque()
        self.remains: list[object] = []

    def keep(self, call: Call) -> None:
        (self.remains if self.dead else self.waiting).append(call)

    def __repr__(self) -> str:
        return f"{self.host}/{self.number}"


LIFE: contextvars.ContextVar[Life | None] = contextvars.ContextVar("life", default=None)


class Call(asyncio.TimerHandle):
    """One callback, now or at a time."""

    __slots__ = ("args", "at", "callback", "context", "gone", "life", "loop")

    def __init__(
        self, loop: VirtualLoop, at: float, callback: Callable[..., object], args: Any, context: contextvars.Context
    ) -> None:
        self.loop = loop
        self.at = at
        self.callback = callback
        self.args = args
        self.context = context
        self.life = context.get(LIFE)
        self.gone = False

    def cancel(self) -> None:
        if not self.gone:
            self.gone = True
            self.loop.cancelled_timers += 1  # too many by those that were ready: the sweep only counts roughly

    def cancelled(self) -> bool:
        return self.gone

    def when(self) -> float:
        return self.at

    def get_context(self) -> contextvars.Context:
        return self.context

    def __repr__(self) -> str:
        return f"<Call {self.callback!r} at {self.at}{' cancelled' if self.gone else ''}>"

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


class Promise(asyncio.Future[Any]):
    """A future that hashes by its number."""

    def __init__(self, *, loop: VirtualLoop) -> None:
        self._hash = loop.next_hash()
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._hash


class Work(asyncio.Task[Any]):
    """A task that hashes by its number and knows its life."""

    def __init__(self, work: Any, *, loop: VirtualLoop, name: str | None, context: contextvars.Context | None) -> None:
        self.number = loop.next_number()  # before the task is made: making it puts it into a set
        self._hash = loop.hash_of(self.number)
        self.life = LIFE.get() if context is None else context.get(LIFE)
        super().__init__(work, loop=loop, name=name or f"task-{self.number}", context=context)

    def __hash__(self) -> int:
        return self._hash


def close(coroutine: Any) -> None:
    """End a coroutine where it stands, without a loop; what that breaks, nobody hears."""
    for _ in range(BURIALS_MAX):
        try:
            coroutine.close()
        except RuntimeError:
            continue  # it waited again in a `finally`
        except BaseException:
            return
        return


def place(coroutine: Any) -> str:
    """The innermost line of ours: following what each coroutine awaits."""
    while (inner := getattr(coroutine, "cr_await", None)) is not None and hasattr(inner, "cr_frame"):
        coroutine = inner
    frame = getattr(coroutine, "cr_frame", None)
    return f"{coroutine.__qualname__}:{frame.f_lineno if frame is not None else 'end'}"
