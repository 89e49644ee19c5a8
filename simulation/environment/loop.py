"""An event loop on a virtual clock: it has one thread, never waits in real time, and is the same in every run.

Ready callbacks run first in, first out. The clock moves only when nothing is ready, to the next timer. If nothing is
ready and no timer is set, the loop raises `NoProgress`; so it does if the clock passes its limit, or if callbacks run
without the clock moving. The error names the waiting tasks. Timers of one instant fire in the order of their creation.
Uncaught errors are kept in `errors`. Connections come from the given `Network`; threads, real sockets, signals and
processes are refused.

Everything made inside an `Incarnation` (a run of one machine, see `host`) inherits it through its context, so that a
machine can be stopped between any two of its steps. Tasks and futures hash by their number: sets of them, as TaskGroup
and `asyncio.wait` keep, have one order in every run of a seed, and another order in the next seed.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import hashlib
import heapq
import random
import sys
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any, Protocol

from simulation.environment.incarnation import (
    INCARNATION,
    Incarnation,
    OrderedFuture,
    OrderedTask,
    ScheduledCall,
    UncaughtError,
    close_coroutine,
    innermost_frame,
)

if TYPE_CHECKING:
    Shape = asyncio.SelectorEventLoop  # has every method, for callers typed against a loop
else:
    Shape = asyncio.AbstractEventLoop

ErrorContext = dict[str, Any]
ExceptionHandler = Callable[[asyncio.AbstractEventLoop, ErrorContext], object]

LIFE_S_MAX = 3_600.0  # of virtual time: repeated timers would keep a hanging world alive
SPIN_CALLS_MAX = 1_000_000  # without the clock moving: a task polls
TIMERS_SWEPT_MIN = 1_000  # cancelled timers stay until this number can be swept together
HASH_BITS = 60


class NoProgress(AssertionError):
    """Nothing is ready and no timer is set: the waiting tasks would wait without end."""


class ForbiddenCall(AssertionError):
    """Code of the world called for a thread, a real socket, a real clock or real randomness."""


class SocketFactory(Protocol):
    """The part of a network that a loop needs (`network`)."""

    async def create_server(
        self, factory: Callable[[], asyncio.BaseProtocol], host: Any, port: int | None, *, start_serving: bool
    ) -> Any: ...

    async def create_connection(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]: ...


class VirtualLoop(Shape):
    """`hostile` draws an order of task wake-ups inside each iteration. It allows more than asyncio promises, so a
    failure under it need not be a bug. `seed` only varies the order of sets of tasks."""

    def __init__(
        self,
        start_s: float = 0.0,
        *,
        limit_s: float = LIFE_S_MAX,
        seed: int = 0,
        hostile: random.Random | None = None,
        spin_calls_max: int = SPIN_CALLS_MAX,
    ) -> None:
        self.network: SocketFactory | None = None
        self.errors: list[UncaughtError] = []
        self.calls = 0
        self.cancelled_timers = 0
        self.outside = contextvars.Context()  # of no life: what the world itself does
        self.notes: list[str] | None = None  # set to [] to keep every note, for comparing two runs that differ
        self._now = start_s
        self._until = start_s + limit_s
        self._ready: deque[ScheduledCall] = deque()
        self._timers: list[tuple[float, int, ScheduledCall]] = []
        self._made = 0  # timers
        self._numbers = 0  # tasks and futures
        self._spread = random.Random(f"{seed}:sets").getrandbits(HASH_BITS) | 1
        self._hostile = hostile
        self._still_since = 0
        self._spin_calls_max = spin_calls_max
        self._handler: ExceptionHandler | None = None
        self._running = self._stopping = self._closed = self._all_closed = False
        self._trace = hashlib.blake2b(digest_size=16)
        self._generators: dict[int, tuple[weakref.ref[Any], contextvars.Context]] = {}

    # Time

    def time(self) -> float:
        return self._now

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> ScheduledCall:
        call = ScheduledCall(
            self, self._now, callback, args, contextvars.copy_context() if context is None else context
        )
        self._ready.append(call)
        return call

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> ScheduledCall:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> ScheduledCall:
        call = ScheduledCall(self, when, callback, args, contextvars.copy_context() if context is None else context)
        self._made += 1
        heapq.heappush(self._timers, (when, self._made, call))
        return call

    # Running

    def run_until_complete(self, future: Any) -> Any:
        task = asyncio.ensure_future(future, loop=self)
        task.add_done_callback(self._finished, context=self.outside)
        try:
            self.run_forever()
        except BaseException:
            if task.done() and not task.cancelled():
                task.exception()  # the caller of the loop gets this error instead
            raise
        finally:
            task.remove_done_callback(self._finished)
        if not task.done():
            raise RuntimeError("the loop was stopped before the future completed")
        return task.result()

    def run_forever(self) -> None:
        if self._closed or self._running or asyncio._get_running_loop() is not None:
            raise RuntimeError("the loop is closed, or a loop is running already")
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=self._generator_began, finalizer=self._generator_dropped)
        self._running, self._stopping = True, False
        asyncio._set_running_loop(self)
        try:
            while not self._stopping:
                self._turn()
        finally:
            self._running = False
            asyncio._set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)

    def stop(self) -> None:
        self._stopping = True

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        if self._running:
            raise RuntimeError("a running loop cannot be closed")
        if not self._closed:
            self.close_everything()
            self._closed = True

    def close_everything(self) -> None:
        """The end of the world: nothing runs any more, and unfinished coroutines are closed silently."""
        if not gc.isenabled():
            gc.collect()  # inside isolation: first let errors that no code retrieved be found
        self._all_closed = True
        asyncio._set_running_loop(self)
        try:
            done: set[asyncio.Task[Any]] = set()
            while left := [task for task in asyncio.all_tasks(self) if task not in done]:
                for task in sorted(left, key=lambda one: one.number if isinstance(one, OrderedTask) else 0):
                    close_coroutine(task.get_coro())
                    done.add(task)
        finally:
            asyncio._set_running_loop(None)
            self._ready.clear()
            self._timers.clear()
            self._generators.clear()

    # Tasks and futures

    def create_future(self) -> asyncio.Future[Any]:
        return OrderedFuture(loop=self)

    def create_task(self, work: Any, *, name: Any = None, context: contextvars.Context | None = None) -> Any:
        if self._closed:
            raise RuntimeError("the loop is closed")
        return OrderedTask(work, loop=self, name=name, context=context)

    def set_task_factory(self, factory: Any) -> None:
        if factory is not None:
            raise ForbiddenCall("tasks of this loop are its own")

    def get_task_factory(self) -> Any:
        return None

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def next_hash(self) -> int:
        self._numbers += 1
        return self.hash_of(self._numbers)

    def hash_of(self, number: int) -> int:
        """Different for different numbers, and in the low bits, which order a set, by the seed."""
        spread = (number * self._spread) & ((1 << HASH_BITS) - 1)
        return spread ^ spread >> 31

    def waiting(self) -> list[str]:
        """Every task that has not ended, of machines that are alive, with the line it waits at."""
        tasks = [task for task in asyncio.all_tasks(self) if isinstance(task, OrderedTask)]
        return [
            f"{task.incarnation or 'world'} {task.get_name()} at {innermost_frame(task.get_coro())}"
            for task in sorted(tasks, key=lambda task: task.number)
            if task.incarnation is None or not task.incarnation.dead
        ]

    def resume(self, incarnation: Incarnation) -> None:
        """Older callbacks go before newer ones, so that a stopped machine keeps its order."""
        incarnation.stopped = False
        self._ready.extendleft(reversed(incarnation.waiting))
        incarnation.waiting.clear()

    # Errors

    def set_exception_handler(self, handler: ExceptionHandler | None) -> None:
        self._handler = handler

    def get_exception_handler(self) -> Any:
        return self._handler

    def default_exception_handler(self, context: ErrorContext) -> None:
        self.errors.append(UncaughtError(self._now, str(context.get("message")), context.get("exception")))

    def call_exception_handler(self, context: ErrorContext) -> None:
        source = context.get("task") or context.get("future") or context.get("handle")
        incarnation = getattr(source, "incarnation", None)
        if self._all_closed or (incarnation is not None and incarnation.dead):
            return
        if self._handler is None:
            self.default_exception_handler(context)
        else:
            self._handler(self, context)

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        pass

    # What happened, to compare two runs

    def note(self, text: str) -> None:
        line = f"{self._now!r} {text}\n"
        self._trace.update(line.encode())
        if self.notes is not None:
            self.notes.append(line)

    def trace(self) -> str:
        """Equal for two runs of one seed."""
        whole = self._trace.copy()
        whole.update(f"{self._now!r} {self.calls} {self._numbers}".encode())
        return whole.hexdigest()

    # Connections

    async def create_server(  # type: ignore[override]
        self, factory: Any, host: Any = None, port: Any = None, *, start_serving: bool = True, **_: Any
    ) -> Any:
        return await self._sockets().create_server(factory, host, port, start_serving=start_serving)

    async def create_connection(  # type: ignore[override]
        self, factory: Any, host: Any = None, port: Any = None, **_: Any
    ) -> Any:
        return await self._sockets().create_connection(factory, host, port)

    async def shutdown_asyncgens(self) -> None:
        pass  # burial does it

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        pass  # there is none

    def _sockets(self) -> SocketFactory:
        if self.network is None:
            raise ForbiddenCall("this loop has no network")
        return self.network

    # Turning

    def _turn(self) -> None:
        ready, timers = self._ready, self._timers
        if not ready:
            self._advance()
        while timers and timers[0][0] <= self._now:
            ready.append(heapq.heappop(timers)[2])
        if self.cancelled_timers > TIMERS_SWEPT_MIN and self.cancelled_timers * 2 > len(timers):
            self._sweep()
        if self._hostile is not None:
            self._permute(self._hostile)
        if self.calls - self._still_since > self._spin_calls_max:
            raise NoProgress(f"spins at {self._now} s: {'; '.join(self.waiting())}")
        for _ in range(len(ready)):
            call = ready.popleft()
            incarnation = call.incarnation
            if incarnation is not None and incarnation.stopped:
                incarnation.keep(call)
            elif not call.gone:
                self.calls += 1
                try:
                    call.context.run(call.callback, *call.args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:
                    self.call_exception_handler({"message": f"in {call!r}", "exception": error, "handle": call})
        del (
            call,
            incarnation,
        )  # the traceback of a failure keeps this frame: it must not keep a task that failed alive too

    def _advance(self) -> None:
        """Moves the clock to the next timer of a living machine."""
        timers = self._timers
        while timers:
            when, _, call = timers[0]
            incarnation = call.incarnation
            if call.gone or (incarnation is not None and incarnation.dead):
                heapq.heappop(timers)
                if incarnation is not None and incarnation.dead:
                    incarnation.keep(call)
                continue
            if when > self._until:
                raise NoProgress(f"only timers ring, at {self._now} s: {'; '.join(self.waiting())}")
            if when > self._now:
                self._now = when
                self._still_since = self.calls
            return
        raise NoProgress(f"nothing is ready and no timer is set, at {self._now} s: {'; '.join(self.waiting())}")

    def _sweep(self) -> None:
        self._timers[:] = [entry for entry in self._timers if not entry[2].gone]
        heapq.heapify(self._timers)
        self.cancelled_timers = 0

    def _permute(self, chance: random.Random) -> None:
        """Task steps change places among themselves; a task has one at a time."""
        ready = self._ready
        places = [
            at for at, call in enumerate(ready) if isinstance(getattr(call.callback, "__self__", None), OrderedTask)
        ]
        if len(places) > 1:
            steps = [ready[at] for at in places]
            chance.shuffle(steps)
            for at, step in zip(places, steps, strict=True):
                ready[at] = step

    def _finished(self, _: object) -> None:
        self._stopping = True

    def _generator_began(self, generator: AsyncGenerator[Any, Any]) -> None:
        self._generators[id(generator)] = (weakref.ref(generator), contextvars.copy_context())

    def _generator_dropped(self, generator: AsyncGenerator[Any, Any]) -> None:
        _, context = self._generators.pop(id(generator), (None, self.outside))
        incarnation = context.get(INCARNATION)
        if incarnation is not None and incarnation.dead:
            incarnation.remains.append(generator)
        elif not self._all_closed:
            self.call_soon(self._generator_closes, generator, context, context=context)

    def _generator_closes(self, generator: Any, context: contextvars.Context) -> None:
        self.create_task(generator.aclose(), context=context)


async def pass_time(seconds: float) -> None:
    """Virtual time passes."""
    await asyncio.sleep(seconds)


def _refusal(name: str) -> Callable[..., Any]:
    def refuse(self: VirtualLoop, *args: object, **more: object) -> Any:
        raise ForbiddenCall(f"{name}: there are no threads, sockets, signals or processes in a simulated world")

    return refuse


for _name in vars(asyncio.AbstractEventLoop):  # methods of a loop that this one does not have
    if not _name.startswith("_") and _name not in vars(VirtualLoop):
        setattr(VirtualLoop, _name, _refusal(_name))
