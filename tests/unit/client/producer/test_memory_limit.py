"""Room is handed out in the order of asking, and a sender that is cancelled takes none with it."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.client.producer.memory_limit import MemoryLimit

pytestmark = pytest.mark.real_clock


def test_bytes_and_messages_both_bound():
    budget = MemoryLimit(bytes_max=10, messages_max=3)
    assert budget.take(6)
    assert not budget.take(5)
    assert budget.take(2)
    assert budget.take(2)
    assert not budget.take(0), "no fourth message"
    budget.give(6, 1)
    assert budget.take(1)


def test_message_larger_than_everything_is_let_in_alone():
    budget = MemoryLimit(bytes_max=10)
    assert budget.take(50)
    assert not budget.take(1)
    budget.give(50, 1)
    assert budget.take(1)
    assert not budget.take(50)


async def test_room_goes_to_whoever_waited_first() -> None:
    budget = MemoryLimit(bytes_max=10)
    assert budget.take(10)
    order: list[int] = []

    async def sender(number: int, size: int) -> None:
        await budget.wait(size)
        order.append(number)

    tasks = [asyncio.create_task(sender(number, size)) for number, size in enumerate([8, 1, 1])]
    await asyncio.sleep(0)
    assert not budget.take(0), "nobody overtakes the line"
    budget.give(5, 0)
    await asyncio.sleep(0)
    assert order == [], "the first one needs more, and the others wait behind it"
    budget.give(5, 1)
    await asyncio.gather(*tasks)
    assert order == [0, 1, 2]
    assert (budget.bytes, budget.messages) == (10, 3)


@pytest.mark.parametrize("granted", [False, True])
async def test_cancelled_sender_takes_no_room(granted) -> None:
    budget = MemoryLimit(bytes_max=10)
    assert budget.take(10)
    first = asyncio.create_task(budget.wait(10))
    second = asyncio.create_task(budget.wait(3))
    await asyncio.sleep(0)
    if granted:
        budget.give(10, 1)  # granted, and cancelled before it could go on
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    if not granted:
        budget.give(10, 1)
    await second
    assert (budget.bytes, budget.messages) == (3, 1)
