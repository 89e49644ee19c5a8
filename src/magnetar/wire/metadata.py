"""Scans MessageMetadata in place: reads the broker's fields and skips the others.

Unusual encodings (groups, overlong numbers, values wider than their field) go to protobuf, so that both read the same
values. Input that protobuf cannot parse raises `Corrupt`. Fields that a broker never uses are skipped unread, so
invalid contents in them pass. Hot: plain functions, so that mypyc compiles the file as it is. Bounds must come from
`entry.metadata_bounds`.
"""

from __future__ import annotations

from binascii import Error as Base64Error
from binascii import a2b_base64
from typing import Any

from google.protobuf.message import DecodeError

from magnetar.base.errors import Corrupt
from magnetar.wire.proto import pb

NO_MARKER = -1

_INT32_LIMIT = 1 << 31


class Metadata:
    """The broker's fields of MessageMetadata. Absent fields are -1 or None, otherwise protobuf's default."""

    __slots__ = (
        "chunk_id",
        "chunks",
        "compression",
        "deliver_at",
        "encrypted",
        "hash_max",
        "hash_min",
        "highest_sequence_id",
        "key",
        "key_is_base64",
        "marker",
        "messages",
        "null_value",
        "ordering_key",
        "producer",
        "publish_time",
        "sequence_id",
        "txn_least",
        "txn_most",
        "uncompressed_size",
        "uuid",
    )

    def __init__(self) -> None:
        self.producer: bytes | None = None
        self.sequence_id = -1
        self.highest_sequence_id = -1
        self.publish_time = 0
        self.key: bytes | None = None
        self.key_is_base64 = False
        self.ordering_key: bytes | None = None
        self.messages = -1  # num_messages_in_batch; -1: not a batch
        self.deliver_at = 0
        self.marker = NO_MARKER
        self.compression = 0
        self.uncompressed_size = 0
        self.encrypted = False
        self.null_value = False
        self.uuid: bytes | None = None
        self.chunks = 0
        self.chunk_id = -1
        self.txn_least = -1
        self.txn_most = -1
        self.hash_min = -1
        self.hash_max = -1


def scan(buffer: bytes, position: int, end: int) -> Metadata:
    metadata = Metadata()
    begin = position
    while position < end:
        tag = buffer[position]
        position += 1
        if tag >= 128:
            if position >= end or buffer[position] >= 128:
                return by_protobuf(buffer, begin, end)
            tag = tag & 127 | buffer[position] << 7
            position += 1
        kind = tag & 7
        if (kind != 0 and kind != 2) or tag < 8:
            return by_protobuf(buffer, begin, end)
        if position >= end:
            raise Corrupt("an entry's metadata is truncated")
        value = buffer[position]
        position += 1
        if value >= 128:
            value &= 127
            shift = 7
            while True:
                if position >= end:
                    raise Corrupt("an entry's metadata is truncated")
                byte = buffer[position]
                position += 1
                value |= (byte & 127) << shift
                if byte < 128:
                    break
                shift += 7
                if shift > 56:  # ten bytes: negative or overlong
                    return by_protobuf(buffer, begin, end)
        if kind == 2:
            last = position + value
            if last > end:
                raise Corrupt("a field of an entry's metadata is longer than the metadata")
            if tag == 0x0A:  # METADATA_PRODUCER_NAME
                metadata.producer = buffer[position:last]
            elif tag == 0x32:  # METADATA_PARTITION_KEY
                metadata.key = buffer[position:last]
            elif tag == 0x92:  # METADATA_ORDERING_KEY
                metadata.ordering_key = buffer[position:last]
            elif tag == 0xD2:  # METADATA_UUID
                metadata.uuid = buffer[position:last]
            elif tag == 0x6A:  # METADATA_ENCRYPTION_KEYS
                metadata.encrypted = True
            position = last
        elif not _number(metadata, tag, value):
            return by_protobuf(buffer, begin, end)
    return metadata


def scan_key(buffer: bytes, position: int, end: int) -> bytes | None:
    """Only the sticky key, much cheaper than a scan: a Key_Shared dispatcher calls it for each entry."""
    begin = position
    producer_start = key_start = ordering_start = sequence = -1
    producer_end = key_end = ordering_end = 0
    base64 = False
    while position < end:
        tag = buffer[position]
        position += 1
        if tag >= 128:
            if position >= end or buffer[position] >= 128:
                return key_of(by_protobuf(buffer, begin, end))
            tag = tag & 127 | buffer[position] << 7
            position += 1
        kind = tag & 7
        if (kind != 0 and kind != 2) or tag < 8:
            return key_of(by_protobuf(buffer, begin, end))
        start = position
        while position < end and buffer[position] >= 128:
            position += 1
        if position >= end:
            raise Corrupt("an entry's metadata is truncated")
        position += 1
        if position - start > 9:
            return key_of(by_protobuf(buffer, begin, end))
        if kind == 2:
            size = buffer[start] if position - start == 1 else _number_at(buffer, start, position)
            start = position
            position += size
            if position > end:
                raise Corrupt("a field of an entry's metadata is longer than the metadata")
            if tag == 0x0A:  # METADATA_PRODUCER_NAME
                producer_start = start
                producer_end = position
            elif tag == 0x32:  # METADATA_PARTITION_KEY
                key_start = start
                key_end = position
            elif tag == 0x92:  # METADATA_ORDERING_KEY
                ordering_start = start
                ordering_end = position
        elif tag == 0x10:  # METADATA_SEQUENCE_ID
            sequence = start
        elif tag == 0x88:  # METADATA_PARTITION_KEY_B64_ENCODED
            base64 = _number_at(buffer, start, position) != 0
    if ordering_start >= 0:
        return buffer[ordering_start:ordering_end]
    if key_start >= 0:
        key = buffer[key_start:key_end]
        return _unbase64(key) if base64 else key
    if producer_start < 0 or sequence < 0:
        return None
    return b"%b-%d" % (buffer[producer_start:producer_end], _number_at(buffer, sequence, end))


