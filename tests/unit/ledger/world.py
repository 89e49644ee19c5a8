"""What the tests of this room share: stores in memory, a managed ledger on them, runs that are easy to read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

from magnetar.base.errors import MagnetarError
from magnetar.base.ids import BEFORE_ALL, Position
from magnetar.ledger.managed import ManagedConfig, ManagedLedger
from magnetar.ledger.run import Run, run_of
from magnetar.ledger.tail import TailCache
from simulation.environment.inline_runtime import InlineRuntime
from simulation.environment.power import PoweredStore, PowerSwitch
from simulation.stores.ledgers import MemoryLedgers
from simulation.stores.metadata import MemoryStore

PATH = "/managed-ledgers/public/default/persistent/orders"


class NoFiles:
    """These tests touch no disk."""


class LaterRuntime(InlineRuntime):
    """Its clock can be put forward."""

    later_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.later_s


def a_runtime() -> LaterRuntime:
    files: Any = NoFiles()
    return LaterRuntime(files)


def a_config(*, cache_bytes: int = 1 << 20, **changed: Any) -> ManagedConfig:
    made = ManagedConfig(publish_time_of=lambda entry: int(entry.split(b":")[0]), tail=TailCache(cache_bytes))
    return replace(made, **{"age_min_s": 0.0, **changed})


@dataclass
class World:
    """A broker's stores; `crash` gives the next process on what they hold."""

    ledgers: MemoryLedgers = field(default_factory=MemoryLedgers)
    metadata: MemoryStore = field(default_factory=MemoryStore)
    config: ManagedConfig = field(default_factory=a_config)
    power: PowerSwitch | None = None
    runtime: LaterRuntime = field(default_factory=a_runtime)

    async def open(self, path: str = PATH, *, create: bool = True) -> ManagedLedger:
        store: Any = self.metadata if self.power is None else PoweredStore(self.metadata, self.power)
        return await ManagedLedger.open(
            path,
            ledgers=self.ledgers,
            metadata=store,
            runtime=self.runtime,
            config=self.config,
            create=create,
        )

    def crash(self, *, landed: int = 0) -> World:
        return World(self.ledgers.crash(landed=landed), self.metadata.reopen(), a_config())

    def rival(self) -> World:
        return World(self.ledgers.peer(), self.metadata.peer(), a_config())

    def switch(self, power: PowerSwitch) -> None:
        self.power = self.ledgers.power = power


class Answers:
    """Remembers what `done` was told, in order."""

    def __init__(self) -> None:
        self.all: list[tuple[bytes, Position | MagnetarError]] = []

    def __call__(self, run: Run, error: MagnetarError | None) -> None:
        self.all.append((bytes(run.body), error if error is not None else run.position(0)))

    @property
    def confirmed(self) -> list[bytes]:
        return [body for body, answer in self.all if isinstance(answer, Position)]

    @property
    def failed(self) -> list[MagnetarError]:
        return [answer for _, answer in self.all if isinstance(answer, MagnetarError)]


def a_run(*entries: bytes | str) -> Run:
    return run_of([entry.encode() if isinstance(entry, str) else entry for entry in entries])


async def publish(managed: ManagedLedger, *entries: bytes | str) -> list[Position]:
    """Each entry as a run of its own; waits for all, and raises the first error."""
    loop = asyncio.get_running_loop()
    waiting: list[asyncio.Future[Position]] = []
    for entry in entries:
        future: asyncio.Future[Position] = loop.create_future()
        waiting.append(future)

        def done(run: Run, error: MagnetarError | None, future: asyncio.Future[Position] = future) -> None:
            if future.cancelled():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(run.position(0))

        managed.append(a_run(entry), done)
    return [await future for future in waiting]


async def contents(managed: ManagedLedger, start: Position = BEFORE_ALL) -> list[bytes]:
    found: list[bytes] = []
    while (run := await managed.read(start, 1 << 20, 100)) is not None:
        found += [bytes(run.entry(index)) for index in range(len(run))]
        start = managed.after(run.position(len(run) - 1))
    return found


async def settle(turns: int = 50) -> None:
    """Let everything that is ready run."""
    for _ in range(turns):
        await asyncio.sleep(0)


async def until_dark(power: PowerSwitch, story: Coroutine[Any, Any, None]) -> bool:
    """Run the story until it ends or the power goes out; True if it ended."""
    task = asyncio.get_running_loop().create_task(story)
    dark = asyncio.get_running_loop().create_task(power.out.wait())
    await asyncio.wait([task, dark], return_when=asyncio.FIRST_COMPLETED)
    ended = task.done() and not power.out.is_set()
    for one in (task, dark):
        one.cancel()
    await asyncio.wait([task, dark])
    if ended:
        task.result()
    return ended


def at_every_step(
    story: Callable[[World], Coroutine[Any, Any, None]], check: Callable[[World], Coroutine[Any, Any, None]]
) -> int:
    """Run the story with the power cut at each pass in turn, then the check on what a new process finds. Returns how
    many cuts there were."""

    async def once(cut_at: int | None) -> tuple[bool, int]:
        world = World()
        power = PowerSwitch(cut_at)
        world.switch(power)
        ended = await until_dark(power, story(world))
        await check(world.crash())
        return ended, power.passes

    ended, passes = asyncio.run(once(None))
    assert ended
    assert passes > 0
    for cut_at in range(passes):
        ended, _ = asyncio.run(once(cut_at))
        assert not ended
    return passes
