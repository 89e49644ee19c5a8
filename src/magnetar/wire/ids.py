"""Byte forms of classic message ids: what clients keep in their own stores and hand back years later.

The bytes are a MessageIdData without its ack set. Ledger and entry are unsigned on the wire and signed here, so that
"earliest" (-1, -1) and "latest" keep their order. Whatever is not such bytes is `Corrupt`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from google.protobuf.message import DecodeError

from magnetar.base.errors import Corrupt
from magnetar.wire.proto import pb

_UINT64 = 1 << 64
_INT64_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True, order=True)
class MessageId:
    """A message, or a message inside a batch, or (with `first_chunk`) the last of several chunks.

    Ids are ordered by ledger, entry, partition, batch index; size of the batch and first chunk do not matter there.
    """

    ledger: int
    entry: int
    partition: int = -1
    batch_index: int = -1
    batch_size: int = field(default=0, compare=False)
    first_chunk: MessageId | None = field(default=None, compare=False)
    topic: str = field(default="", compare=False, repr=False)  # where it was received; never part of the bytes

    EARLIEST: ClassVar[MessageId]
    LATEST: ClassVar[MessageId]

    def to_bytes(self) -> bytes:
        return to_bytes(self)

    @staticmethod
    def from_bytes(data: bytes) -> MessageId:
        return from_bytes(data)

    def __str__(self) -> str:
        text = f"{self.ledger}:{self.entry}:{self.partition}"
        if self.batch_index >= 0:
            text = f"{text}:{self.batch_index}"
        return text if self.first_chunk is None else f"{self.first_chunk};{text}"


EARLIEST = MessageId(-1, -1)
LATEST = MessageId(_INT64_MAX, _INT64_MAX)
MessageId.EARLIEST = EARLIEST
MessageId.LATEST = LATEST


def to_data(message_id: MessageId) -> pb.MessageIdData:
    """As commands carry it. The batch size is always written, as Java's clients do, unless it is unknown (-1)."""
    data = pb.MessageIdData(ledgerId=message_id.ledger % _UINT64, entryId=message_id.entry % _UINT64)
    if message_id.partition >= 0:
        data.partition = message_id.partition
    if message_id.batch_index >= 0:
        data.batch_index = message_id.batch_index
    if message_id.batch_size >= 0:
        data.batch_size = message_id.batch_size
    if message_id.first_chunk is not None:
        data.first_chunk_message_id.CopyFrom(to_data(message_id.first_chunk))
    return data


def from_data(data: pb.MessageIdData) -> MessageId:
    batch = data.batch_index >= 0
    return MessageId(
        ledger=_signed(data.ledgerId),
        entry=_signed(data.entryId),
        partition=max(data.partition, -1),
        batch_index=data.batch_index if batch else -1,
        batch_size=data.batch_size if batch else 0,
        first_chunk=from_data(data.first_chunk_message_id) if data.HasField("first_chunk_message_id") else None,
    )


def to_bytes(message_id: MessageId) -> bytes:
    encoded: bytes = to_data(message_id).SerializeToString()
    return encoded


def from_bytes(data: bytes) -> MessageId:
    try:
        message = pb.MessageIdData.FromString(data)
    except DecodeError:
        raise Corrupt("not a message id", bytes=len(data)) from None
    if not message.IsInitialized():
        raise Corrupt("a message id lacks ledger or entry", bytes=len(data))
    return from_data(message)


def _signed(value: int) -> int:
    return value if value <= _INT64_MAX else value - _UINT64
