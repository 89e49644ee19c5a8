"""Reads the stored entries of one topic or segment from one position to another, for engines that plan their batches.

It is an exclusive, non-durable consumer that decodes nothing: it returns runs of bytes in order, each entry once, also
across lost connections. A missing topic is an error and is never created. It does not read past the given end; without
one it ends at the entry that was last when it was opened. It trusts the broker for the order of entries.
"""

from __future__ import annotations

import asyncio

from magnetar.base.errors import Closed, ConsumerNotFound, Corrupt, MagnetarError, NotReady, TimedOut
from magnetar.base.limits import RANGE_BYTES_MAX, RANGE_SILENT_S, RANGE_WINDOW_FIRST, RANGE_WINDOW_MAX
from magnetar.client.connection.backoff import passing, persist
from magnetar.client.connection.connection import Connection
from magnetar.client.connection.lookup import Lookup
from magnetar.client.connection.reconnect import Reconnector
from magnetar.client.consumer.config import ConsumerConfig, subscribe_command
from magnetar.client.message import MessageId
from magnetar.observe.log import get
from magnetar.wire import entry as entries
from magnetar.wire.client_commands import flow
from magnetar.wire.client_readers import MessageParts
from magnetar.wire.frames import encode_command
from magnetar.wire.ids import from_data
from magnetar.wire.proto import pb

log = get("client.range_reader")

Place = tuple[int, int]  # ledger, entry
Entry = tuple[int, int, bytes]

EARLIEST: Place = (-1, -1)
LATEST: Place = (MessageId.LATEST.ledger, MessageId.LATEST.entry)


