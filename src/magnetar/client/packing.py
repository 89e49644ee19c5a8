"""Entries of a lane as the frames that carry them. Decides only.

Messages of one lane have the numbers of the whole producer, so those in a batch need not follow each other: then each
says its own.
"""

from __future__ import annotations

from magnetar.client.batch import NOTHING, Batch, Stamp, chunk_frames, single_frame
from magnetar.client.lane import Entry
from magnetar.client.outgoing import Fields


class Packed:
    """The frames of an entry, each of which gets an answer. `first` is where the first of several was stored."""

    __slots__ = ("first", "frames")

    def __init__(self, frames: list[bytes]) -> None:
        self.frames = frames
        self.first: tuple[int, int] | None = None


def pack(entry: Entry, stamp: Stamp, publish_time: int, *, chunking: bool) -> Packed:
    """`LimitExceeded` if the broker would not take it."""
    messages = entry.messages
    if len(messages) == 1:
        only = messages[0]
        if only.count > 1:
            return Packed([only.item.frame(stamp, publish_time)])
        payload: bytes = only.item
        fields = only.fields if only.fields is not None else NOTHING
        if chunking:
            return Packed(chunk_frames(stamp, payload, fields, only.sequence, publish_time))
        return Packed([single_frame(stamp, payload, fields, only.sequence, publish_time)])
    batch = Batch(0.0)
    batch.fill([message.item for message in messages], [message.fields for message in messages])
    first, highest = entry.sequence, entry.highest
    batch.sequences = None if highest - first + 1 == len(messages) else [message.sequence for message in messages]
    batch.last_sequence = highest
    batch.hashes = entry.hashes
    return Packed([batch.close(stamp, first, publish_time)[2]])


def wire_size(payload: bytes, fields: Fields | None) -> int:
    """About what a message takes in an entry."""
    size = len(payload) + 16
    if fields is not None:
        if fields.key is not None:
            size += len(fields.key)
        if fields.ordering_key is not None:
            size += len(fields.ordering_key)
        if fields.properties:
            size += sum(len(name) + len(text) + 8 for name, text in fields.properties.items())
    return size
