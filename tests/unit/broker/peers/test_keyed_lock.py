"""One at a time for each name, whoever gives up."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.broker.peers.keyed_lock import KeyedLock


@pytest.mark.real_clock
async def test_callers_of_one_name_queue_and_other_names_do_not() -> None:
    gates, went = KeyedLock(), list[str]()
    first_may_go = asyncio.Event()

    async def go(name: str, who: str, may: asyncio.Event | None = None) -> None:
        async with gates.through(name):
            went.append(f"{who} in")
            if may is not None:
                await may.wait()
            went.append(f"{who} out")

    tasks = [asyncio.ensure_future(go("a", "1", first_may_go)), asyncio.ensure_future(go("a", "2"))]
    await asyncio.sleep(0)
    await go("b", "3")
    assert went == ["1 in", "3 in", "3 out"]
    first_may_go.set()
    await asyncio.gather(*tasks)
    assert went[3:] == ["1 out", "2 in", "2 out"]
    assert len(gates) == 0


def test_failed_or_cancelled_waiter_leaves_lock_free() -> None:
    async def body() -> None:
        gates = KeyedLock()
        fails = asyncio.ensure_future(enter(gates, fails=True))
        waits = asyncio.ensure_future(enter(gates))
        await asyncio.sleep(0)
        waits.cancel()
        with pytest.raises(KeyError):
            await fails
        await asyncio.wait([waits])
        await enter(gates)
        assert len(gates) == 0

    async def enter(gates: KeyedLock, *, fails: bool = False) -> None:
        async with gates.through("a"):
            await asyncio.sleep(0)
            if fails:
                raise KeyError

    asyncio.run(body())
