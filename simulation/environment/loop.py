"""An event loop on a virtual clock: a world of one thread that never waits for real and is the same in every run.

What is ready runs first in, first out; the clock moves only when nothing is ready, to the next timer. Nothing ready and
no timer is `Stuck`, and so is a clock past its limit, or a world that spins without time passing: the error names who
waits. Timers of one instant ring in the order they were made. What nobody caught is kept in `errors`. Connections come
from the `Network` that was given to it; threads, real sockets, signals and processes are refused.

Everything made inside a `Life` (a run of one machine, see `host`) inherits it through its context, so that a machine
can be stopped between any two of its steps. Tasks and futures are numbered and hash by their number: sets of them, as
TaskGroup and `asyncio.wait` keep, are then in one order in every run of a seed, and in another in the next seed.
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
    LIFE,
    Call,
    Failure,
    Life,
    Promise,
    Work,
    close,
    place,
)

if TYPE_CHECKING:
    Shape = asyncio.SelectorEventLoop  # has every method, for whoever is typed against a loop
else:
    Shape = asyncio.AbstractEventLoop

Context = dict[str, Any]
Handler = Callable[[asyncio.AbstractEventLoop, Context], object]

LIFE_S_MAX = 3_600.0  # of virtual time: timers that repeat would let a world that hangs live for ever
SPIN_CALLS_MAX = 1_000_000  # without the clock moving: somebody waits by asking again and again
TIMERS_SWEPT_MIN = 1_000  # cancelled ones stay where they are until so many would be swept at once
HASH_BITS = 60


class Stuck(AssertionError):
    """Nothing is ready and no timer is set: whoever waits, waits for ever."""


class Forbidden(AssertionError):
    """Somebody reached out of the world: for a thread, a real socket, a real clock, real chance."""


class Sockets(Protocol):
    """What a loop has of a network (`network`)."""

    async def create_server(
        self, factory: Callable[[], asyncio.BaseProtocol], host: Any, port: int | None, *, start_serving: bool
    ) -> Any: ...

    async def create_connection(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]: ...


class VirtualLoop(Shape):
    """`hostile`, where given, draws an order of task wake-ups inside each turn: more than asyncio promises to allow, so
    what it breaks need not be a bug. `seed` only varies the order of sets of tasks.
    """

    def __init__(
        self,
        start_s: float = 0.0,
        *,
        limit_s: float = LIFE_S_MAX,
        seed: int = 0,
        hostile: random.Random | None = None,
        spin_calls_max: int = SPIN_CALLS_MAX,
    ) -> None:
        self.network: Sockets | None = None
        self.errors: list[Failure] = []
        self.calls = 0
        self.cancelled_timers = 0
        self.outside = contextvars.Context()  # of no life: what the world itself does
        self.notes: list[str] | None = None  # set to [] to keep every note, for comparing two runs that differ
        self._now = start_s
        self._until = start_s + limit_s
        self._ready: deque[Call] = deque()
        self._timers: list[tuple[float, int, Call]] = []
        self._made = 0  # timers
        self._numbers = 0  # tasks and futures
        self._spread = random.Random(f"{seed}:sets").getrandbits(HASH_BITS) | 1
        self._hostile = hostile
        self._still_since = 0
        self._spin_calls_max = spin_calls_max
        self._handler: Handler | None = None
        self._running = self._stopping = self._closed = self._buried = False
        self._trace = hashlib.blake2b(digest_size=16)
        self._generators: dict[int, tuple[weakref.ref[Any], contextvars.Context]] = {}

    # Time

    def time(self) -> float:
        return self._now

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> Call:
        call = Call(self, self._now, callback, args, contextvars.copy_context() if context is None else context)
        self._ready.append(call)
        return call

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> Call:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> Call:
        call = Call(self, when, callback, args, contextvars.copy_context() if context is None else context)
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
                task.exception()  # whoever runs the loop hears of this error instead
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
            self.bury()
            self._closed = True

    def bury(self) -> None:
        """The end of the world: nothing runs any more; whoever was in the middle of something is closed silently."""
        if not gc.isenabled():
            gc.collect()  # inside a fence: first let errors that nobody retrieved be found
        self._buried = True
        asyncio._set_running_loop(self)
        try:
            done: set[asyncio.Task[Any]] = set()
            while left := [task for task in asyncio.all_tasks(self) if task not in done]:
                for task in sorted(left, key=lambda one: one.number if isinstance(one, Work) else 0):
                    close(task.get_coro())
                    done.add(task)
        finally:
            asyncio._set_running_loop(None)
            self._ready.clear()
            self._timers.clear()
            self._generators.clear()

    # Tasks and futures

    def create_future(self) -> asyncio.Future[Any]:
        return Promise(loop=self)

    def create_task(self, work: Any, *, name: Any = None, context: contextvars.Context | None = None) -> Any:
        if self._closed:
            raise RuntimeError("the loop is closed")
        return Work(work, loop=self, name=name, context=context)

    def set_task_factory(self, factory: Any) -> None:
        if factory is not None:
            raise Forbidden("tasks of this loop are its own")

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
        tasks = [task for task in asyncio.all_tasks(self) if isinstance(task, Work)]
        return [
            f"{task.life or 'world'} {task.get_name()} at {place(task.get_coro())}"
            for task in sorted(tasks, key=lambda task: task.number)
            if task.life is None or not task.life.dead
        ]

    def resume(self, life: Life) -> None:
        """What waited goes before what came since, so that a stopped machine keeps its order."""
        life.stopped = False
        self._ready.extendleft(reversed(life.waiting))
        life.waiting.clear()

    # Errors

    def set_exception_handler(self, handler: Handler | None) -> None:
        self._handler = handler

    def get_exception_handler(self) -> Any:
        return self._handler

    def default_exception_handler(self, context: Context) -> None:
        self.errors.append(Failure(self._now, str(context.get("message")), context.get("exception")))

    def call_exception_handler(self, context: Context) -> None:
        source = context.get("task") or context.get("future") or context.get("handle")
        life = getattr(source, "life", None)
        if self._buried or (life is not None and life.dead):
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

    def _sockets(self) -> Sockets:
        if self.network is None:
            raise Forbidden("this loop has no network")
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
            raise Stuck(f"spins at {self._now} s: {'; '.join(self.waiting())}")
        for _ in range(len(ready)):
            call = ready.popleft()
            life = call.life
            if life is not None and life.stopped:
                life.keep(call)
            elif not call.gone:
                self.calls += 1
                try:
                    call.context.run(call.callback, *call.args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:
                    self.call_exception_handler({"message": f"in {call!r}", "exception": error, "handle": call})
        del call, life  # the traceback of a failure keeps this frame: it must not keep a task that failed alive too

    def _advance(self) -> None:
        """To the next timer that somebody alive has set."""
        timers = self._timers
        while timers:
            when, _, call = timers[0]
            life = call.life
            if call.gone or (life is not None and life.dead):
                heapq.heappop(timers)
                if life is not None and life.dead:
                    life.keep(call)
                continue
            if when > self._until:
                raise Stuck(f"only timers ring, at {self._now} s: {'; '.join(self.waiting())}")
            if when > self._now:
                self._now = when
                self._still_since = self.calls
            return
        raise Stuck(f"nothing is ready and no timer is set, at {self._now} s: {'; '.join(self.waiting())}")

    def _sweep(self) -> None:
        self._timers[:] = [entry for entry in self._timers if not entry[2].gone]
        heapq.heapify(self._timers)
        self.cancelled_timers = 0

    def _permute(self, chance: random.Random) -> None:
        """Task steps change places among themselves; a task has one at a time."""
        ready = self._ready
        places = [at for at, call in enumerate(ready) if isinstance(getattr(call.callback, "__self__", None), Work)]
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
        life = context.get(LIFE)
        if life is not None and life.dead:
            life.remains.append(generator)
        elif not self._buried:
            self.call_soon(self._generator_closes, generator, context, context=context)

    def _generator_closes(self, generator: Any, context: contextvars.Context) -> None:
        self.create_task(generator.aclose(), context=context)


async def rest(seconds: float) -> None:
    """Virtual time passes."""
    await asyncio.sleep(seconds)


def _refusal(name: str) -> Callable[..., Any]:
    def refuse(self: VirtualLoop, *args: object, **more: object) -> Any:
        raise Forbidden(f"{name}: there are no threads, sockets, signals or processes in a simulated world")

    return refuse


for _name in vars(asyncio.AbstractEventLoop):  # whatever a loop could do and this one does not
    if not _name.startswith("_") and _name not in vars(VirtualLoop):
        setattr(VirtualLoop, _name, _refusal(_name))
