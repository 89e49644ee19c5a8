"""Callbacks, futures and tasks of a virtual loop, and the incarnation of a machine that they belong to.

An `Incarnation` is one run of one machine. A context variable holds it, so that everything made inside belongs to it
implicitly. Futures and tasks hash by their number, so a set of them has one order in every run. Nothing here runs
anything: the loop does.
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


CLOSE_TRIES_MAX = 100  # a coroutine that waits again while it is closed is closed again, so often


@dataclass(frozen=True, slots=True)
class UncaughtError:
    """An exception that no code caught."""

    at_s: float
    message: str
    exception: BaseException | None

    def __str__(self) -> str:
        return f"{self.at_s:.6f} {self.message}: {self.exception!r}"


class Incarnation:
    """One run of one machine. `stopped`: its callbacks are kept in `waiting`. `dead`: they are kept in `remains` until
    the end of the world, so that no object of it is freed, and finishes something, in the middle of the world."""

    __slots__ = ("dead", "host", "number", "remains", "stopped", "waiting")

    def __init__(self, host: str, number: int) -> None:
        self.host = host
        self.number = number
        self.stopped = False
        self.dead = False
        self.waiting: deque[ScheduledCall] = deque()
        self.remains: list[object] = []

    def keep(self, call: ScheduledCall) -> None:
        (self.remains if self.dead else self.waiting).append(call)

    def __repr__(self) -> str:
        return f"{self.host}/{self.number}"


INCARNATION: contextvars.ContextVar[Incarnation | None] = contextvars.ContextVar("life", default=None)


class ScheduledCall(asyncio.TimerHandle):
    """One callback, immediate or at a time."""

    __slots__ = ("args", "at", "callback", "context", "gone", "incarnation", "loop")

    def __init__(
        self, loop: VirtualLoop, at: float, callback: Callable[..., object], args: Any, context: contextvars.Context
    ) -> None:
        self.loop = loop
        self.at = at
        self.callback = callback
        self.args = args
        self.context = context
        self.incarnation = context.get(INCARNATION)
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


class OrderedFuture(asyncio.Future[Any]):
    """A future that hashes by its number."""

    def __init__(self, *, loop: VirtualLoop) -> None:
        self._hash = loop.next_hash()
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._hash


class OrderedTask(asyncio.Task[Any]):
    """A task that hashes by its number and knows its incarnation."""

    def __init__(self, work: Any, *, loop: VirtualLoop, name: str | None, context: contextvars.Context | None) -> None:
        self.number = loop.next_number()  # before the task is made: making it puts it into a set
        self._hash = loop.hash_of(self.number)
        self.incarnation = INCARNATION.get() if context is None else context.get(INCARNATION)
        super().__init__(work, loop=loop, name=name or f"task-{self.number}", context=context)

    def __hash__(self) -> int:
        return self._hash


def close_coroutine(coroutine: Any) -> None:
    """Ends a coroutine where it stands, without a loop, and ignores its errors."""
    for _ in range(CLOSE_TRIES_MAX):
        try:
            coroutine.close()
        except RuntimeError:
            continue  # it waited again in a `finally`
        except BaseException:
            return
        return


def innermost_frame(coroutine: Any) -> str:
    """The innermost line of our code, found by following the awaited coroutines."""
    while (inner := getattr(coroutine, "cr_await", None)) is not None and hasattr(inner, "cr_frame"):
        coroutine = inner
    frame = getattr(coroutine, "cr_frame", None)
    return f"{coroutine.__qualname__}:{frame.f_lineno if frame is not None else 'end'}"
