"""Tracks the data that a peer has read: each PONG answers the oldest open PING, so the peer has read everything written
before that PING.

This module keeps numbers only; the connection writes and waits.
"""

from __future__ import annotations

import asyncio


class RoundTrips:
    __slots__ = ("_pings", "_pongs", "_waiting")

    def __init__(self) -> None:
        self._pings = 0
        self._pongs = 0
        self._waiting: list[tuple[int, asyncio.Future[bool]]] = []  # the PING that each waits for

    def pinged(self) -> None:
        self._pings += 1

    def ponged(self) -> None:
        self._pongs += 1
        for number, waiter in self._waiting:
            if number <= self._pongs and not waiter.done():
                waiter.set_result(True)

    def closed(self) -> None:
        for _, waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(False)

    async def answered(self, wait_s: float) -> bool:
        """Waits for the answer to the last PING. False: the time is over, or the connection is closed."""
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        mine = (self._pings, waiter)
        self._waiting.append(mine)
        try:
            async with asyncio.timeout(wait_s):
                return await waiter
        except TimeoutError:
            return False
        finally:
            self._waiting.remove(mine)
