"""Encodes the entries of a segment queue as frames. Pure decisions.

Sequence numbers count over the whole producer, so the messages of one segment may have gaps between them. Each message
of such a batch then carries its own number.
"""

from __future__ import annotations

from magnetar.client.producer.batch import NOTHING, Batch, Stamp, chunk_frames, single_frame
from magnetar.client.producer.fields import MessageFields
from magnetar.client.producer.scalable.segment_queue import QueuedEntry


class EncodedEntry:
    """The frames of an entry; the broker answers each. `first` is the position of the first frame of several."""

    __slots__ = ("first", "frames")

    def __init__(self, frames: list[bytes]) -> None:
        self.frames = frames
        self.first: tuple[int, int] | None = None


def pack(entry: QueuedEntry, stamp: Stamp, publish_time: int, *, chunking: bool) -> EncodedEntry:
    """`LimitExceeded` if the entry exceeds the broker's limit."""
    columns = entry.columns
    if columns is not None and len(columns) > 1:
        batch = Batch(0.0)
        batch.fill(columns.items, columns.fields)
        return _packed_batch(batch, entry, columns.sequences, stamp, publish_time)
    messages = entry.messages
    if len(messages) == 1:
        only = messages[0]
        if only.count > 1:
            return EncodedEntry([only.item.frame(stamp, publish_time)])
        payload: bytes = only.item
        fields = only.fields if only.fields is not None else NOTHING
        if chunking:
            return EncodedEntry(chunk_frames(stamp, payload, fields, only.sequence, publish_time))
        return EncodedEntry([single_frame(stamp, payload, fields, only.sequence, publish_time)])
    batch = Batch(0.0)
    batch.fill([message.item for message in messages], [message.fields for message in messages])
    return _packed_batch(batch, entry, [message.sequence for message in messages], stamp, publish_time)


def _packed_batch(
    batch: Batch, entry: QueuedEntry, sequences: list[int], stamp: Stamp, publish_time: int
) -> EncodedEntry:
    first, highest = sequences[0], sequences[-1]
    batch.sequences = None if highest - first + 1 == len(sequences) else sequences
    batch.last_sequence = highest
    batch.hashes = entry.hashes
    return EncodedEntry([batch.close(stamp, first, publish_time)[2]])


def simple_size(payload: bytes, fields: MessageFields | None) -> int:
    """As `wire_size`, for a message that has at most a text key."""
    return len(payload) + 16 if fields is None or fields.key is None else len(payload) + 16 + len(fields.key)


def wire_size(payload: bytes, fields: MessageFields | None) -> int:
    """The approximate size of a message in an entry."""
    size = len(payload) + 16
    if fields is not None:
        if fields.key is not None:
            size += len(fields.key)
        if fields.ordering_key is not None:
            size += len(fields.ordering_key)
        if fields.properties:
            size += sum(len(name) + len(text) + 8 for name, text in fields.properties.items())
    return size
