"""Calls of other brokers that wait: answered when the broker stops."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import NotReady
from magnetar.broker.peers.waits import PeerWaits
from tests.support.broker_cluster import spawn
from tests.support.virtual_clock import settle


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


async def test_stop_answers_all_calls_that_wait() -> None:
    waits = PeerWaits()
    calls = [spawn(waits.answer(forever)) for _ in range(20)]
    await settle()
    assert len(waits) == 20
    waits.stop()
    for call in calls:
        with pytest.raises(NotReady, match="stops"):
            await call
    assert len(waits) == 0
    with pytest.raises(NotReady):
        await waits.answer(forever)


async def test_results_and_errors_are_passed_on() -> None:
    async def one() -> int:
        return 1

    async def late() -> None:
        raise TimeoutError

    waits = PeerWaits()
    assert await waits.answer(one) == 1
    with pytest.raises(TimeoutError):
        await waits.answer(late)
    assert len(waits) == 0
