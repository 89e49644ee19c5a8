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

from simulation.environment.disk import Crashed, ForgetfulFiles
from simulation.environment.incarnation import LIFE, Life, Work
from simulation.environment.loop import VirtualLoop
from simulation.environment.network import Network
from simulation.environment.random_streams import Streams
from simulation.environment.runtime import SimulatedRuntime

Marked = Callable[["Host", str, dict[str, object]], None]
Main = Callable[[SimulatedRuntime], Awaitable[Any]]


class Host:
    """`files` makes its first disk from a seed; `marked` hears every mark of every life of it."""

    def __init__(
        self,
        name: str,
        loop: VirtualLoop,
        network: Network,
        streams: Streams,
        files: Callable[[int], ForgetfulFiles] = ForgetfulFiles,
        *,
        marked: Marked | None = None,
    ) -> None:
        self.name = name
        self.loop = loop
        self.network = network
        self.streams = streams
        self.files = files(streams.fork("faults", f"{name}/disk").getrandbits(32))
        self.marked = marked
        self.slow_disk = 1.0  # a factor
        self.ahead_s = 0.0  # of its wall clock
        self.lives = 0
        self.graves: list[Life] = []
        self._life: Life | None = None
        self._paused_until = 0.0
        network.join(name)

    @property
    def alive(self) -> bool:
        return self._life is not None

    @property
    def life(self) -> Life | None:
        return self._life

    def run(self, main: Main) -> asyncio.Task[Any]:
        """Start a life. The task is its first; whoever awaits it waits for ever if the machine dies first."""
        if self._life is not None:
            raise AssertionError(f"{self.name} is alive already")
        self.lives += 1
        self._life = life = Life(self.name, self.lives)
        self._paused_until = 0.0
        self.network.up(self.name)
        context = contextvars.copy_context()
        context.run(LIFE.set, life)
        self.loop.note(f"{life} begins")
        task: asyncio.Task[Any] = self.loop.create_task(
            _first(main, SimulatedRuntime(self, life)), name=f"{life} main", context=context
        )
        life.remains.append(task)  # a task that waits for what nobody else holds is garbage
        task.add_done_callback(self._ended, context=self.loop.outside)
        return task

    def do(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Something else inside the present life, as a request from nowhere."""
        context = contextvars.copy_context()
        context.run(LIFE.set, self._life)
        task: asyncio.Task[Any] = self.loop.create_task(work, context=context)
        return task

    def crash(self) -> None:
        """The power goes. What was not synced may be gone."""
        if self._life is not None:
            self._die(self._life, power=True)
            self.files = self.files.crash()

    def kill(self) -> None:
        """The process is gone, between two of its steps; what it wrote is in the page cache."""
        if self._life is not None:
            self._die(self._life, power=False)
            self.files.kill()

    def pause(self, seconds: float) -> None:
        """It stands still, and notices nothing: what should have happened meanwhile happens afterwards, in order."""
        life = self._life
        if life is None:
            return
        life.stopped = True
        self._paused_until = max(self._paused_until, self.loop.time() + seconds)
        self.loop.call_later(seconds, self._resume, life, context=self.loop.outside)

    def jump(self, seconds: float) -> None:
        """Its wall clock, forward or back."""
        self.ahead_s += seconds

    def _resume(self, life: Life) -> None:
        if not life.dead and self.loop.time() >= self._paused_until:
            self.loop.resume(life)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        life = getattr(task, "life", None)
        if life is None or life.dead:
            return
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Crashed):
            self.crash()
            return
        if error is not None:
            self.loop.call_exception_handler({"message": f"{life} ended", "exception": error})
        self.kill()

    def _die(self, life: Life, *, power: bool) -> None:
        self.loop.note(f"{life} {'loses power' if power else 'is killed'}")
        life.dead = life.stopped = True
        life.remains += life.waiting
        life.waiting.clear()
        life.remains += [task for task in asyncio.all_tasks(self.loop) if isinstance(task, Work) and task.life is life]
        self.graves.append(life)
        self._life = None
        self.network.down(self.name, power=power, remains=life.remains)


async def _first(main: Main, runtime: SimulatedRuntime) -> Any:
    return await main(runtime)
