"""Turns that keep a loop to themselves are found, and waiting is not mistaken for them."""

from __future__ import annotations

import asyncio
import gc
import time
from pathlib import Path

import pytest

from magnetar.testing.host import BrokerHost
from magnetar.testing.probe import LoopProbe
from tests.servers.probed import SAVE_S, Watch, Windows
from tests.support import long_turns

pytestmark = pytest.mark.real_clock


def work(seconds: float) -> None:
    """Uses the processor so long."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


async def test_turn_that_works_for_long_is_reported_once() -> None:
    found: list[float] = []
    probe = LoopProbe(found.append, limit_s=0.1)
    probe.start()
    await asyncio.sleep(0)
    work(0.25)
    await asyncio.sleep(0.03)
    probe.stop()
    assert len(found) == 1
    assert 0.2 < found[0] < 0.4
    assert probe.longest_s == found[0]


async def test_many_short_turns_are_not_one_long_turn() -> None:
    found: list[float] = []
    probe = LoopProbe(found.append, limit_s=0.1)
    probe.start()
    for _ in range(60):
        work(0.005)
        await asyncio.sleep(0)
    probe.stop()
    assert found == []
    assert probe.longest_s > 0


async def test_loop_that_waits_is_not_reported() -> None:
    found: list[float] = []
    probe = LoopProbe(found.append, limit_s=0.1)
    probe.start()
    await asyncio.sleep(0)
    time.sleep(0.2)  # noqa: ASYNC251
    await asyncio.sleep(0.03)
    probe.stop()
    assert found == []


def test_garbage_of_process_is_left_out() -> None:
    def collected(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            work(0.2)

    async def measured(*, garbage: bool) -> list[float]:
        found: list[float] = []
        probe = LoopProbe(found.append, limit_s=0.1, garbage=garbage)
        probe.start()
        gc.callbacks.append(collected)
        try:
            await asyncio.sleep(0)
            gc.collect()
        finally:
            gc.callbacks.remove(collected)
        await asyncio.sleep(0.03)
        probe.stop()
        return found

    assert asyncio.run(measured(garbage=False)) == []
    assert len(asyncio.run(measured(garbage=True))) == 1


def test_interval_of_probe_is_not_part_of_turn() -> None:
    async def observed() -> list[float]:
        windows: list[float] = []
        probe = LoopProbe(windows.append, interval_s=0.05, observe=windows.append)
        probe.start()
        await asyncio.sleep(0)
        work(0.08)
        await asyncio.sleep(0.01)
        probe.stop()
        assert probe.longest_s < 0.06
        return windows

    [used] = asyncio.run(observed())
    assert 0.07 < used < 0.12


def test_long_turn_of_broker_process_is_written_with_place(tmp_path: Path) -> None:
    async def stall() -> None:
        watch = Watch(tmp_path / "turns")
        watch.start()
        await asyncio.sleep(0.05)
        work(0.3)
        await asyncio.sleep(SAVE_S)
        work(0.001)
        await asyncio.sleep(0.01)
        watch.stop()

    long_turns.watch(tmp_path / "turns")
    asyncio.run(stall())
    [line] = long_turns.take()
    assert 0.2 < float(line.split(" s ")[0]) < 0.4
    assert "test_probe.py" in line
    assert " work" in line
    assert long_turns.take() == []
    assert 0.2 < Windows.read(tmp_path / "turns").percentile_s(1.0) < 0.4


def test_broker_of_our_tests_has_probe() -> None:
    from magnetar.testing import broker

    reported = BrokerHost.on_long_turn
    found: list[float] = []
    BrokerHost.on_long_turn = found.append
    try:
        with broker(fast=True) as running:

            async def stall() -> None:
                work(0.3)

            running._host.run(stall).result(20)
            running._host.run(lambda: asyncio.sleep(0.03)).result(20)
    finally:
        BrokerHost.on_long_turn = reported
    assert len(found) == 1
