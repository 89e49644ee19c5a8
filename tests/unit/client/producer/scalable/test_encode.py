"""Entries of a queue as frames: numbers that do not follow each other are said one by one."""

from __future__ import annotations

from magnetar.client.producer.batch import Stamp
from magnetar.client.producer.fields import MessageFields
from magnetar.client.producer.router import KeyRoute
from magnetar.client.producer.scalable.encode import pack, wire_size
from magnetar.client.producer.scalable.queued_messages import QueuedMessage
from magnetar.client.producer.scalable.segment_queue import QueuedEntry
from magnetar.wire import frames, message
from magnetar.wire.proto import pb

STAMP = Stamp(7, b"p-seg-1", None, 0, 1 << 20)


def an_entry(*sequences: int) -> QueuedEntry:
    return QueuedEntry(
        [QueuedMessage(b"%d" % number, KeyRoute(0, 0), number, number, size=1, deadline=1.0) for number in sequences]
    )


def opened(frame: bytes) -> tuple[pb.CommandSend, message.Opened]:
    ((start, middle, end),), _ = frames.split(frame, 0, 1 << 20)
    command = frames.decode_command(frame, start, middle)
    assert command is not None
    return command.send, message.open_entry(frame[middle:end])


def numbers(entry: message.Opened) -> list[int]:
    return [
        single.sequence_id for single, _ in message.split_batch(entry.payload, entry.metadata.num_messages_in_batch)
    ]


def test_batch_with_gaps_states_every_number_and_range():
    (frame,) = pack(an_entry(3, 7, 9), STAMP, 1, chunking=False).frames
    send, entry = opened(frame)
    assert (send.sequence_id, send.highest_sequence_id, send.num_messages) == (3, 9, 3)
    assert numbers(entry) == [3, 7, 9]


def test_batch_without_gaps_is_numbered_on_from_its_first():
    (frame,) = pack(an_entry(3, 4, 5), STAMP, 1, chunking=False).frames
    send, entry = opened(frame)
    assert (send.sequence_id, send.highest_sequence_id) == (3, 5)
    assert numbers(entry) == [3, 4, 5]


def test_message_alone_is_plain_entry():
    (frame,) = pack(an_entry(3), STAMP, 1, chunking=True).frames
    send, entry = opened(frame)
    assert (send.sequence_id, entry.payload) == (3, b"3")
    assert not entry.metadata.HasField("num_messages_in_batch")


def test_size_on_wire_counts_what_sender_said():
    fields = MessageFields()
    fields.key = "key"
    fields.properties = {"a": "b"}
    assert wire_size(b"12345", fields) > wire_size(b"12345", None) > 5