class EntryReader:
    """Satisfies the `ConsumerListener` contract. It requests no messages before the first `take`. Then it requests
    `window` messages, and more if they are small; with `peek` it requests one at a time.
    """

    def __init__(self, lookup: Lookup, topic: str, start: Place = EARLIEST, *, peek: bool = False) -> None:
        self.topic = topic
        self.id = lookup.pool.next_id()
        self.next = start  # the first entry for a new connection
        self._lookup = lookup
        self._runtime = lookup.pool.runtime
        name = f"range-{self._runtime.rng('client.ranges').getrandbits(48):012x}"
        self._asked = ConsumerConfig(name, name=name, durable=False)
        self._connection: Connection | None = None
        self._attached = Reconnector(lookup, topic, self._open, ended=self._end, fatal=_fatal)
        self._asking = False
        self._peek = peek
        self._window = 1 if peek else RANGE_WINDOW_FIRST
        self._permits = 0  # messages that the broker may still send
        self._queue: list[Entry] = []
        self._queued_bytes = 0
        self._seen = [0, 0]  # messages, bytes
        self._error: MagnetarError | None = None
        self._over = False
        self._waiter: asyncio.Future[None] | None = None

    async def open(self) -> None:
        await self._attached.start(self._lookup.timeout_s)

    async def last(self) -> Place | None:
        """The last entry of the topic now; None if the topic is empty."""
        response = await persist(self._runtime, self._lookup.timeout_s, self._ask_last, what="last message id")
        position = from_data(response.last_message_id)
        return None if position.entry < 0 else (position.ledger, position.entry)

    async def take(self, timeout_s: float = RANGE_SILENT_S) -> list[Entry]:
        """The entries that have arrived, at least one; `TimedOut` if none arrives in time."""
        self._asking = True
        self._refill()
        if not self._queue:
            if self._error is not None:
                raise self._error
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                async with asyncio.timeout(timeout_s):
                    await self._waiter
            except TimeoutError:
                raise TimedOut(
                    "no entry arrived in time: check that the broker is running", topic=self.topic, silent_s=timeout_s
                ) from None
            finally:
                self._waiter = None
        taken, self._queue = self._queue, []
        self._queued_bytes = 0
        self._refill()
        return taken

    async def close(self) -> None:
        if self._over:
            return
        self._over = True
        connection, self._connection = self._connection, None
        await self._attached.close()
        if connection is not None and not connection.closed:
            connection.detach_consumer(self.id)
            connection.write(encode_command(self._close_command(connection)))
        self._wake(Closed("the reader is closed", topic=self.topic))

    # Callbacks of the connection

    def message(self, parts: MessageParts, entry: bytes) -> None:
        place = (parts[1], parts[2])
        try:
            messages = entries.counts(entry)
        except Corrupt:
            messages = 1  # the reader of the entry will find the error
        self._permits -= messages
        if place < self.next:  # repeated over a new connection
            self._refill()
            return
        self.next = (place[0], place[1] + 1)
        self._queue.append((*place, entry))
        self._queued_bytes += len(entry)
        self._seen[0] += messages
        self._seen[1] += len(entry)
        self._refill()
        self._wake(None)

    def active(self, is_active: bool) -> None:
        """Ignored: it is the only consumer."""

    def reached_end(self) -> None:
        """Ignored: the range has its own end."""

    def closed_by_broker(self, url: str) -> None:
        self._connection = None
        self._attached.moved(url)

    def connection_lost(self, error: MagnetarError) -> None:
        self._connection = None
        self._attached.lost(error)

    # Internal

    async def _open(self, connection: Connection, attempt: int) -> None:
        request_id = connection.next_request_id()
        command = subscribe_command(
            self._asked,
            self.topic,
            self.id,
            request_id,
            schema=None,
            start=MessageId(*self.next),
            epoch=attempt,
            creates=False,
        )
        connection.attach_consumer(self.id, self)
        try:
            await connection.request(command, request_id, timeout_s=self._lookup.timeout_s)
        except BaseException:
            connection.detach_consumer(self.id)
            connection.write(encode_command(self._close_command(connection)))
            raise
        if self._attached.connection is connection and not self._over:
            self._connection = connection
            self._permits = 0
            self._refill()

    async def _ask_last(self) -> pb.CommandGetLastMessageIdResponse:
        connection = self._connection
        if connection is None:
            raise self._error or NotReady("the reader is not attached to a broker", topic=self.topic)
        command = pb.BaseCommand(type=pb.BaseCommand.GET_LAST_MESSAGE_ID)
        command.getLastMessageId.consumer_id = self.id
        command.getLastMessageId.request_id = connection.next_request_id()
        try:
            reply = await connection.request(
                command, command.getLastMessageId.request_id, timeout_s=self._lookup.timeout_s
            )
        except ConsumerNotFound as error:  # the consumer was disconnected at that moment and reconnects
            raise NotReady(str(error)) from error
        return reply.getLastMessageIdResponse

    def _refill(self) -> None:
        """Request more once half of the window is used and the waiting entries are within the bound."""
        connection = self._connection
        if connection is None or not self._asking or self._queued_bytes >= RANGE_BYTES_MAX:
            return
        if self._seen[0] and not self._peek:
            fits = RANGE_BYTES_MAX * self._seen[0] // max(1, self._seen[1])
            self._window = max(1, min(self._window * 2, fits, RANGE_WINDOW_MAX))
        if self._permits <= self._window // 2:
            connection.write(flow(self.id, self._window - self._permits))
            self._permits = self._window

    def _close_command(self, connection: Connection) -> pb.BaseCommand:
        command = pb.BaseCommand(type=pb.BaseCommand.CLOSE_CONSUMER)
        command.close_consumer.consumer_id = self.id
        command.close_consumer.request_id = connection.next_request_id()
        return command

    def _end(self, error: MagnetarError) -> None:
        self._error = error
        self._wake(error)

    def _wake(self, error: MagnetarError | None) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)


class RangeReader:
    """All entries from `start` up to but not including `end`; without an end, up to the last one now. `take` returns
    the next run, and an empty one at the end.
    """

    def __init__(self, lookup: Lookup, topic: str, start: Place, end: Place | None = None) -> None:
        self._reader = EntryReader(lookup, topic, start)
        self._start = start
        self._end = end
        self._last: Place = EARLIEST
        self._done = False

    async def open(self) -> None:
        await self._reader.open()
        last = await self._reader.last()
        self._done = last is None or last < self._start or (self._end is not None and self._start >= self._end)
        self._last = last or EARLIEST

    async def take(self, timeout_s: float = RANGE_SILENT_S) -> list[Entry]:
        if self._done:
            return []
        run = await self._reader.take(timeout_s)
        self._done = self._is_last(run[-1][:2])
        if self._end is not None and run[-1][:2] >= self._end:
            run = [one for one in run if one[:2] < self._end]
        return run

    async def close(self) -> None:
        await self._reader.close()

    def _is_last(self, place: Place) -> bool:
        if place >= self._last:
            return True
        return self._end is not None and (place[0], place[1] + 1) >= self._end


def _fatal(error: MagnetarError, first: bool) -> bool:
    return not passing(error)
