"""Encodes SEND frames of batches, single messages and chunks, without a protobuf object per message.

Byte for byte the output of protobuf for the same metadata, with fields in ascending order. Common parts of several
messages are encoded once. It trusts its caller: texts are valid, numbers are unsigned 64-bit. Hot: plain functions, so
that mypyc compiles the file as it is.
"""

from __future__ import annotations

from struct import Struct, pack
from typing import TypeAlias

from google_crc32c import extend as _crc32c_more
from google_crc32c import value as _crc32c

from magnetar.wire.broker_frames import _LOW, _LOW_BITS, _LOW_MASK, _WHOLE, varint

# Fields of a message in a batch other than size and sequence id: those before its size, between the two, and after.
Extras: TypeAlias = tuple[bytes, bytes, bytes]


_LENGTH = Struct(">I")
_pack = _LENGTH.pack
_FRAME = Struct(">II")
_CHECKSUM = Struct(">HI")


def field_bytes(tag: bytes, value: bytes) -> bytes:
    return tag + varint(len(value)) + value


def properties_fields(tag: bytes, properties: dict[str, str]) -> bytes:
    """Repeated KeyValue, in the order of the dict."""
    parts: list[bytes] = []
    for name, text in properties.items():
        pair = field_bytes(b"\x0a", name.encode()) + field_bytes(b"\x12", text.encode())
        parts.append(field_bytes(tag, pair))
    return b"".join(parts)


def single_extras(
    properties: dict[str, str] | None,
    key: bytes | None,
    key_base64: bool,
    ordering_key: bytes | None,
    event_time: int,
    null_value: bool,
) -> Extras:
    """The extra fields of a message in a batch. `key` is in wire form: text, or base64 of bytes."""
    before = b"" if properties is None else properties_fields(b"\x0a", properties)
    between = b"" if not event_time else b"\x28" + varint(event_time)
    if key is not None:
        before += field_bytes(b"\x12", key)
        between += b"\x30\x01" if key_base64 else b"\x30\x00"
    if ordering_key is not None:
        between += field_bytes(b"\x3a", ordering_key)
    return before, between, b"\x48\x01" if null_value else b""


def batch_payload(
    payloads: list[bytes],
    first_sequence: int,
    sequences: list[int] | None,
    extras: dict[int, Extras] | None,
    sizes: list[int] | None = None,
) -> bytes:
    """The payload of a batch before compression. Sequence ids count up from the first unless all are given; `extras` by
    index, for messages that have any. Appends the size of each message to `sizes`, if given.
    """
    parts: list[bytes] = []
    append = parts.append
    sequence = first_sequence
    opening = high_bytes = sized_bytes = b""
    shape = high = sized = -1
    plain = 0
    for index, payload in enumerate(payloads):
        if sequences is not None:
            sequence = sequences[index]
        size = len(payload)
        # Inlined `varint`: the call costs more than the work.
        if sequence <= _LOW_MASK:
            sequence_bytes = _WHOLE[sequence]
        else:
            if sequence >> _LOW_BITS != high:
                high = sequence >> _LOW_BITS
                high_bytes = varint(high)
            sequence_bytes = _LOW[sequence & _LOW_MASK] + high_bytes
        fields = None if extras is None else extras.get(index)
        if fields is not None:
            before, between, after = fields
            if size != sized:
                sized = size
                sized_bytes = b"\x18" + varint(size)
            head = before + sized_bytes + between + b"\x40"
            length = len(head) + len(sequence_bytes) + len(after)
            append(_pack(length))
            append(head)
            append(sequence_bytes)
            append(after)
        else:
            if size << 4 | len(sequence_bytes) != shape:
                shape = size << 4 | len(sequence_bytes)
                size_bytes = _WHOLE[size] if size <= _LOW_MASK else varint(size)
                plain = 2 + len(size_bytes) + len(sequence_bytes)
                opening = _pack(plain) + b"\x18" + size_bytes + b"\x40"
            length = plain
            append(opening)
            append(sequence_bytes)
        append(payload)
        sequence += 1
        if sizes is not None:
            sizes.append(4 + length + size)
    return b"".join(parts)


def size_index(sizes: list[int]) -> bytes:
    """The size of each message of a batch, so that readers can locate all messages together; empty if all sizes are
    equal.
    """
    least, most = min(sizes), max(sizes)
    if least == most:
        return b""
    return pack(f"<B{len(sizes)}H", 2, *sizes) if most < 1 << 16 else pack(f"<B{len(sizes)}I", 4, *sizes)


