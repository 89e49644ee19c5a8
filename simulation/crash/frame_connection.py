"""A client at the level of frames: it shows exactly the receipts, messages and errors that it got.

It is for tests that judge a broker from outside. It has no queue, no retries and no reconnection. When the connection
is lost, every open request fails with `ConnectionGone`, and the test decides what that means. It runs on any loop that
has `create_connection`, the virtual one too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from magnetar.base.errors import BadFrame, ConnectionLost, MagnetarError, Refused
from magnetar.wire import commands, frames, message
from magnetar.wire.frames import encode_command
from magnetar.wire.proto import pb

FRAME_BYTES_MAX = 6 * 1024 * 1024
Place = tuple[int, int]  # ledger and entry
Heard = Callable[[pb.BaseCommand, bytes], None]

_T = pb.BaseCommand
_REPLIES = {  # where the request id of an answer stands
    _T.SUCCESS: "success",
    _T.PRODUCER_SUCCESS: "producer_success",
    _T.ERROR: "error",
    _T.GET_LAST_MESSAGE_ID_RESPONSE: "getLastMessageIdResponse",
    _T.ACK_RESPONSE: "ackResponse",
    _T.LOOKUP_RESPONSE: "lookupTopicResponse",
    _T.PARTITIONED_METADATA_RESPONSE: "partitionMetadataResponse",
}


class ConnectionGone(ConnectionLost):
    """The connection ended before the answer came: it may have happened."""


class FrameConnection(asyncio.Protocol):
    """One connection. `heard` gets every command that answers no request, with the entry behind it."""

    def __init__(self, client_version: str = "magnetar-wire") -> None:
        self.lost = asyncio.Event()
        self.producers: dict[int, Heard] = {}
        self.consumers: dict[int, Heard] = {}
        self.connected: asyncio.Future[pb.CommandConnected] = asyncio.get_running_loop().create_future()
        self._client_version = client_version
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._requests: dict[int, asyncio.Future[pb.BaseCommand]] = {}
        self._ids = 0

    @classmethod
    async def open(cls, host: str, port: int, client_version: str = "magnetar-wire") -> FrameConnection:
        """Connects and waits for the answer to CONNECT. Raises ConnectionGone if no broker listens or it refuses."""
        loop = asyncio.get_running_loop()
        try:
            _, connection = await loop.create_connection(lambda: cls(client_version), host, port)
        except OSError as error:
            raise ConnectionGone(f"cannot connect: {error}") from error
        connect = pb.BaseCommand(type=_T.CONNECT)
        connect.connect.client_version = client_version
        connect.connect.protocol_version = 21
        connection.write(encode_command(connect))
        try:
            await connection.connected
        except BaseException:
            connection.close()
            raise
        return connection

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        frames_, consumed = frames.split(self._buffer, 0, FRAME_BYTES_MAX)
        buffer, self._buffer = self._buffer, self._buffer[consumed:]
        for start, end, stop in frames_:
            command = frames.decode_command(buffer, start, end)
            if command is None:
                raise BadFrame("the broker said something this client does not know")
            self._hear(command, buffer[end:stop])

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()
        error = ConnectionGone("the connection ended")
        waiting: list[asyncio.Future[Any]] = [*self._requests.values(), self.connected]
        for future in waiting:
            if not future.done():
                future.set_exception(error)
                future.exception()  # no caller needs to wait for it
        self._requests.clear()

    # Speaking

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def ask(self, command: pb.BaseCommand, body: Any) -> pb.BaseCommand:
        """`body` is the submessage of the command. Raises Refused with the code of the broker's ERROR, or
        ConnectionGone."""
        if self.lost.is_set():
            raise ConnectionGone("the connection ended")
        self._ids += 1
        body.request_id = self._ids
        future: asyncio.Future[pb.BaseCommand] = asyncio.get_running_loop().create_future()
        self._requests[self._ids] = future
        self.write(encode_command(command))
        answer = await future
        if answer.type == _T.ERROR:
            raise Refused(answer.error.message, wire_code=answer.error.error)
        return answer

    async def produce(
        self, topic: str, producer_id: int, name: str, heard: Heard, *, epoch: int = 0
    ) -> pb.CommandProducerSuccess:
        command = pb.BaseCommand(type=_T.PRODUCER)
        command.producer.topic = topic
        command.producer.producer_id = producer_id
        command.producer.producer_name = name
        command.producer.user_provided_producer_name = True
        command.producer.epoch = epoch
        self.producers[producer_id] = heard
        return (await self.ask(command, command.producer)).producer_success

    async def subscribe(
        self,
        topic: str,
        subscription: str,
        consumer_id: int,
        heard: Heard,
        *,
        kind: int = 0,
        name: str = "",
        **more: Any,
    ) -> None:
        command = pb.BaseCommand(type=_T.SUBSCRIBE)
        request = command.subscribe
        request.topic = topic
        request.subscription = subscription
        request.subType = kind  # type: ignore[assignment]
        request.consumer_id = consumer_id
        request.consumer_name = name
        request.initialPosition = pb.CommandSubscribe.Earliest
        for key, value in more.items():
            if key == "start":
                request.start_message_id.ledgerId, request.start_message_id.entryId = (part % 2**64 for part in value)
            else:
                setattr(request, key, value)
        self.consumers[consumer_id] = heard
        await self.ask(command, request)

    def send(
        self,
        producer_id: int,
        sequence: int,
        entry: bytes,
        *,
        highest: int = -1,
        messages: int = 1,
        chunk: bool = False,
    ) -> None:
        command = pb.BaseCommand(type=_T.SEND)
        command.send.producer_id = producer_id
        command.send.sequence_id = sequence
        command.send.num_messages = messages
        if highest >= 0:
            command.send.highest_sequence_id = highest
        if chunk:
            command.send.is_chunk = True
        self.write(with_entry(command, entry))

    def flow(self, consumer_id: int, permits: int) -> None:
        command = pb.BaseCommand(type=_T.FLOW)
        command.flow.consumer_id = consumer_id
        command.flow.messagePermits = permits
        self.write(encode_command(command))

    def ack(self, consumer_id: int, places: list[tuple[Place, list[int] | None]], *, cumulative: bool = False) -> None:
        """Words of a place are the messages of its batch that stay unacknowledged."""
        command = pb.BaseCommand(type=_T.ACK)
        command.ack.consumer_id = consumer_id
        command.ack.ack_type = pb.CommandAck.Cumulative if cumulative else pb.CommandAck.Individual
        for (ledger, entry), words in places:
            data = command.ack.message_id.add()
            data.ledgerId, data.entryId = ledger, entry
            data.ack_set.extend(words or [])
        self.write(encode_command(command))

    async def close_consumer(self, consumer_id: int) -> None:
        command = pb.BaseCommand(type=_T.CLOSE_CONSUMER)
        command.close_consumer.consumer_id = consumer_id
        await self.ask(command, command.close_consumer)

    async def close_producer(self, producer_id: int) -> None:
        command = pb.BaseCommand(type=_T.CLOSE_PRODUCER)
        command.close_producer.producer_id = producer_id
        await self.ask(command, command.close_producer)

    # Hearing

    def _hear(self, command: pb.BaseCommand, entry: bytes) -> None:
        kind = command.type
        if kind == _T.PING:
            self.write(commands.PONG)
        elif kind == _T.CONNECTED:
            if not self.connected.done():  # no caller waits for it any more: it was too late
                self.connected.set_result(command.connected)
        elif kind in _REPLIES:
            request_id = getattr(command, _REPLIES[kind]).request_id
            future = self._requests.pop(request_id, None)
            if future is not None and not future.done():
                future.set_result(command)
        elif kind in (_T.SEND_RECEIPT, _T.SEND_ERROR, _T.CLOSE_PRODUCER):
            body: Any = getattr(command, _FIELD[kind])
            self._tell(self.producers.get(body.producer_id), command, entry)
        elif kind in (_T.MESSAGE, _T.CLOSE_CONSUMER, _T.ACTIVE_CONSUMER_CHANGE, _T.REACHED_END_OF_TOPIC):
            body = getattr(command, _FIELD[kind])
            self._tell(self.consumers.get(body.consumer_id), command, entry)

    @staticmethod
    def _tell(heard: Heard | None, command: pb.BaseCommand, entry: bytes) -> None:
        if heard is not None:
            heard(command, entry)


_FIELD = {
    _T.SEND_RECEIPT: "send_receipt",
    _T.SEND_ERROR: "send_error",
    _T.CLOSE_PRODUCER: "close_producer",
    _T.MESSAGE: "message",
    _T.CLOSE_CONSUMER: "close_consumer",
    _T.ACTIVE_CONSUMER_CHANGE: "active_consumer_change",
    _T.REACHED_END_OF_TOPIC: "reachedEndOfTopic",
}


def with_entry(command: pb.BaseCommand, entry: bytes) -> bytes:
    """The frame of a command that an entry follows."""
    body = command.SerializeToString()
    return b"".join(((4 + len(body) + len(entry)).to_bytes(4, "big"), len(body).to_bytes(4, "big"), body, entry))


def payloads(entry: bytes) -> list[bytes]:
    """The messages of an uncompressed entry, one or a batch. Raises Corrupt if the broker delivered an invalid
    entry."""
    opened = message.open_entry(entry)
    if not opened.is_batch:
        return [opened.payload]
    return [payload for _, payload in message.split_batch(opened.payload, opened.metadata.num_messages_in_batch)]


__all__ = ["ConnectionGone", "FrameConnection", "MagnetarError", "Place", "payloads", "with_entry"]
