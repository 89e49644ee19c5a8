"""What a broker needs to know of an entry, read from its bytes without decoding the payload.

An entry is what follows the command of a SEND, stored and delivered as it came: an optional broker block (0x0e02,
size, block), an optional checksum block (0x0e01, CRC-32C), the metadata's size, MessageMetadata, payload. Whatever
cannot be read is `Corrupt`; nothing else is raised and nothing loops, whatever the bytes are. Each question takes
an entry as `bytes`, or a part `[start, end)` of a larger buffer. Rare fields are ruled out by looking for the bytes
that every encoding of their tag starts with. Hot: plain functions, so that mypyc compiles the file as it is.
"""

from __future__ import annotations

from struct import Struct

from google_crc32c import value as _crc32c
from mmh3 import hash as _murmur3

from magnetar.base.errors import Corrupt
from magnetar.wire.metadata import NO_MARKER, Metadata, scan, scan_key

NO_KEY = b"NONE_KEY"  # what is hashed where an entry has neither key nor producer; the wire's own word for it

_LENGTH = Struct(">I")


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
    messages = scan(buffer, first, last).messages
    return messages if messages > 1 else 1


def is_batch(buffer: bytes, start: int = 0, end: int = -1) -> bool:
    """The presence of num_messages_in_batch alone decides, even when it says 1."""
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
    """The marker type of an entry that only brokers read, NO_MARKER for all others."""
    first, last = metadata_bounds(buffer, start, end)
    if buffer.find(0xA0, first, last) < 0:
        return NO_MARKER
    return scan(buffer, first, last).marker


def is_null(buffer: bytes, start: int = 0, end: int = -1) -> bool:
    """Is the value of this single message null (a tombstone), rather than empty?"""
    first, last = metadata_bounds(buffer, start, end)
    return buffer.find(0xC8, first, last) >= 0 and scan(buffer, first, last).null_value


def sticky_key(buffer: bytes, start: int = 0, end: int = -1) -> bytes | None:
    """Ordering key, else key, else producer and sequence id: what decides the consumer in Key_Shared (SC-C3)."""
    first, last = metadata_bounds(buffer, start, end)
    return scan_key(buffer, first, last)


def key_hash(buffer: bytes, start: int = 0, end: int = -1) -> int:
    """Murmur3 of the sticky key, 32 bits, unsigned; `base.hashes` makes slots of it."""
    first, last = metadata_bounds(buffer, start, end)
    key = scan_key(buffer, first, last)
    value: int = _murmur3(NO_KEY if key is None else key, 0, False)
    return value


def stamps(buffer: bytes, start: int = 0, end: int = -1) -> tuple[int, int] | None:
    """The smallest and largest key hash a client stamped on the entry, None if it did not."""
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
    """Uuid of the whole message, this chunk's place, number of chunks; None if the entry is no chunk."""
    first, last = metadata_bounds(buffer, start, end)
    if buffer.find(0xD2, first, last) < 0:
        return None
    metadata = scan(buffer, first, last)
    if metadata.uuid is None or metadata.chunks < 1:
        return None
    return _text(metadata.uuid), metadata.chunk_id if metadata.chunk_id > 0 else 0, metadata.chunks


def read(buffer: bytes, start: int = 0, end: int = -1) -> Metadata:
    """Everything at once, for whoever has several questions."""
    first, last = metadata_bounds(buffer, start, end)
    return scan(buffer, first, last)


def _checksum_start(buffer: bytes, start: int, end: int) -> int:
    """Where the checksum block begins if there is one: after the broker block, if there is one."""
    if start + 6 <= end and buffer[start] == 0x0E and buffer[start + 1] == 0x02:
        size: int = _LENGTH.unpack_from(buffer, start + 2)[0]
        return start + 6 + size
    return start


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise Corrupt("an entry's metadata has text that is not UTF-8") from None