def batch_metadata(
    producer: bytes,
    sequence: int,
    publish_time: int,
    *,
    count: int,
    highest: int,
    key: bytes | None = None,
    key_base64: bool = False,
    ordering_key: bytes | None = None,
    compression: int = 0,
    uncompressed_size: int = 0,
    schema_version: bytes | None = None,
    index: bytes = b"",
    hashes: tuple[int, int] | None = None,
) -> bytes:
    """MessageMetadata of a batch. Without compression it has no uncompressed_size, as in Java. `hashes`: the lowest and
    the highest hash of its keys, for entry buckets.
    """
    parts = [b"\x0a", varint(len(producer)), producer, b"\x10", varint(sequence), b"\x18", varint(publish_time)]
    if key is not None:
        parts += (b"\x32", varint(len(key)), key)
    if compression:
        parts += (b"\x40", varint(compression), b"\x48", varint(uncompressed_size))
    parts += (b"\x58", varint(count))
    if schema_version is not None:
        parts += (b"\x82\x01", varint(len(schema_version)), schema_version)
    if key is not None:
        parts.append(b"\x88\x01\x01" if key_base64 else b"\x88\x01\x00")
    if ordering_key is not None:
        parts += (b"\x92\x01", varint(len(ordering_key)), ordering_key)
    parts += (b"\xc0\x01", varint(highest))
    if hashes is not None:
        parts += (b"\x88\x02", varint(hashes[0]), b"\x90\x02", varint(hashes[1]))
    if index:
        parts += (b"\x9a\xf1\x04", varint(len(index)), index)
    return b"".join(parts)


def message_metadata(
    producer: bytes,
    sequence: int,
    publish_time: int,
    *,
    uncompressed_size: int,
    compression: int = 0,
    properties: dict[str, str] | None = None,
    key: bytes | None = None,
    key_base64: bool = False,
    replicated_from: bytes | None = None,
    replicate_to: list[bytes] | None = None,
    event_time: int = 0,
    schema_version: bytes | None = None,
    ordering_key: bytes | None = None,
    deliver_at: int = 0,
    null_value: bool = False,
) -> bytes:
    """MessageMetadata of a message that is its own entry."""
    parts = [b"\x0a", varint(len(producer)), producer, b"\x10", varint(sequence), b"\x18", varint(publish_time)]
    if properties is not None:
        parts.append(properties_fields(b"\x22", properties))
    if replicated_from is not None:
        parts += (b"\x2a", varint(len(replicated_from)), replicated_from)
    if key is not None:
        parts += (b"\x32", varint(len(key)), key)
    if replicate_to is not None:
        for cluster in replicate_to:
            parts += (b"\x3a", varint(len(cluster)), cluster)
    if compression:
        parts += (b"\x40", varint(compression))
    parts += (b"\x48", varint(uncompressed_size))
    if event_time:
        parts += (b"\x60", varint(event_time))
    if schema_version is not None:
        parts += (b"\x82\x01", varint(len(schema_version)), schema_version)
    if key is not None:
        parts.append(b"\x88\x01\x01" if key_base64 else b"\x88\x01\x00")
    if ordering_key is not None:
        parts += (b"\x92\x01", varint(len(ordering_key)), ordering_key)
    if deliver_at:
        parts += (b"\x98\x01", varint(deliver_at))
    if null_value:
        parts.append(b"\xc8\x01\x01")
    return b"".join(parts)


def chunk_fields(uuid: bytes, chunks: int, total: int, place: int) -> bytes:
    """The fields after `message_metadata` in each chunk of a message; their numbers are higher than all others."""
    return b"".join(
        (
            field_bytes(b"\xd2\x01", uuid),
            b"\xd8\x01",
            varint(chunks),
            b"\xe0\x01",
            varint(total),
            b"\xe8\x01",
            varint(place),
        )
    )


def send_frame(
    producer_id: int,
    sequence: int,
    metadata: bytes,
    payload: bytes | memoryview,
    *,
    count: int = 1,
    highest: int = -1,
    chunk: bool = False,
) -> bytes:
    """The complete frame: command, checksum block, metadata, payload."""
    body = b"\x08" + varint(producer_id) + b"\x10" + varint(sequence)
    if count > 1:
        body += b"\x18" + varint(count)
    if highest >= 0:
        body += b"\x30" + varint(highest)
    if chunk:
        body += b"\x38\x01"
    command = b"\x08\x06\x32" + varint(len(body)) + body
    covered = _pack(len(metadata)) + metadata
    checksum = _crc32c_more(_crc32c(covered), payload)
    total = 4 + len(command) + 6 + len(covered) + len(payload)
    return b"".join((_FRAME.pack(total, len(command)), command, _CHECKSUM.pack(0x0E01, checksum), covered, payload))
