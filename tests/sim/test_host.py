"""Simulated machines: what dies with them and what stays, their clocks and lanes; at the end the real broker and the
real client on two of them.
"""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from magnetar.base.errors import Closed, Conflict
from magnetar.runtime.runtime import Owner
from simulation.environment.disk import SimulatedFiles
from simulation.environment.host import Host
from simulation.environment.incarnation import INCARNATION
from simulation.environment.loop import pass_time
from simulation.environment.runtime import SimulatedRuntime
from tests.sim.exchange import Exchange
from tests.sim.small_worlds import MANY, Lab, forever

ROOT = Path(__file__).parents[2]


# Life and death


@pytest.mark.parametrize("way", [Host.crash, Host.kill])
def test_dead_machine_runs_nothing_and_rest_of_world_continues(
    way: Callable[[Host], None],
) -> None:
    lab = Lab()

    async def ticks(what: str) -> None:
        while True:
            await pass_time(1)
            lab.seen.append((what, lab.loop.time()))

    async def main(runtime: SimulatedRuntime) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(ticks("task"))
            lab.loop.call_later(1.2, lambda: lab.loop.call_later(1, lab.seen.append, "timer"))
            lab.loop.call_at(2, lambda: lab.loop.call_soon(lab.seen.append, "ready when it died"))
            await told  # by the world, after its death

    async def body() -> None:
        lab.host.run(main)
        lab.loop.call_at(2, way, lab.host)
        await pass_time(5)
        told.set_result(None)
        await pass_time(5)
        assert not lab.host.alive

    told: asyncio.Future[None] = lab.loop.create_future()
    lab.play(body)
    assert lab.seen == [("task", 1)]
    assert lab.loop.errors == []


def test_no_finally_of_dead_runs_in_middle_of_world() -> None:
    lab = Lab()

    async def waits() -> None:
        try:
            await forever()
        finally:
            lab.seen.append("finally")

    async def main(runtime: SimulatedRuntime) -> None:
        lab.loop.create_task(waits())
        await waits()

    async def body() -> None:
        lab.host.run(main)
        await pass_time(1)
        lab.host.crash()
        gc.collect()
        await pass_time(1)
        assert lab.seen == []

    lab.play(body)
    gc.collect()
    assert lab.seen == ["finally"] * 2  # at the burial
    assert lab.loop.errors == []


def test_error_of_dead_machine_without_retriever_is_ignored() -> None:
    lab = Lab()
    tasks: list[asyncio.Task[None]] = []

    async def fails() -> None:
        raise ValueError("of the dead")

    async def main(runtime: SimulatedRuntime) -> None:
        tasks.append(lab.loop.create_task(fails()))
        await forever()

    async def body() -> None:
        lab.host.run(main)
        await pass_time(1)
        lab.host.crash()
        tasks.clear()
        gc.collect()

    lab.play(body)
    assert lab.loop.errors == []


def test_everything_made_inside_life_belongs_to_it() -> None:
    lab = Lab()

    async def main(runtime: SimulatedRuntime) -> None:
        owner = Owner("test")

        async def noted() -> None:
            lab.seen.append(INCARNATION.get())

        lab.loop.call_soon(lambda: lab.seen.append(INCARNATION.get()))
        lab.loop.call_later(1, lambda: lab.seen.append(INCARNATION.get()))
        await runtime.spawn(owner, noted())
        await runtime.offload(lambda: lab.seen.append(INCARNATION.get()), "lane")
        await pass_time(2)
        await owner.close()
        late = noted()
        with pytest.raises(Closed):
            runtime.spawn(owner, late)

    async def body() -> None:
        task = lab.host.run(main)
        incarnation = lab.host.incarnation
        await task
        assert lab.seen == [incarnation] * 4
        assert INCARNATION.get() is None

    lab.play(body)


def test_incarnation_ends_with_first_task_and_its_error_is_recorded() -> None:
    lab = Lab()

    async def fails(runtime: SimulatedRuntime) -> None:
        raise ValueError("of main")

    async def body() -> None:
        lab.host.run(lambda _: pass_time(1))
        await pass_time(2)
        assert (lab.host.alive, lab.loop.errors) == (False, [])
        lab.host.run(fails)
        await pass_time(1)
        assert not lab.host.alive

    lab.play(body)
    assert [type(failure.exception) for failure in lab.loop.errors] == [ValueError]
    assert lab.host.starts == 2


# The disk


async def writes_and_syncs(runtime: SimulatedRuntime) -> None:
    def work() -> None:
        runtime.files.mkdir("/d")
        runtime.files.lock("/d/lock", "life")
        file = runtime.files.open("/d/f", create=True)
        runtime.files.sync_dir("/d")
        file.pwritev([b"synced"], 0)
        file.datasync()
        file.pwritev([bytes(8_192)], 512)

    await runtime.offload(work, "disk")
    await forever()


def left_after(way: Callable[[Host], None], seed: int) -> bytes:
    lab = Lab(seed)

    async def body() -> bytes:
        lab.host.run(writes_and_syncs)
        await pass_time(1)
        with pytest.raises(Conflict):
            lab.host.files.lock("/d/lock", "another")
        way(lab.host)
        lab.host.run(lambda _: forever())
        lab.host.files.lock("/d/lock", "the next life")
        return lab.host.files.content("/d/f")

    return lab.play(body)  # type: ignore[no-any-return]


def test_power_cut_loses_unsynced_data_and_kill_loses_nothing() -> None:
    crashed = {left_after(Host.crash, seed) for seed in MANY}
    assert len(crashed) > 1
    assert {content[:6] for content in crashed} == {b"synced"}
    assert {len(left_after(Host.kill, seed)) for seed in MANY} == {512 + 8_192}


def test_crash_in_disk_call_ends_machine_silently() -> None:
    lab = Lab(files=lambda seed: SimulatedFiles(seed, crash_at=2))

    async def main(runtime: SimulatedRuntime) -> None:
        try:
            await writes_and_syncs(runtime)
        finally:
            lab.seen.append("heard")

    async def body() -> None:
        lab.host.run(main)
        await pass_time(1)
        assert not lab.host.alive
        assert lab.seen == []
        lab.host.run(writes_and_syncs)  # the fault is not inherited
        await pass_time(1)
        assert lab.host.alive

    lab.play(body)


# The real broker and the real client


@pytest.mark.parametrize("hostile", [False, True])
def test_message_goes_from_real_client_to_real_broker_and_back(hostile: bool) -> None:
    exchange = Exchange(0, hostile=hostile)
    exchange.play()
    assert exchange.received == [b"message 1"]
    assert [str(failure) for failure in exchange.loop.errors] == []


def exchanged(seed: int, hash_seed: int) -> str:
    return subprocess.run(
        [sys.executable, "-m", "tests.sim.exchange", str(seed)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(ROOT)},
    ).stdout


@pytest.mark.slow
def test_exchange_is_equal_across_processes_and_differs_by_seed() -> None:
    first = exchanged(1, 0)
    assert first.startswith("[b'message 1', b'message 2'")
    assert exchanged(1, 1) == exchanged(1, 4_242) == first
    assert exchanged(2, 0) != first
