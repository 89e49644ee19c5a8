"""Byte forms of message ids, which clients store for years and pass back.

A classic id is a MessageIdData without its ack set. Ledger and entry are unsigned on the wire and signed here, so that
"earliest" (-1, -1) and "latest" keep their order. Ids of scalable topics have the form of Pulsar's V5 clients: segment,
classic id, positions of the other segments. The two forms are always distinguishable: a classic id begins with its
first tag, which would be an impossibly large segment number. Any other bytes raise `Corrupt`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar

from google.protobuf.message import DecodeError

from magnetar.base.errors import Corrupt
from magnetar.base.public import public
from magnetar.wire.proto import pb

_UINT64 = 1 << 64
_INT64_MAX = (1 << 63) - 1
_CLASSIC = 0x08  # the first tag of MessageIdData
_SCALABLE = "topic://"
_LONG, _INT = Struct(">q"), Struct(">i")

Vector = tuple[tuple[int, "MessageId"], ...]


@public("magnetar")
@dataclass(frozen=True, slots=True)
class MessageId:
    """A message, a message inside a batch, or (with `first_chunk`) the last of several chunks.

    Ids are ordered by segment, ledger, entry, partition, batch index; other fields do not affect the order. For a
    scalable topic, `segment` is the message's segment. `vector` of a stream consumer has the newest delivered id of
    each segment at that time, and one acknowledgement covers all of them. A consumer of a namespace has these vectors
    in `topics`, by topic, its own included.
    """

    ledger: int
    entry: int
    partition: int = -1
    batch_index: int = -1
    batch_size: int = field(default=0, compare=False)
    first_chunk: MessageId | None = field(default=None, compare=False)
    # topic of the message; part of the byte form if it is scalable
    topic: str = field(default="", compare=False, repr=False)
    segment: int = -1
    vector: Vector = field(default=(), compare=False, repr=False)
    topics: tuple[tuple[str, Vector], ...] = field(default=(), compare=False, repr=False)

    EARLIEST: ClassVar[MessageId]
    LATEST: ClassVar[MessageId]

    def to_bytes(self) -> bytes:
        return to_bytes(self)

    @staticmethod
    def from_bytes(data: bytes) -> MessageId:
        return from_bytes(data)

    def __str__(self) -> str:
        text = f"{self.ledger}:{self.entry}:{self.partition}"
        if self.segment >= 0:
            text = f"{self.segment}/{text}"
        if self.batch_index >= 0:
            text = f"{text}:{self.batch_index}"
        return text if self.first_chunk is None else f"{self.first_chunk};{text}"

    @property
    def _order(self) -> tuple[int, int, int, int, int]:
        return self.segment, self.ledger, self.entry, self.partition, self.batch_index

    def __lt__(self, other: MessageId) -> bool:
        return self._order < other._order

    def __le__(self, other: MessageId) -> bool:
        return self._order <= other._order

    def __gt__(self, other: MessageId) -> bool:
        return self._order > other._order

    def __ge__(self, other: MessageId) -> bool:
        return self._order >= other._order


EARLIEST = MessageId(-1, -1)
LATEST = MessageId(_INT64_MAX, _INT64_MAX)
MessageId.EARLIEST = EARLIEST
MessageId.LATEST = LATEST


def to_data(message_id: MessageId) -> pb.MessageIdData:
    """The form in commands. The batch size is always written, as Java's clients do, unless it is unknown (-1)."""
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
    if message_id.segment < 0 and not message_id.vector and not message_id.topics:
        return _classic_bytes(message_id)
    parts = [_LONG.pack(message_id.segment), _sized(message_id), *_vector(message_id.vector)]
    # A consumer of one topic does not write the topic name: the segment topics identify its messages.
    named = message_id.topics or message_id.topic.startswith(_SCALABLE)
    parts += [_text(message_id.topic) if named else _INT.pack(-1), _INT.pack(len(message_id.topics) or -1)]
    for topic, vector in message_id.topics:
        parts += [_text(topic), *_vector(vector)]
    return b"".join(parts)


def from_bytes(data: bytes) -> MessageId:
    """Parses both forms."""
    if not data or data[0] == _CLASSIC or len(data) < 12:
        return _classic(data)
    try:
        return _Reader(data).message_id()
    except (IndexError, UnicodeDecodeError):
        raise Corrupt("a message id of a scalable topic ends early", bytes=len(data)) from None


class _Reader:
    """The input may end after the id, after the positions, or after the topic, as in older forms."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def message_id(self) -> MessageId:
        segment = self._number(_LONG)
        if segment < -1:  # -1: no particular segment
            raise Corrupt("a message id has an invalid segment", segment=segment)
        message = _classic(self._bytes(self._number(_INT)))
        vector: Vector = () if self._over else self._vector()
        length = -1 if self._over else self._number(_INT)
        topic = self._bytes(length).decode() if length >= 0 else ""
        topics = []
        for _ in range(0 if self._over else max(self._number(_INT), 0)):
            named = self._bytes(self._number(_INT)).decode()
            topics.append((named, self._vector()))
        return MessageId(
            message.ledger,
            message.entry,
            message.partition,
            message.batch_index,
            message.batch_size,
            message.first_chunk,
            topic,
            segment,
            vector,
            tuple(topics),
        )

    @property
    def _over(self) -> bool:
        return self._at == len(self._data)

    def _vector(self) -> Vector:
        ids = []
        for _ in range(self._number(_INT)):
            segment = self._number(_LONG)
            ids.append((segment, _classic(self._bytes(self._number(_INT)))))
        return tuple(ids)

    def _number(self, form: Struct) -> int:
        value: int = form.unpack(self._bytes(form.size))[0]
        return value

    def _bytes(self, length: int) -> bytes:
        end = self._at + length
        if length < 0 or end > len(self._data):
            raise IndexError
        content, self._at = self._data[self._at : end], end
        return content


def _vector(vector: Vector) -> list[bytes]:
    parts = [_INT.pack(len(vector))]
    for segment, position in vector:
        parts += [_LONG.pack(segment), _sized(position)]
    return parts


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _INT.pack(len(encoded)) + encoded


def _sized(message_id: MessageId) -> bytes:
    encoded = _classic_bytes(message_id)
    return _INT.pack(len(encoded)) + encoded


def _classic_bytes(message_id: MessageId) -> bytes:
    encoded: bytes = to_data(message_id).SerializeToString()
    return encoded


def _classic(data: bytes) -> MessageId:
    try:
        message = pb.MessageIdData.FromString(data)
    except DecodeError:
        raise Corrupt("invalid message id", bytes=len(data)) from None
    if not message.IsInitialized():
        raise Corrupt("a message id lacks ledger or entry", bytes=len(data))
    return from_data(message)


def _signed(value: int) -> int:
    return value if value <= _INT64_MAX else value - _UINT64
