"""A producer that writes a message in chunks one chunk at a time, when its test says so: no client can be told that."""

from __future__ import annotations

import asyncio
from types import TracebackType

from magnetar.wire import message
from magnetar.wire.frames import encode_command
from magnetar.wire.proto import pb

_Kind = pb.BaseCommand


class Pieces:
    """Messages of one producer on one topic, each in as many entries as `cut` makes of it. `async with` it."""

    def __init__(self, port: int, topic: str, name: str) -> None:
        self._port = port
        self._topic = topic
        self._name = name
        self._sequence = -1

    async def __aenter__(self) -> Pieces:
        self._read, self._write = await asyncio.open_connection("127.0.0.1", self._port)
        hello = _Kind(type=_Kind.CONNECT)
        hello.connect.client_version, hello.connect.protocol_version = "pieces", 21
        await self._ask(encode_command(hello), _Kind.CONNECTED)
        made = _Kind(type=_Kind.PRODUCER)
        made.producer.topic, made.producer.producer_name = self._topic, self._name
        made.producer.producer_id = made.producer.request_id = 1
        made.producer.user_provided_producer_name = True
        await self._ask(encode_command(made), _Kind.PRODUCER_SUCCESS)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._write.close()

    def cut(self, data: bytes, pieces: int, key: str = "k") -> list[bytes]:
        """What `write` takes, one after the other."""
        self._sequence += 1
        metadata = pb.MessageMetadata(
            producer_name=self._name, sequence_id=self._sequence, publish_time=1_700_000_000_000, partition_key=key
        )
        if pieces == 1:
            return [message.single(metadata, data)]
        return message.chunks(metadata, data, -(-len(data) // pieces))

    async def write(self, *entries: bytes) -> None:
        """One after the other, each stored before the next."""
        for entry in entries:
            command = _Kind(type=_Kind.SEND)
            command.send.producer_id, command.send.num_messages = 1, 1
            metadata = message.open_entry(entry).metadata
            command.send.sequence_id = metadata.sequence_id
            command.send.is_chunk = metadata.num_chunks_from_msg > 1
            head = command.SerializeToString()
            frame = (4 + len(head) + len(entry)).to_bytes(4, "big") + len(head).to_bytes(4, "big") + head + entry
            await self._ask(frame, _Kind.SEND_RECEIPT)

    async def _ask(self, frame: bytes, wanted: int) -> None:
        self._write.write(frame)
        while True:
            total = int.from_bytes(await self._read.readexactly(4), "big")
            body = await self._read.readexactly(total)
            told = _Kind.FromString(body[4 : 4 + int.from_bytes(body[:4], "big")])
            if told.type == wanted:
                return
            assert told.type in (_Kind.PING, _Kind.PONG), told
