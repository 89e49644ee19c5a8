"""One connection to a broker: it writes frames in order, and routes replies to their requests and pushes to the
producer or consumer that they address.

One read of the socket handles all complete frames in it in one pass; receipts and messages are parsed directly from the
bytes for their listener. The connection never reconnects: when it ends, every pending request fails with
`ConnectionLost` (the operation may have happened) and every listener is notified once. All writes of one turn of the
event loop leave as one write. It trusts no broker data before `wire` has parsed it; an invalid frame ends it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from magnetar.base.errors import Busy, ConnectionLost, MagnetarError, NotReady, TimedOut
from magnetar.base.limits import (
    CLIENT_FRAME_BYTES_MAX,
    CLIENT_REQUESTS_MAX,
    CLIENT_WRITE_BYTES_HIGH,
    CLIENT_WRITE_JOIN_BYTES,
    KEEPALIVE_S,
    MESSAGE_BYTES_MAX,
)
from magnetar.client.connection.error_codes import error_of
from magnetar.client.connection.listeners import ConnectionListeners, ConsumerListener, ProducerListener
from magnetar.client.connection.read_buffer import ReadBufferSizer
from magnetar.client.connection.replies import answers, connect_command, refusal, reply_id, unfinished
from magnetar.observe.log import get
from magnetar.wire import commands, frames
from magnetar.wire.client_readers import MESSAGE, SEND_RECEIPT, read_message, read_receipt
from magnetar.wire.proto import pb

__all__ = ["Connection", "ConsumerListener", "ProducerListener"]

log = get("client.connection")

_K = pb.BaseCommand


class _Request:
    __slots__ = ("future", "kind", "timer")

    def __init__(self, kind: int, future: asyncio.Future[pb.BaseCommand], timer: asyncio.TimerHandle) -> None:
        self.kind = kind
        self.future = future
        self.timer: asyncio.TimerHandle | None = timer


class Connection(asyncio.Protocol):
    """Created by a `Pool`, which awaits `connected` before it returns it. All code runs on the event loop."""

    def __init__(self, url: str, *, proxied: str = "", ended: Callable[[Connection], None] | None = None) -> None:
        self.url = url
        self.proxied = proxied  # "host:port" of a broker behind a proxy, else ""
        self.max_message_size = MESSAGE_BYTES_MAX
        self.protocol_version = 0
        self.server_version = ""
        self.features = pb.FeatureFlags()
        self.congested = False
        self.closed = False
        self.why: MagnetarError | None = None  # the error that ended it
        self._ended = ended
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._connected: asyncio.Future[None] = self._loop.create_future()
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self._request_ids = 0
        self._requests: dict[int, _Request] = {}
        self._producers: dict[int, ProducerListener] = {}
        self._consumers: dict[int, ConsumerListener] = {}
        self.listeners = ConnectionListeners()
        self._writers: list[asyncio.Future[None]] = []
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._parts: list[bytes] = []
        self._have = 0
        self._room = ReadBufferSizer()
        self._need = 0
        self._heard = True
        self._keepalive: asyncio.TimerHandle | None = None

    # Requests

    def next_request_id(self) -> int:
        self._request_ids += 1
        return self._request_ids

    async def request(self, command: pb.BaseCommand, request_id: int, *, timeout_s: float) -> pb.BaseCommand:
        """Send a request and return the final reply. A reply with an error raises it; after `TimedOut` and
        `ConnectionLost` the outcome is unknown. A producer that waits for exclusive access waits without limit.
        """
        if self.closed:
            raise NotReady("the connection is closed: the request was not sent", url=self.url)
        if len(self._requests) >= CLIENT_REQUESTS_MAX:
            raise Busy(
                "too many requests are pending on this connection: try again later", requests=len(self._requests)
            )
        future: asyncio.Future[pb.BaseCommand] = self._loop.create_future()
        timer = self._loop.call_later(timeout_s, self._overdue, request_id, timeout_s)
        self._requests[request_id] = _Request(command.type, future, timer)
        self.write(frames.encode_command(command))
        try:
            return await future
        finally:
            request = self._requests.pop(request_id, None)
            if request is not None and request.timer is not None:
                request.timer.cancel()

    def write(self, data: bytes) -> None:
        """Send a frame after all earlier ones. If the connection is closed, the frame is dropped without an error."""
        if self.closed:
            return
        if not self._out:
            self._loop.call_soon(self.flush)
        self._out.append(data)
        self._out_bytes += len(data)
        if self._out_bytes >= CLIENT_WRITE_JOIN_BYTES:
            self.flush()

    async def writable(self) -> None:
        """Wait until the socket accepts bytes again. Raises if the connection ends during the wait."""
        while self.congested:
            future: asyncio.Future[None] = self._loop.create_future()
            self._writers.append(future)
            await future
        if self.closed:
            raise self.why or ConnectionLost("the connection is closed", url=self.url)

    # Listeners

    def attach_producer(self, producer_id: int, sink: ProducerListener) -> None:
        self._producers[producer_id] = sink

    def attach_consumer(self, consumer_id: int, sink: ConsumerListener) -> None:
        self._consumers[consumer_id] = sink

    def detach_producer(self, producer_id: int) -> None:
        self._producers.pop(producer_id, None)

    def detach_consumer(self, consumer_id: int) -> None:
        self._consumers.pop(consumer_id, None)

    @property
    def idle(self) -> bool:
        return not (self._producers or self._consumers or self.listeners or self._requests)

    # Lifecycle

    async def connected(self) -> None:
        """Wait for CONNECTED; raises the broker's error, or the error that ended the connection."""
        await asyncio.shield(self._connected)

    async def wait_closed(self) -> None:
        await asyncio.shield(self._gone)

    def close(self) -> None:
        """Send all pending frames, then close."""
        self.flush()
        if self._transport is not None and not self.closed:
            self._transport.close()

    def abort(self, why: MagnetarError) -> None:
        if self.why is None:
            self.why = why
        if self._transport is not None:
            self._transport.abort()

    # Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=CLIENT_WRITE_BYTES_HIGH)
        self._room = ReadBufferSizer(transport)
        self._transport.write(frames.encode_command(connect_command(self.proxied)))
        self._keepalive = self._loop.call_later(KEEPALIVE_S, self._tick)

    def data_received(self, data: bytes) -> None:
        self._heard = True
        self._room.took(len(data))
        if self._have:
            self._parts.append(data)
            self._have += len(data)
            if self._have < self._need:
                return
            data = b"".join(self._parts)
            self._parts.clear()
            self._have = 0
        try:
            self._take(data)
        except MagnetarError as error:
            log.info("invalid_frame_received", url=self.url, why=error)
            self.abort(error)

    def pause_writing(self) -> None:
        self.congested = True

    def resume_writing(self) -> None:
        self.congested = False
        self._wake_writers()
        for sink in list(self._producers.values()):
            sink.writable_again()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self.congested = False
        error = self.why
        if error is None:
            error = self.why = ConnectionLost(
                "the connection to the broker was lost", url=self.url, why=str(exc or "closed")
            )
        self._out.clear()
        self._parts.clear()
        if self._keepalive is not None:
            self._keepalive.cancel()
        if not self._connected.done():
            self._connected.set_exception(NotReady(f"no CONNECTED from the broker: {error}", url=self.url))
            self._connected.exception()  # waiting callers raise it; retrieve it, as there may be none
        requests, self._requests = self._requests, {}
        for request in requests.values():
            if request.timer is not None:
                request.timer.cancel()
            if not request.future.done():
                request.future.set_exception(
                    ConnectionLost(
                        "the connection was lost before the reply: the operation may have happened", url=self.url
                    )
                )
        self._wake_writers()
        producers, self._producers = self._producers, {}
        consumers, self._consumers = self._consumers, {}
        if self._ended is not None:
            self._ended(self)
        for producer in producers.values():
            producer.connection_lost(error)
        for consumer in consumers.values():
            consumer.connection_lost(error)
        self.listeners.lost(error)
        if not self._gone.done():
            self._gone.set_result(None)

    # Internal

    def _take(self, data: bytes) -> None:
        spans, rest = frames.split(data, 0, CLIENT_FRAME_BYTES_MAX)
        producers = self._producers
        consumers = self._consumers
        for start, middle, end in spans:
            kind = frames.command_type(data, start, middle)
            if kind == MESSAGE:
                parts = read_message(data, start, middle)
                consumer = consumers.get(parts[0])
                if consumer is not None:  # None: closed here while the message was in flight
                    consumer.message(parts, data[middle:end])
            elif kind == SEND_RECEIPT:
                producer_id, sequence, highest, ledger, entry = read_receipt(data, start, middle)
                producer = producers.get(producer_id)
                if producer is not None:
                    producer.receipt(sequence, highest, ledger, entry)
            else:
                self._command(data, start, middle)
            if self.why is not None:
                return
        if rest < len(data):
            self._parts.append(data[rest:])
            self._have = len(data) - rest
            self._need = frames.frame_size(data, rest)

    def _command(self, data: bytes, start: int, end: int) -> None:
        command = frames.decode_command(data, start, end)
        if command is None:
            log.once("unknown_command_received", url=self.url)
            return
        handler = _PUSHED.get(command.type)
        if handler is not None:
            handler(self, command)
            return
        request_id = reply_id(command)
        if request_id < 0:
            log.once("unexpected_command_received", type=command.type)
            return
        request = self._requests.get(request_id)
        if request is None:
            if command.type == _K.ERROR and not self._connected.done():
                self._connected.set_exception(error_of(command.error.error, command.error.message, url=self.url))
                self._connected.exception()
            return  # timed out or cancelled
        if not answers(request.kind, command):
            log.once("mismatched_reply_received", request=request.kind, reply=command.type)
            return
        if unfinished(command):
            if request.timer is not None:
                request.timer.cancel()
                request.timer = None
            return
        error = refusal(command)
        if request.future.done():
            return
        if error is None:
            request.future.set_result(command)
        else:
            request.future.set_exception(error)

    def _connected_now(self, command: pb.BaseCommand) -> None:
        answer = command.connected
        self.server_version = answer.server_version
        self.protocol_version = answer.protocol_version
        self.features = answer.feature_flags
        if answer.HasField("max_message_size"):
            self.max_message_size = answer.max_message_size
        if not self._connected.done():
            self._connected.set_result(None)

    def _ping(self, command: pb.BaseCommand) -> None:
        self.write(commands.PONG)

    def _pong(self, command: pb.BaseCommand) -> None:
        """No action: any received frame shows that the broker is alive."""

    def _send_error(self, command: pb.BaseCommand) -> None:
        body = command.send_error
        sink = self._producers.get(body.producer_id)
        if sink is not None:
            sink.send_error(body.sequence_id, error_of(body.error, body.message))

    def _close_producer(self, command: pb.BaseCommand) -> None:
        body = command.close_producer
        sink = self._producers.pop(body.producer_id, None)
        if sink is not None:
            sink.closed_by_broker(body.assignedBrokerServiceUrl)

    def _close_consumer(self, command: pb.BaseCommand) -> None:
        body = command.close_consumer
        sink = self._consumers.pop(body.consumer_id, None)
        if sink is not None:
            sink.closed_by_broker(body.assignedBrokerServiceUrl)

    def _active(self, command: pb.BaseCommand) -> None:
        body = command.active_consumer_change
        sink = self._consumers.get(body.consumer_id)
        if sink is not None:
            sink.active(body.is_active)

    def _reached_end(self, command: pb.BaseCommand) -> None:
        sink = self._consumers.get(command.reachedEndOfTopic.consumer_id)
        if sink is not None:
            sink.reached_end()

    def _told(self, command: pb.BaseCommand) -> None:
        self.listeners.tell(command)

    def _overdue(self, request_id: int, timeout_s: float) -> None:
        request = self._requests.pop(request_id, None)
        if request is not None and not request.future.done():
            request.future.set_exception(
                TimedOut(
                    "the broker did not answer in time: the operation may have happened",
                    url=self.url,
                    timeout_s=timeout_s,
                )
            )

    def flush(self) -> None:
        """Write the pending frames to the socket now, and not at the end of this turn of the event loop."""
        out = self._out
        if not out:
            return
        data = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        self._out_bytes = 0
        if not self.closed and self._transport is not None:
            self._transport.write(data)

    def _wake_writers(self) -> None:
        writers, self._writers = self._writers, []
        for future in writers:
            if not future.done():
                future.set_result(None)

    def _tick(self) -> None:
        if not self._heard:
            self.abort(ConnectionLost("the broker sent no data for too long", url=self.url, silent_s=KEEPALIVE_S))
            return
        self._heard = False
        self.write(commands.PING)
        self._keepalive = self._loop.call_later(KEEPALIVE_S, self._tick)


_PUSHED: dict[int, Callable[[Connection, Any], None]] = {
    _K.CONNECTED: Connection._connected_now,
    _K.PING: Connection._ping,
    _K.PONG: Connection._pong,
    _K.SEND_ERROR: Connection._send_error,
    _K.CLOSE_PRODUCER: Connection._close_producer,
    _K.CLOSE_CONSUMER: Connection._close_consumer,
    _K.ACTIVE_CONSUMER_CHANGE: Connection._active,
    _K.REACHED_END_OF_TOPIC: Connection._reached_end,
    _K.WATCH_TOPIC_UPDATE: Connection._told,
    _K.SCALABLE_TOPIC_UPDATE: Connection._told,
    _K.WATCH_SCALABLE_TOPICS_UPDATE: Connection._told,
    _K.SCALABLE_TOPIC_ASSIGNMENT_UPDATE: Connection._told,
}
