"""Reads the broker's fields of an entry from its bytes, without decoding the payload.

An entry consists of the bytes after the command of a SEND, stored and delivered unchanged: an optional broker block
(0x0e02, size, block), an optional checksum block (0x0e01, CRC-32C), the metadata's size, MessageMetadata, payload. For
any bytes, unreadable input raises only `Corrupt`, and every function terminates. Each function takes an entry as
`bytes`, or a part `[start, end)` of a larger buffer. A search for the bytes of a tag excludes rare fields quickly. Hot:
plain functions, so that mypyc compiles the file as it is.
"""

from __future__ import annotations

from hashlib import blake2b
from struct import Struct

from google_crc32c import value as _crc32c
from mmh3 import hash as _murmur3

from magnetar.base.errors import Corrupt
from magnetar.base.limits import CHUNK_UUID_BYTES_MAX
from magnetar.wire.metadata import NO_MARKER, Metadata, scan, scan_key

NO_KEY = b"NONE_KEY"  # hashed for an entry without key and producer; the wire protocol's own constant

_LENGTH = Struct(">I")


def metadata_bounds(buffer: bytes, start: int = 0, end: int = -1) -> tuple[int, int]:
    """The start and end of MessageMetadata; the payload follows it."""
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
    """Whether the checksum matches. An entry without one is accepted; the sizes must be valid in any case."""
    if end < 0:
        end = len(buffer)
    covered = metadata_bounds(buffer, start, end)[0] - 4
    if covered == _checksum_start(buffer, start, end):
        return True
    checksum: int = _LENGTH.unpack_from(buffer, covered - 4)[0]
    return bool(_crc32c(buffer[covered:end]) == checksum)


def counts(buffer: bytes, start: int = 0, end: int = -1) -> int:
    """The number of messages: of a batch, or one."""
    first, last = metadata_bounds(buffer, start, end)
    if buffer.find(0x58, first, last) < 0 and buffer.find(0xD8, first, last) < 0:
        return 1
    messages = scan(buffer, first, last).messages
    return messages if messages > 1 else 1


def is_batch(buffer: bytes, start: int = 0, end: int = -1) -> bool:
    """Only the presence of num_messages_in_batch decides, even with the value 1."""
    first, last = metadata_bounds(buffer, start, end)
    if buffer.find(0x58, first, last) < 0 and buffer.find(0xD8, first, last) < 0:
        return False
    return scan(buffer, first, last).messages != -1


def publish_time(buffer: bytes, start: int = 0, end: int = -1) -> int:
    first, last = metadata_bounds(buffer, start, end)
    return scan(buffer, first, last).publish_time


def deliver_at(buffer: bytes, start: int = 0, end: int = -1) -> int:
    """Milliseconds since the epoch, 0 if the entry is not delayed."""
    first, last = metadata_bounds(buffer, start, end)
    if buffer.find(0x98, first, last) < 0:
        return 0
    return scan(buffer, first, last).deliver_at


def marker(buffer: bytes, start: int = 0, end: int = -1) -> int:
    """The marker type of an entry for brokers only, NO_MARKER for all others."""
    first, last = metadata_bounds(buffer, start, end)
    if buffer.find(0xA0, first, last) < 0:
        return NO_MARKER
    return scan(buffer, first, last).marker


def is_null(buffer: bytes, start: int = 0, end: int = -1) -> bool:
    """Whether the value of this single message is null (a tombstone) rather than empty."""
    first, last = metadata_bounds(buffer, start, end)
    return buffer.find(0xC8, first, last) >= 0 and scan(buffer, first, last).null_value


def sticky_key(buffer: bytes, start: int = 0, end: int = -1) -> bytes | None:
    """Ordering key, else key, else producer and sequence id: it selects the consumer in Key_Shared (SC-C3)."""
    first, last = metadata_bounds(buffer, start, end)
    return scan_key(buffer, first, last)


def key_hash(buffer: bytes, start: int = 0, end: int = -1) -> int:
    """Murmur3 of the sticky key, 32 bits, unsigned; `base.hashes` computes slots from it."""
    first, last = metadata_bounds(buffer, start, end)
    key = scan_key(buffer, first, last)
    value: int = _murmur3(NO_KEY if key is None else key, 0, False)
    return value


def stamps(buffer: bytes, start: int = 0, end: int = -1) -> tuple[int, int] | None:
    """The smallest and largest key hash that a client wrote into the entry; None without them."""
    first, last = metadata_bounds(buffer, start, end)
    if buffer.find(b"\x88\x02", first, last) < 0 and buffer.find(b"\x88\x82", first, last) < 0:
        return None
    metadata = scan(buffer, first, last)
    if metadata.hash_min < 0 or metadata.hash_max < 0:
        return None
    return metadata.hash_min, metadata.hash_max


def producer_and_sequence(buffer: bytes, start: int = 0, end: int = -1) -> tuple[str, int, int]:
    """Producer, sequence id, and the highest sequence id inside (the same for a single message)."""
    first, last = metadata_bounds(buffer, start, end)
    metadata = scan(buffer, first, last)
    if metadata.producer is None or metadata.sequence_id < 0:
        raise Corrupt("an entry's metadata lacks producer or sequence id")
    sequence = metadata.sequence_id
    highest = metadata.highest_sequence_id
    return _text(metadata.producer), sequence, highest if highest > sequence else sequence


def chunk(buffer: bytes, start: int = 0, end: int = -1) -> tuple[str, int, int] | None:
    """Uuid of the whole message, index of this chunk, number of chunks; None if the entry is not a chunk. A long uuid
    is replaced by its digest, because brokers keep uuids while messages are half delivered.
    """
    first, last = metadata_bounds(buffer, start, end)
    if buffer.find(0xD2, first, last) < 0:
        return None
    metadata = scan(buffer, first, last)
    if metadata.uuid is None or metadata.chunks < 1:
        return None
    uuid = metadata.uuid
    name = _text(uuid) if len(uuid) <= CHUNK_UUID_BYTES_MAX else f"long-{blake2b(uuid, digest_size=32).hexdigest()}"
    return name, metadata.chunk_id if metadata.chunk_id > 0 else 0, metadata.chunks


def read(buffer: bytes, start: int = 0, end: int = -1) -> Metadata:
    """All fields together, for callers that need several of them."""
    first, last = metadata_bounds(buffer, start, end)
    return scan(buffer, first, last)


def _checksum_start(buffer: bytes, start: int, end: int) -> int:
    """The start of the checksum block, after an optional broker block."""
    if start + 6 <= end and buffer[start] == 0x0E and buffer[start + 1] == 0x02:
        size: int = _LENGTH.unpack_from(buffer, start + 2)[0]
        return start + 6 + size
    return start


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise Corrupt("an entry's metadata has text that is not UTF-8") from None
