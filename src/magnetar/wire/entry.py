"""What a broker needs to know of an entry, read from its bytes without decoding the payload.

An entry is what follows the command of a SEND, stored and delivered as it came: an optional broker block (0x0e02,
size, block), an optional checksum block (0x0e01, CRC-32C), the metadata's size, MessageMetadata, payload. Whatever
cannot be read is `Corrupt`; nothing else is raised and nothing loops, whatever the bytes are. Each question takes
an entry as `bytes`, or a part `[start, end)` of a larger buffer. Rare fields are ruled out by looking for the first
byte of their tag, which every encoding of that tag starts with; what the scan does not expect (groups, overlong
numbers) is left to protobuf. Hot: plain functions, so that mypyc compiles the file as it is.
"""

from __future__ import annotations

from binascii import Error as Base64Error
from binascii import a2b_base64
from struct import Struct

from google.protobuf.message import DecodeError
from google_crc32c import value as _crc32c
from mmh3 import hash as _murmur3

from magnetar.base.errors import Corrupt
from magnetar.wire.proto import pb

NO_KEY = b"NONE_KEY"  # what is hashed where an entry has neither key nor producer; the wire's own word for it
NO_MARKER = -1

_LENGTH = Struct(">I")
_INT32_LIMIT = 1 << 31
_INT64_LIMIT = 1 << 63


class Metadata:
    """The fields of MessageMetadata that a broker looks at. -1 and None stand for absent, protobuf's default
    otherwise.
    """

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


def metadata_bounds(buffer: bytes, start: int = 0, end: int = -1) -> tuple[int, int]:
    """Where MessageMetadata begins and ends; the payload follows it."""
    if end < 0:
        end = len(buffer)
    position = _checksum_start(buffer, start, end)
    if position + 6 <= end and buffer[position] == 0x0E and buffer[position + 1] == 0x01:
        position += 6
    if position + 4 > end:
        raise Corrupt("an entry ends before its metadata", bytes=end - start)
    first: int = position + 4
    last: int = first + _LENGTH.unpack_from(buffer, position)[0]
    if last > end:
        raise Corrupt("an entry's metadata is longer than the entry", metadata=last - first, bytes=end - start)
    return first, last


def verify(buffer: bytes, start: int = 0, end: int = -1) -> bool:
    """Does the checksum hold? An entry that carries none is taken as it is; the sizes must fit in any case."""
    if end < 0:
        end = len(buffer)
    covered = metadata_bounds(buffer, start, end)[0] - 4
    if covered == _checksum_start(buffer, start, end):
        return True
    checksum: int = _LENGTH.unpack_from(buffer, covered - 4)[0]
    return bool(_crc32c(buffer[covered:end]) == checksum)


def counts(buffer: bytes, start: int = 0, end: int = -1) -> int:
    """How many messages: those of a batch, at least one."""
    first, last = metadata_bounds(buffer, start, end)
    if buffer.find(0x58, first, last) < 0 and buffer.find(0xD8, first, last) < 0:
        return 1
    messages = _scan(buffer, first, last).messages
    return messages if messages > 1 else 1


def is_batch(buffer: bytes, start: int = 0, end: int = -1) -> bool:
    """The presence of num_messages_in_batch alone decides, even when it says 1."""
    first, last = metadata_bounds(buffer, start, end)
    if buffer.find(0x58, first, last) < 0 and buffer.find(0xD8, first, last) < 0:
        return False
    return _scan(buffer, first, last).messages != -1


def publish_time(buffer: bytes, start: int = 0, end: int = -1) -> int:
    first, last = metadata_bounds(buffer, start, end)
    return _scan(buffer, first, last).publish_time


def deliver_at(buffer: bytes, start: int = 0, end: int = -1) -> int:
    """Milliseconds since the epoch, 0 if the entry is not delayed."""
    first, last = metadata_bounds(buffer, start, end)
    if buffer.find(0x98, first, last) < 0:
        return 0
    return _scan(buffer, first, last).deliver_at


def marker(buffer: bytes, start: int = 0, end: int = -1) -> int:
    """The marker type of an entry that only brokers read, NO_MARKER for all others."""
    first, last = metadata_bounds(buffer, start, end)
    if buffer.find(0xA0, first, last) < 0:
        return NO_MARKER
    return _scan(buffer, first, last).marker


def is_null(buffer: bytes, start: int = 0, end: int = -1) -> bool:
    """Is the value of this single message null (a tombstone), rather than empty?"""
    first, last = metadata_bounds(buffer, start, end)
    return buffer.find(0xC8, first, last) >= 0 and _scan(buffer, first, last).null_value


def sticky_key(buffer: bytes, start: int = 0, end: int = -1) -> bytes | None:
    """Ordering key, else key, else producer and sequence id: what decides the consumer in Key_Shared (stock-clients
    C3).
    """
    first, last = metadata_bounds(buffer, start, end)
    return _key_of(_scan(buffer, first, last))


def key_hash(buffer: bytes, start: int = 0, end: int = -1) -> int:
    """Murmur3 of the sticky key, 32 bits, unsigned; `base.hashes` makes slots of it."""
    first, last = metadata_bounds(buffer, start, end)
    key = _key_of(_scan(buffer, first, last))
    value: int = _murmur3(NO_KEY if key is None else key, 0, False)
    return value


def stamps(buffer: bytes, start: int = 0, end: int = -1) -> tuple[int, int] | None:
    """The smallest and largest key hash a client stamped on the entry, None if it did not."""
    first, last = metadata_bounds(buffer, start, end)
    if buffer.find(0x88, first, last) < 0:
        return None
    metadata = _scan(buffer, first, last)
    if metadata.hash_min < 0 or metadata.hash_max < 0:
        return None
    return metadata.hash_min, metadata.hash_max


