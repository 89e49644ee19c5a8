"""Can an entry hold as many messages as its SEND claims?

The broker takes permits, counts unacknowledged messages and feeds its metrics by the number in the command, so it must
be the number in the entry's metadata, and the entry's bytes must have room for so many. Nothing is decompressed: a
compressed payload has room for what its form can make of its bytes at most. Entries of one message are not looked at.
Called once for each batch that arrives.
"""

from __future__ import annotations

from google.protobuf.message import DecodeError

from magnetar.base.errors import Corrupt
from magnetar.base.limits import BATCH_MESSAGE_BYTES_MIN, BATCH_MESSAGES_MAX
from magnetar.wire import codec
from magnetar.wire.entry import metadata_bounds
from magnetar.wire.proto import pb
from magnetar.wire.send_reader import SendRun

_parse_metadata = pb.MessageMetadata.FromString


def first_false(sends: SendRun) -> tuple[int, str] | None:
    """The first entry of a run that claims more messages than it can hold, and why it is refused."""
    offsets = sends.offsets
    for index, count in enumerate(sends.counts):
        if count > 1:
            why = refusal(sends.body, offsets[index], offsets[index + 1], count)
            if why:
                return index, why
    return None


def refusal(buffer: bytes, start: int, end: int, count: int) -> str:
    """Why an entry is not a batch of `count` messages, empty if it may be one."""
    try:
        first, last = metadata_bounds(buffer, start, end)
        metadata = _parse_metadata(buffer[first:last])
    except (Corrupt, DecodeError):
        return "the metadata of this batch cannot be parsed: send it again with valid metadata"
    claimed = metadata.num_messages_in_batch  # 1 where the field is missing
    if claimed != count:
        return f"the SEND claims {count} messages and its metadata {claimed}: both must be the same number"
    return no_room(metadata, end - last)


def no_room(metadata: pb.MessageMetadata, payload_bytes: int) -> str:
    """Why a payload of so many bytes cannot hold the batch that its metadata claims, empty if it may hold it."""
    count = metadata.num_messages_in_batch
    if count > BATCH_MESSAGES_MAX:
        return f"a batch of {count} messages is refused: the limit is {BATCH_MESSAGES_MAX}, send smaller batches"
    room = payload_bytes
    kind = metadata.compression
    if kind:
        room = min(metadata.uncompressed_size, codec.inflated_max(kind, payload_bytes))
    if count * BATCH_MESSAGE_BYTES_MIN > room:
        return f"a batch of {count} messages has {count * BATCH_MESSAGE_BYTES_MIN} bytes or more, and this one {room}"
    return ""
