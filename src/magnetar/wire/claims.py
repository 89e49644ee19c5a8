"""Checks that an entry can contain as many messages as its SEND claims.

The broker uses the number in the command for permits, unacknowledged messages and metrics. So it must equal the number
in the entry's metadata, and the entry must be large enough for it. Nothing is decompressed: for a compressed payload,
the maximum ratio of its format bounds the size. Entries of one message are not checked. Called once for each arriving
batch.
"""

from __future__ import annotations

from struct import Struct

from google.protobuf.message import DecodeError

from magnetar.base.errors import Corrupt
from magnetar.base.limits import BATCH_MESSAGE_BYTES_MIN, BATCH_MESSAGES_MAX
from magnetar.wire import codec
from magnetar.wire.entry import metadata_bounds
from magnetar.wire.proto import pb
from magnetar.wire.send_reader import SendRun

_CHECKED = Struct(">HII")  # before the metadata of an entry with a checksum
_CHECKSUM_MAGIC = 0x0E01
_parse_metadata = pb.MessageMetadata.FromString


def first_false(sends: SendRun) -> tuple[int, str] | None:
    """The first entry of a run that claims more messages than it can hold, and the reason of its rejection."""
    offsets = sends.offsets
    for index, count in enumerate(sends.counts):
        if count > 1:
            why = refusal(sends.body, offsets[index], offsets[index + 1], count)
            if why:
                return index, why
    return None


def refusal(buffer: bytes, start: int, end: int, count: int) -> str:
    """The reason why an entry cannot be a batch of `count` messages; empty if it can."""
    try:
        first = last = start + _CHECKED.size
        magic = 0
        if first <= end:
            magic, _, size = _CHECKED.unpack_from(buffer, start)
            last += size
        if magic != _CHECKSUM_MAGIC or last > end:  # not the usual form, which spares a call
            first, last = metadata_bounds(buffer, start, end)
        metadata = _parse_metadata(buffer[first:last])
    except (Corrupt, DecodeError):
        return "the metadata of this batch cannot be parsed: send it again with valid metadata"
    claimed = metadata.num_messages_in_batch  # 1 where the field is missing
    if claimed != count:
        return f"the SEND has {count} messages and its metadata {claimed}: both must be the same number"
    if not metadata.compression and count <= BATCH_MESSAGES_MAX and count * BATCH_MESSAGE_BYTES_MIN <= end - last:
        return ""
    return no_room(metadata, end - last)


def no_room(metadata: pb.MessageMetadata, payload_bytes: int) -> str:
    """The reason why a payload of this size cannot hold the batch of its metadata; empty if it can."""
    count = metadata.num_messages_in_batch
    if count > BATCH_MESSAGES_MAX:
        return f"a batch must have at most {BATCH_MESSAGES_MAX} messages, got {count}: send smaller batches"
    room = payload_bytes
    kind = metadata.compression
    if kind:
        room = min(metadata.uncompressed_size, codec.inflated_max(kind, payload_bytes))
    if count * BATCH_MESSAGE_BYTES_MIN > room:
        return f"a batch of {count} messages must have at least {count * BATCH_MESSAGE_BYTES_MIN} bytes, got {room}"
    return ""
