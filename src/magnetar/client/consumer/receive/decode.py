"""Decodes entries in one pass: checksum, metadata, decompression, and the messages of a batch.

Pure decisions, and the consumer's hot path: one small object per message; fields stay in the metadata until accessed.
Sizes come from a peer: all are checked, and allocations are bounded. An invalid entry raises `Corrupt`, whose facts
contain the reason for the broker (`validation_error`). Encrypted entries are not decoded here.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Any

from google.protobuf.message import DecodeError
from google_crc32c import value as _crc32c

from magnetar.base.errors import BadChecksum, Corrupt
from magnetar.base.limits import PAYLOAD_BYTES_MAX
from magnetar.client.message import Delivery, Message
from magnetar.wire import codec
from magnetar.wire.proto import pb

# The reason in the acknowledgement of an entry that is discarded because it cannot be decoded.
UNCOMPRESSED_SIZE, DECOMPRESSION, CHECKSUM, BATCH, DECRYPTION = range(5)

_LENGTH = Struct(">I")
_parse_metadata = pb.MessageMetadata.FromString


def open_metadata(data: bytes) -> tuple[pb.MessageMetadata, int]:
    """The metadata of an entry with a valid checksum, and the start of the payload."""
    position = 0
    size = len(data)
    if size >= 6 and data[0] == 0x0E and data[1] == 0x02:  # the broker's entry metadata
        position = 6 + _LENGTH.unpack_from(data, 2)[0]
    if position + 6 <= size and data[position] == 0x0E and data[position + 1] == 0x01:
        if _crc32c(data[position + 6 :]) != _LENGTH.unpack_from(data, position + 2)[0]:
            raise BadChecksum("the checksum of an entry does not match", bytes=size, validation_error=CHECKSUM)
        position += 6
    start = position + 4
    if start > size:
        raise Corrupt("the entry ends before its metadata", bytes=size, validation_error=CHECKSUM)
    end: int = start + _LENGTH.unpack_from(data, position)[0]
    if end > size:
        raise Corrupt("the metadata is longer than its entry", bytes=size, validation_error=CHECKSUM)
    try:
        metadata = _parse_metadata(data[start:end])
    except DecodeError:
        raise Corrupt(
            "the metadata of an entry cannot be parsed", bytes=end - start, validation_error=CHECKSUM
        ) from None
    if not metadata.IsInitialized():
        raise Corrupt("the metadata of an entry lacks required fields", validation_error=CHECKSUM)
    return metadata, end


def inflate(metadata: pb.MessageMetadata, payload: bytes) -> bytes:
    """The decompressed payload."""
    kind = metadata.compression
    if kind == codec.NONE:
        return payload
    try:
        return codec.decompress(kind, payload, metadata.uncompressed_size, PAYLOAD_BYTES_MAX)
    except Corrupt as error:
        error.facts["validation_error"] = DECOMPRESSION
        raise


def open_batch(payload: bytes, delivery: Delivery, position: int = 0) -> list[Message[Any]]:
    """The unacknowledged messages (`delivery.unacked`) of a decompressed batch, from `position` on.
    `delivery.size` messages must fill the payload exactly. This reads only the payload size of their own metadata.
    """
    messages: list[Message[Any]] = []
    append = messages.append
    unpack = _LENGTH.unpack_from
    length = len(payload)
    unacked = delivery.unacked
    whole = unacked & (unacked + 1) == 0 and unacked.bit_length() == delivery.size
    try:
        for index in range(delivery.size):
            start = position + 4
            middle = start + unpack(payload, position)[0]
            # The common encoding: properties and key, each shorter than 128 bytes, and then the size. Protobuf parses
            # every other encoding.
            at = start
            tag = payload[at]
            while tag == 0x0A or tag == 0x12:
                skip = payload[at + 1]
                if skip >= 128:
                    break
                at += 2 + skip
                tag = payload[at]
            size = -1
            if tag == 0x18:
                size = payload[at + 1]
                at += 2
                if size >= 128:
                    high = payload[at]
                    at += 1
                    size = size - 128 + (high << 7) if high < 128 else -1
            if size < 0 or at > middle:
                size = _size_of(payload[start:middle])
            position = middle + size
            if middle > length or position > length or size < 0:
                raise _torn(delivery, index)
            if whole or unacked >> index & 1:
                append(Message(payload[middle:position], delivery, payload[start:middle], index))
    except (DecodeError, IndexError, StructError):
        raise _torn(delivery, len(messages)) from None
    if position != length:
        raise Corrupt(
            "a batch is longer than its declared messages",
            bytes=length - position,
            messages=delivery.size,
            validation_error=BATCH,
        )
    return messages


def _size_of(single: bytes) -> int:
    return pb.SingleMessageMetadata.FromString(single).payload_size


def _torn(delivery: Delivery, place: int) -> Corrupt:
    return Corrupt(
        "a message of a batch has an invalid size",
        ledger=delivery.ledger,
        entry=delivery.entry,
        place=place,
        validation_error=BATCH,
    )