def by_protobuf(buffer: bytes, start: int, end: int) -> Metadata:
    try:
        # Any: text that is not UTF-8 arrives as bytes, against the declaration.
        message: Any = pb.MessageMetadata.FromString(buffer[start:end])
    except DecodeError:
        raise Corrupt("an entry's metadata cannot be parsed", bytes=end - start) from None
    metadata = Metadata()
    metadata.producer = _raw(message.producer_name) if message.HasField("producer_name") else None
    metadata.sequence_id = message.sequence_id if message.HasField("sequence_id") else -1
    metadata.highest_sequence_id = message.highest_sequence_id if message.HasField("highest_sequence_id") else -1
    metadata.publish_time = message.publish_time
    metadata.key = _raw(message.partition_key) if message.HasField("partition_key") else None
    metadata.key_is_base64 = message.partition_key_b64_encoded
    metadata.ordering_key = message.ordering_key if message.HasField("ordering_key") else None
    metadata.messages = message.num_messages_in_batch if message.HasField("num_messages_in_batch") else -1
    metadata.deliver_at = message.deliver_at_time
    metadata.marker = message.marker_type if message.HasField("marker_type") else NO_MARKER
    metadata.compression = message.compression
    metadata.uncompressed_size = message.uncompressed_size
    metadata.encrypted = len(message.encryption_keys) > 0
    metadata.null_value = message.null_value
    metadata.uuid = _raw(message.uuid) if message.HasField("uuid") else None
    metadata.chunks = message.num_chunks_from_msg
    metadata.chunk_id = message.chunk_id if message.HasField("chunk_id") else -1
    metadata.txn_least = message.txnid_least_bits if message.HasField("txnid_least_bits") else -1
    metadata.txn_most = message.txnid_most_bits if message.HasField("txnid_most_bits") else -1
    metadata.hash_min = message.entry_hash_min if message.HasField("entry_hash_min") else -1
    metadata.hash_max = message.entry_hash_max if message.HasField("entry_hash_max") else -1
    return metadata


def key_of(metadata: Metadata) -> bytes | None:
    """The sticky key of scanned metadata."""
    if metadata.ordering_key is not None:
        return metadata.ordering_key
    if metadata.key is not None:
        return _unbase64(metadata.key) if metadata.key_is_base64 else metadata.key
    if metadata.producer is None or metadata.sequence_id < 0:
        return None
    return b"%b-%d" % (metadata.producer, metadata.sequence_id)


def _number_at(buffer: bytes, position: int, end: int) -> int:
    """A varint whose end is known to be before `end`."""
    value = shift = 0
    while position < end:
        byte = buffer[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
    return value


def _unbase64(key: bytes) -> bytes:
    try:
        return a2b_base64(key, strict_mode=True)
    except Base64Error:
        return key  # one client's error must not stop other messages: any stable key is acceptable


def _number(metadata: Metadata, tag: int, value: int) -> bool:
    """Stores one number; False if it exceeds its field's width, because protobuf then truncates it."""
    if tag == 0x10:  # METADATA_SEQUENCE_ID
        metadata.sequence_id = value
    elif tag == 0x18:  # METADATA_PUBLISH_TIME
        metadata.publish_time = value
    elif tag == 0x98:  # METADATA_DELIVER_AT_TIME
        metadata.deliver_at = value
    elif tag == 0xC0:  # METADATA_HIGHEST_SEQUENCE_ID
        metadata.highest_sequence_id = value
    elif tag == 0x88:  # METADATA_PARTITION_KEY_B64_ENCODED
        metadata.key_is_base64 = value != 0
    elif tag == 0xC8:  # METADATA_NULL_VALUE
        metadata.null_value = value != 0
    elif tag == 0xB0:  # METADATA_TXNID_LEAST_BITS
        metadata.txn_least = value
    elif tag == 0xB8:  # METADATA_TXNID_MOST_BITS
        metadata.txn_most = value
    elif value >= _INT32_LIMIT:
        return False
    elif tag == 0x48:  # METADATA_UNCOMPRESSED_SIZE
        metadata.uncompressed_size = value
    elif tag == 0x58:  # METADATA_NUM_MESSAGES_IN_BATCH
        metadata.messages = value
    elif tag == 0x40:  # METADATA_COMPRESSION
        if value > 4:
            return False
        metadata.compression = value
    elif tag == 0xA0:  # METADATA_MARKER_TYPE
        metadata.marker = value
    elif tag == 0xD8:  # METADATA_NUM_CHUNKS_FROM_MSG
        metadata.chunks = value
    elif tag == 0xE8:  # METADATA_CHUNK_ID
        metadata.chunk_id = value
    elif tag == 0x108:  # METADATA_ENTRY_HASH_MIN
        metadata.hash_min = value
    elif tag == 0x110:  # METADATA_ENTRY_HASH_MAX
        metadata.hash_max = value
    return True


def _raw(value: str | bytes) -> bytes:
    """Protobuf returns text as str, or as bytes if it is not UTF-8."""
    return value if isinstance(value, bytes) else value.encode()
