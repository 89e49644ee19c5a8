"""Turns that keep a loop to themselves are found, and waiting is not mistaken for them."""

from __future__ import annotations

import asyncio
import gc
import time

import pytest

from magnetar.testing.host import BrokerHost
from magnetar.testing.probe import LoopProbe

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


def test_garbage_of_the_process_is_left_out() -> None:
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


def test_broker_of_our_tests_has_a_probe() -> None:
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
