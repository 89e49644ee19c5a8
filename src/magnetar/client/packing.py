"""Entries of a lane as the frames that carry them. Decides only.

Messages of one lane have the numbers of the whole producer, so those in a batch need not follow each other: then each
says its own.
"""

from __future__ import annotations

from typing import NamedTuple

from magnetar.client.batch import NOTHING, Batch, Stamp, chunk_frames, single_frame
from magnetar.client.lane import Entry
from magnetar.client.outgoing import Done, Fields


class Item(NamedTuple):
    """What a sender handed in."""

    payload: bytes
    fields: Fields | None
    done: Done | None


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
        item: Item = messages[0].item
        fields = item.fields if item.fields is not None else NOTHING
        sequence = messages[0].sequence
        if chunking:
            return Packed(chunk_frames(stamp, item.payload, fields, sequence, publish_time))
        return Packed([single_frame(stamp, item.payload, fields, sequence, publish_time)])
    batch = Batch(0.0)
    for message in messages:
        batch.add(message.item.payload, message.item.fields, None)
    first, highest = entry.sequence, entry.highest
    batch.sequences = None if highest - first + 1 == len(messages) else [message.sequence for message in messages]
    batch.last_sequence = highest
    return Packed([batch.close(stamp, first, publish_time)[2]])


def wire_size(payload: bytes, fields: Fields | None) -> int:
    """About what a message takes in an entry."""
    size = len(payload) + 16
    if fields is not None:
        size += len(fields.key or "") + len(fields.ordering_key or b"")
        if fields.properties:
            size += sum(len(name) + len(text) + 8 for name, text in fields.properties.items())
    return size
