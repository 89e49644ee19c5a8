"""A request that a broker answers repeatedly until it is closed: sent on a connection, one at a time.

The caller waits for the first answer and receives the later ones in a callback. An error before the first answer is
raised to the caller; a later one goes to `lost`. The stream does not reopen itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from magnetar.base.errors import MagnetarError, TimedOut
from magnetar.client.connection.connection import Connection
from magnetar.client.connection.pool import Pool
from magnetar.wire.frames import encode_command
from magnetar.wire.proto import pb

First = asyncio.Future[None]


class ServerStream:
    """`kind` is the command of its answers; `close(id)` returns the command that ends it."""

    def __init__(
        self,
        pool: Pool,
        kind: pb.BaseCommand.Type,
        *,
        close: Callable[[int], pb.BaseCommand],
        lost: Callable[[MagnetarError], None],
    ) -> None:
        self._pool = pool
        self._kind = kind
        self._close = close
        self._lost = lost
        self._id = -1

    @property
    def is_open(self) -> bool:
        return self._id >= 0

    def ask(
        self, connection: Connection, asks: Callable[[int], pb.BaseCommand], receive: Callable[[First, Any], None]
    ) -> First:
        """Send the request; answers to the previous one are ignored. `receive` completes the future at its first
        answer."""
        self.leave(connection)
        first: First = asyncio.get_running_loop().create_future()
        self._id = self._pool.next_id()
        connection.listeners.add(self._kind, self._id, partial(receive, first), partial(self.failed, first))
        connection.write(encode_command(asks(self._id)))
        return first

    async def answered(self, connection: Connection, first: First, timeout_s: float, late: TimedOut) -> None:
        """Wait for the first answer; raises `late` if none arrives in time. A wait that fails closes the stream."""
        try:
            async with asyncio.timeout(timeout_s):
                await first
        except TimeoutError:
            self.leave(connection)
            raise late from None
        except asyncio.CancelledError:
            self.leave(connection)
            raise

    def leave(self, connection: Connection) -> None:
        if self._id >= 0:
            id = self._id
            self.over(connection)
            connection.write(encode_command(self._close(id)))

    def over(self, connection: Connection) -> None:
        """The broker ended the stream."""
        connection.listeners.remove(self._kind, self._id)
        self._id = -1

    def failed(self, first: First, error: MagnetarError) -> None:
        self._id = -1
        if first.done():
            self._lost(error)
        else:
            first.set_exception(error)
