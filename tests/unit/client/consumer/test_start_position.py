"""What a start hides: brokers start at an entry, clients mean a message, with or without itself."""

from __future__ import annotations

import pytest

from magnetar.client.consumer.start_position import StartPosition, hidden_bits
from magnetar.client.message import MessageId


@pytest.mark.parametrize(
    ("start", "position", "size", "hidden"),
    [
        (StartPosition(MessageId(5, 3)), (5, 2), 0, 1),
        (StartPosition(MessageId(5, 3)), (5, 3), 0, 1),
        (StartPosition(MessageId(5, 3)), (5, 4), 0, 0),
        (StartPosition(MessageId(5, 3)), (6, 0), 0, 0),
        (StartPosition(MessageId(5, 3), inclusive=True), (5, 3), 0, 0),
        (StartPosition(MessageId(5, 3), inclusive=True), (5, 2), 10, 10),
        (StartPosition(MessageId(5, 3)), (5, 3), 10, 10),
        (StartPosition(MessageId(5, 3, batch_index=4)), (5, 3), 10, 5),
        (StartPosition(MessageId(5, 3, batch_index=4), inclusive=True), (5, 3), 10, 4),
        (StartPosition(MessageId(5, 3, batch_index=9)), (5, 3), 10, 10),
        (StartPosition(MessageId(5, 3, batch_index=20)), (5, 3), 10, 10),
        (StartPosition(MessageId(5, 3, batch_index=4)), (5, 4), 10, 0),
        (StartPosition(MessageId.EARLIEST), (0, 0), 0, 0),
        (StartPosition(MessageId.LATEST), (0, 0), 0, 0),
    ],
)
def test_hidden_messages_at_front_of_entry(start, position, size, hidden):
    assert start.hides(position, size) == hidden


def test_chunked_message_starts_with_its_first_chunk():
    chunked = MessageId(5, 9, first_chunk=MessageId(5, 7))
    assert StartPosition(chunked, inclusive=True).wire_id == MessageId(5, 7)
    assert StartPosition(chunked, inclusive=True).hides((5, 6), 0) == 1
    assert StartPosition(chunked, inclusive=True).hides((5, 7), 0) == 0
    assert StartPosition(chunked).wire_id == chunked
    assert StartPosition(chunked).hides((5, 9), 0) == 1


def test_passed_means_behind_everything_hidden():
    start = StartPosition(MessageId(5, 3))
    assert not start.passed((5, 3))
    assert start.passed((5, 4))


def test_hidden_bits():
    assert hidden_bits(0b11111, 2) == 0b11100
    assert hidden_bits(0b11011, 3) == 0b11000


def test_reading_starts_at_first_chunk_and_hides_delivered_messages():
    start = StartPosition(MessageId(5, 3), around=(4, 8))
    assert start.wire_id == MessageId(4, 8)
    assert [start.hides(position, 0) for position in ((4, 9), (5, 3), (5, 4))] == [1, 1, 0]
