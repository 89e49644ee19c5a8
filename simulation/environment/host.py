"""One simulated machine: its process starts, pauses, dies at any moment, and starts again on the disk that is left.

Everything made inside `main` belongs to one run of the process through its context (`incarnation`). After its death no
callback, timer or task of it runs, and nothing is delivered to it. Its objects are kept until the end of the world, so
that no `finally` of a dead process runs. `crash` is a power cut: the disk forgets what was not synced. `kill` ends the
process alone: the disk keeps everything.

The step that is running when its own machine dies continues until it waits. It can no longer write to a disk or to a
connection, and a `mark` ends it. The process ends when its `main` ends; an error of `main` is an error of the world.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from simulation.environment.disk import PowerLoss, SimulatedFiles
from simulation.environment.incarnation import INCARNATION, Incarnation, OrderedTask
from simulation.environment.loop import VirtualLoop
from simulation.environment.network import Network
from simulation.environment.random_streams import RandomStreams
from simulation.environment.runtime import SimulatedRuntime

MarkListener = Callable[["Host", str, dict[str, object]], None]
ProcessMain = Callable[[SimulatedRuntime], Awaitable[Any]]


class Host:
    """`files` makes its first disk from a seed; `on_mark` gets every mark of every incarnation of it."""

    def __init__(
        self,
        name: str,
        loop: VirtualLoop,
        network: Network,
        streams: RandomStreams,
        files: Callable[[int], SimulatedFiles] = SimulatedFiles,
        *,
        on_mark: MarkListener | None = None,
    ) -> None:
        self.name = name
        self.loop = loop
        self.network = network
        self.streams = streams
        self.files = files(streams.fork("faults", f"{name}/disk").getrandbits(32))
        self.on_mark = on_mark
        self.slow_disk = 1.0  # a factor
        self.clock_offset_s = 0.0  # of its wall clock
        self.starts = 0
        self.dead_incarnations: list[Incarnation] = []
        self._incarnation: Incarnation | None = None
        self._paused_until = 0.0
        network.join(name)

    @property
    def alive(self) -> bool:
        return self._incarnation is not None

    @property
    def incarnation(self) -> Incarnation | None:
        return self._incarnation

    def run(self, main: ProcessMain) -> asyncio.Task[Any]:
        """Starts an incarnation. The task is its first; if the machine dies, that task never ends."""
        if self._incarnation is not None:
            raise AssertionError(f"{self.name} is alive already")
        self.starts += 1
        self._incarnation = incarnation = Incarnation(self.name, self.starts)
        self._paused_until = 0.0
        self.network.up(self.name)
        context = contextvars.copy_context()
        context.run(INCARNATION.set, incarnation)
        self.loop.note(f"{incarnation} begins")
        task: asyncio.Task[Any] = self.loop.create_task(
            _first(main, SimulatedRuntime(self, incarnation)), name=f"{incarnation} main", context=context
        )
        incarnation.remains.append(task)  # a task without any other reference would be garbage-collected
        task.add_done_callback(self._ended, context=self.loop.outside)
        return task

    def do(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Runs something else inside the present incarnation, as a request from outside."""
        context = contextvars.copy_context()
        context.run(INCARNATION.set, self._incarnation)
        task: asyncio.Task[Any] = self.loop.create_task(work, context=context)
        return task

    def crash(self) -> None:
        """The power goes. What was not synced may be gone."""
        if self._incarnation is not None:
            self._die(self._incarnation, power=True)
            self.files = self.files.crash()

    def kill(self) -> None:
        """The process is gone, between two of its steps; what it wrote is in the page cache."""
        if self._incarnation is not None:
            self._die(self._incarnation, power=False)
            self.files.kill()

    def pause(self, seconds: float) -> None:
        """Stops the process without its knowledge: what falls into the pause happens afterwards, in order."""
        incarnation = self._incarnation
        if incarnation is None:
            return
        incarnation.stopped = True
        self._paused_until = max(self._paused_until, self.loop.time() + seconds)
        self.loop.call_later(seconds, self._resume, incarnation, context=self.loop.outside)

    def jump_clock(self, seconds: float) -> None:
        """Moves its wall clock forward or back."""
        self.clock_offset_s += seconds

    def _resume(self, incarnation: Incarnation) -> None:
        if not incarnation.dead and self.loop.time() >= self._paused_until:
            self.loop.resume(incarnation)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        incarnation = getattr(task, "incarnation", None)
        if incarnation is None or incarnation.dead:
            return
        error = None if task.cancelled() else task.exception()
        if isinstance(error, PowerLoss):
            self.crash()
            return
        if error is not None:
            self.loop.call_exception_handler({"message": f"{incarnation} ended", "exception": error})
        self.kill()

    def _die(self, incarnation: Incarnation, *, power: bool) -> None:
        self.loop.note(f"{incarnation} {'loses power' if power else 'is killed'}")
        incarnation.dead = incarnation.stopped = True
        incarnation.remains += incarnation.waiting
        incarnation.waiting.clear()
        incarnation.remains += [
            task
            for task in asyncio.all_tasks(self.loop)
            if isinstance(task, OrderedTask) and task.incarnation is incarnation
        ]
        self.dead_incarnations.append(incarnation)
        self._incarnation = None
        self.network.down(self.name, power=power, remains=incarnation.remains)


async def _first(main: ProcessMain, runtime: SimulatedRuntime) -> Any:
    return await main(runtime)
