"""Requests that wait: whatever becomes of the connection, nothing of them is left behind."""

from __future__ import annotations

import inspect

from magnetar.broker.handlers.requests import start
from tests.unit.broker.world import World, settle


async def test_request_is_awaited_if_connection_ends_before_first_step(
    world: World,
) -> None:
    connection = world.client().connection

    async def work() -> bytes | None:
        return None

    asked = work()
    task = start(connection, asked, lambda code, text: b"")
    assert task is not None
    task.cancel()
    await settle()
    assert inspect.getcoroutinestate(asked) == inspect.CORO_CLOSED