def producer_and_sequence(buffer: bytes, start: int = 0, end: int = -1) -> tuple[str, int, int]:
    """Producer, sequence id, and the highest sequence id inside (the same for a single message)."""
    first, last = metadata_bounds(buffer, start, end)
    metadata = _scan(buffer, first, last)
    if metadata.producer is None or metadata.sequence_id < 0:
        raise Corrupt("an entry's metadata lacks producer or sequence id")
    sequence = metadata.sequence_id
    highest = metadata.highest_sequence_id
    return _text(metadata.producer), sequence, highest if highest > sequence else sequence


def chunk(buffer: bytes, start: int = 0, end: int = -1) -> tuple[str, int, int] | None:
    """Uuid of the whole message, this chunk's place, number of chunks; None if the entry is no chunk."""
    first, last = metadata_bounds(buffer, start, end)
    if buffer.find(0xD2, first, last) < 0:
        return None
    metadata = _scan(buffer, first, last)
    if metadata.uuid is None or metadata.chunks < 1:
        return None
    return _text(metadata.uuid), metadata.chunk_id if metadata.chunk_id > 0 else 0, metadata.chunks


def read(buffer: bytes, start: int = 0, end: int = -1) -> Metadata:
    """Everything at once, for whoever has several questions."""
    first, last = metadata_bounds(buffer, start, end)
    return _scan(buffer, first, last)


def _checksum_start(buffer: bytes, start: int, end: int) -> int:
    """Where the checksum block begins if there is one: after the broker block, if there is one."""
    if start + 6 <= end and buffer[start] == 0x0E and buffer[start + 1] == 0x02:
        size: int = _LENGTH.unpack_from(buffer, start + 2)[0]
        return start + 6 + size
    return start


def _key_of(metadata: Metadata) -> bytes | None:
    if metadata.ordering_key is not None:
        return metadata.ordering_key
    key = metadata.key
    if key is not None:
        if metadata.key_is_base64:
            try:
                return a2b_base64(key, strict_mode=True)
            except Base64Error:
                return key  # a client's slip must not stop the others' messages: any stable key will do
        return key
    if metadata.producer is None or metadata.sequence_id < 0:
        return None
    return b"%b-%d" % (metadata.producer, metadata.sequence_id)


def _scan(buffer: bytes, position: int, end: int) -> Metadata:
    metadata = Metadata()
    begin = position
    while position < end:
        tag = buffer[position]
        position += 1
        if tag >= 128:
            if position >= end or buffer[position] >= 128:
                return _by_protobuf(buffer, begin, end)
            tag = tag & 127 | buffer[position] << 7
            position += 1
        kind = tag & 7
        if (kind != 0 and kind != 2) or tag < 8:
            return _by_protobuf(buffer, begin, end)
        if position >= end:
            raise Corrupt("an entry's metadata is cut off")
        value = buffer[position]
        position += 1
        if value >= 128:
            value &= 127
            shift = 7
            while True:
                if position >= end:
                    raise Corrupt("an entry's metadata is cut off")
                byte = buffer[position]
                position += 1
                value |= (byte & 127) << shift
                if byte < 128:
                    break
                shift += 7
                if shift > 56:  # ten bytes: negative or overlong
                    return _by_protobuf(buffer, begin, end)
        if kind == 2:
            last = position + value
            if last > end:
                raise Corrupt("a field of an entry's metadata is longer than the metadata")
            if tag == 0x0A:
                metadata.producer = buffer[position:last]
            elif tag == 0x32:
                metadata.key = buffer[position:last]
            elif tag == 0x92:
                metadata.ordering_key = buffer[position:last]
            elif tag == 0xD2:
                metadata.uuid = buffer[position:last]
            elif tag == 0x6A:
                metadata.encrypted = True
            position = last
        elif not _number(metadata, tag, value):
            return _by_protobuf(buffer, begin, end)
    return metadata


def _number(metadata: Metadata, tag: int, value: int) -> bool:
    """Keep one number; False where it exceeds its field's width, whose cutting is protobuf's business."""
    if tag == 0x10:
        metadata.sequence_id = value
    elif tag == 0x18:
        metadata.publish_time = value
    elif tag == 0x98:
        metadata.deliver_at = value
    elif tag == 0xC0:
        metadata.highest_sequence_id = value
    elif tag == 0x88:
        metadata.key_is_base64 = value != 0
    elif tag == 0xC8:
        metadata.null_value = value != 0
    elif tag == 0xB0:
        metadata.txn_least = value
    elif tag == 0xB8:
        metadata.txn_most = value
    elif value >= _INT32_LIMIT:
        return False
    elif tag == 0x48:
        metadata.uncompressed_size = value
    elif tag == 0x58:
        metadata.messages = value
    elif tag == 0x40:
        if value > 4:
            return False
        metadata.compression = value
    elif tag == 0xA0:
        metadata.marker = value
    elif tag == 0xD8:
        metadata.chunks = value
    elif tag == 0xE8:
        metadata.chunk_id = value
    elif tag == 0x108:
        metadata.hash_min = value
    elif tag == 0x110:
        metadata.hash_max = value
    return True


def _by_protobuf(buffer: bytes, start: int, end: int) -> Metadata:
    try:
        message = pb.MessageMetadata.FromString(buffer[start:end])
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


def _raw(value: str | bytes) -> bytes:
    """Protobuf gives text as str, or as bytes where it is not UTF-8."""
    return value if isinstance(value, bytes) else value.encode()


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise Corrupt("an entry's metadata has text that is not UTF-8") from None
