"""Sends acknowledgements: a group leaves when it is full or old enough, or immediately if a caller waits for it.

This is the actor around `acks`: it owns the timer and the present connection. Without a connection the acknowledgements
wait for the next attach. With `confirm` it awaits the broker's reply. If that fails, the outcome is unknown, and the
acknowledgements are sent again with the next group, which has no effect on those that had arrived.
"""

from __future__ import annotations

import asyncio

from magnetar.client.connection.connection import Connection
from magnetar.client.consumer.ack.acks import AckTracker
from magnetar.wire.client_commands import CUMULATIVE, INDIVIDUAL, Acked, ack
from magnetar.wire.proto import pb


class AckSender:
    def __init__(self, acks: AckTracker, consumer_id: int, *, group_s: float, group_max: int) -> None:
        self.acks = acks
        self.sent = 0  # number of ids
        self._id = consumer_id
        self._group_s = group_s
        self._group_max = group_max
        self._connection: Connection | None = None
        self._timer: asyncio.TimerHandle | None = None

    def attach(self, connection: Connection) -> None:
        self._connection = connection
        self.flush()

    def detach(self) -> None:
        self._connection = None
        self._stop_timer()

    def added(self) -> None:
        """A message was acknowledged: send the group if it is full, else start the timer."""
        if self._connection is None:
            return
        waiting = len(self.acks)
        if not waiting:
            return
        if waiting >= self._group_max or self._group_s == 0:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._group_s, self._ring)

    def flush(self) -> None:
        self._stop_timer()
        connection = self._connection
        if connection is None or not len(self.acks):
            return
        cumulative, groups = self.acks.take(self._group_max)
        if cumulative is not None:
            connection.write(ack(self._id, CUMULATIVE, [cumulative]))
            self.sent += 1
        for ids in groups:
            connection.write(ack(self._id, INDIVIDUAL, ids))
            self.sent += len(ids)

    async def confirm(self, connection: Connection, timeout_s: float) -> None:
        """Send all waiting acknowledgements and await the broker's reply."""
        self._stop_timer()
        cumulative, groups = self.acks.take(self._group_max)
        try:
            if cumulative is not None:
                await self._ask(connection, CUMULATIVE, [cumulative], timeout_s)
                cumulative = None
            while groups:
                await self._ask(connection, INDIVIDUAL, groups[-1], timeout_s)
                groups.pop()
        finally:
            self.acks.restore(cumulative, groups)  # not confirmed: sent again later
            self.added()

    def discard(self, position: tuple[int, int], validation_error: int) -> None:
        """Acknowledge an entry that cannot be decoded, with the reason, so that the broker does not redeliver it."""
        if self._connection is not None:
            ids: list[Acked] = [(position[0], position[1], [])]
            self._connection.write(ack(self._id, INDIVIDUAL, ids, validation_error=validation_error))

    async def _ask(self, connection: Connection, kind: int, ids: list[Acked], timeout_s: float) -> None:
        command = pb.BaseCommand(type=pb.BaseCommand.ACK)
        command.ack.consumer_id = self._id
        command.ack.ack_type = pb.CommandAck.Cumulative if kind == CUMULATIVE else pb.CommandAck.Individual
        command.ack.request_id = connection.next_request_id()
        for ledger, entry, words in ids:
            command.ack.message_id.add(ledgerId=ledger, entryId=entry, ack_set=words)
        await connection.request(command, command.ack.request_id, timeout_s=timeout_s)
        self.sent += len(ids)

    def _ring(self) -> None:
        self._timer = None
        self.flush()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
