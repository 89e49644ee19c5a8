"""Builds and opens complete entries: single messages, batches, chunks.

For clients, tools and tests; a broker passes entries on unopened (`entry` reads its fields). Encryption is not part of
this module: it follows compression and chunking, so callers decrypt a payload after `open_entry` and before `inflate`.
Sizes are untrusted: all are checked, allocations are bounded, and wrong sizes raise `Corrupt`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import cast

from google.protobuf.message import DecodeError
from google_crc32c import value as _crc32c

from magnetar.base.errors import BadChecksum, Corrupt
from magnetar.wire import codec, entry
from magnetar.wire.proto import pb

_LENGTH = Struct(">I")
_CHECKSUM_BLOCK = Struct(">HI")
_CHECKSUM_MAGIC = 0x0E01
_BROKER_MAGIC = 0x0E02


@dataclass(frozen=True, slots=True)
class Opened:
    """An opened entry; its payload is still compressed and possibly encrypted."""

    metadata: pb.MessageMetadata = field(repr=False)
    payload: bytes = field(repr=False)
    broker: pb.BrokerEntryMetadata | None = None

    @property
    def is_batch(self) -> bool:
        return self.metadata.HasField("num_messages_in_batch")


def close_entry(metadata: pb.MessageMetadata, payload: bytes) -> bytes:
    """Metadata and a finished payload in the form after a SEND: checksum block, size, metadata, payload."""
    encoded = metadata.SerializeToString()
    covered = b"".join((_LENGTH.pack(len(encoded)), encoded, payload))
    return _CHECKSUM_BLOCK.pack(_CHECKSUM_MAGIC, _crc32c(covered)) + covered


def single(metadata: pb.MessageMetadata, payload: bytes, compression: int = codec.NONE) -> bytes:
    """One message as an entry. The metadata is completed in place."""
    return close_entry(metadata, _deflate(metadata, payload, compression))


def batch(
    metadata: pb.MessageMetadata,
    messages: list[tuple[pb.SingleMessageMetadata, bytes]],
    compression: int = codec.NONE,
) -> bytes:
    """Several messages as one entry. The metadata is completed in place; each message's payload_size is set."""
    metadata.num_messages_in_batch = len(messages)
    payload = join_batch(messages)
    if compression == codec.NONE:
        return close_entry(metadata, payload)  # an uncompressed batch carries no uncompressed_size
    return close_entry(metadata, _deflate(metadata, payload, compression))


def chunks(
    metadata: pb.MessageMetadata, payload: bytes, chunk_bytes_max: int, compression: int = codec.NONE
) -> list[bytes]:
    """One large message as several entries: compressed as a whole, then split."""
    whole = _deflate(metadata, payload, compression)
    metadata.uuid = f"{metadata.producer_name}-{metadata.sequence_id}"
    metadata.num_chunks_from_msg = -(-len(whole) // chunk_bytes_max)
    metadata.total_chunk_msg_size = len(whole)
    entries = []
    for index in range(metadata.num_chunks_from_msg):
        metadata.chunk_id = index
        entries.append(close_entry(metadata, whole[index * chunk_bytes_max : (index + 1) * chunk_bytes_max]))
    return entries


def open_entry(data: bytes) -> Opened:
    """Verifies the checksum and decodes the metadata; the payload stays unchanged."""
    if not entry.verify(data):
        raise BadChecksum("an entry's checksum does not match", bytes=len(data))
    first, last = entry.metadata_bounds(data)
    try:
        metadata = pb.MessageMetadata.FromString(data[first:last])
        broker = _broker_block(data)
    except DecodeError:
        raise Corrupt("an entry's metadata cannot be parsed", bytes=last - first) from None
    if not metadata.IsInitialized():
        raise Corrupt("an entry's metadata lacks required fields", bytes=last - first)
    return Opened(metadata, data[last:], broker)


def inflate(metadata: pb.MessageMetadata, payload: bytes, bytes_max: int) -> bytes:
    """The uncompressed form of a decrypted payload (of a single message, a batch, or all chunks joined)."""
    return codec.decompress(metadata.compression, payload, metadata.uncompressed_size, bytes_max)


def join_batch(messages: list[tuple[pb.SingleMessageMetadata, bytes]]) -> bytes:
    parts: list[bytes] = []
    for metadata, payload in messages:
        metadata.payload_size = len(payload)
        encoded = metadata.SerializeToString()
        parts += (_LENGTH.pack(len(encoded)), encoded, payload)
    return b"".join(parts)


def split_batch(payload: bytes, count: int) -> list[tuple[pb.SingleMessageMetadata, bytes]]:
    """The `count` messages of a decompressed batch; they must fill it exactly."""
    messages: list[tuple[pb.SingleMessageMetadata, bytes]] = []
    position = 0
    while len(messages) < count:
        if position + 4 > len(payload):
            raise Corrupt(
                "a batch contains fewer messages than its metadata states", claimed=count, found=len(messages)
            )
        start = position + 4
        middle: int = start + _LENGTH.unpack_from(payload, position)[0]
        if middle > len(payload):
            raise Corrupt("a message exceeds its batch", place=len(messages))
        try:
            metadata = pb.SingleMessageMetadata.FromString(payload[start:middle])
        except DecodeError:
            raise Corrupt("a message of a batch cannot be parsed", place=len(messages)) from None
        position = middle + metadata.payload_size
        if not metadata.IsInitialized() or metadata.payload_size < 0 or position > len(payload):
            raise Corrupt("a message of a batch has an invalid size", place=len(messages))
        messages.append((metadata, payload[middle:position]))
    if position != len(payload):
        raise Corrupt("a batch has data after its last message", claimed=count, bytes=len(payload) - position)
    return messages


def _deflate(metadata: pb.MessageMetadata, payload: bytes, compression: int) -> bytes:
    metadata.uncompressed_size = len(payload)
    if compression != codec.NONE:
        metadata.compression = cast(pb.CompressionType, compression)
    return codec.compress(compression, payload)


def _broker_block(data: bytes) -> pb.BrokerEntryMetadata | None:
    if len(data) < 6:
        return None
    magic, size = _CHECKSUM_BLOCK.unpack_from(data)
    if magic != _BROKER_MAGIC:
        return None
    return pb.BrokerEntryMetadata.FromString(data[6 : 6 + size])
