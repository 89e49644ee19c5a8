"""The position of a delivered message in its segment, with the data for an acknowledgement up to it. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from magnetar.client.consumer.ack.acks import all_bits
from magnetar.client.message import Message, MessageId


@dataclass(frozen=True, slots=True, order=True)
class AckPosition:
    """`index` in its batch of `size`, -1 and 0 for a whole entry; `unacked` has the bits of the batch as delivered.
    `around`: a chunked message begins there and ends after this one, so messages before this one may be open
    (H-G13)."""

    ledger: int
    entry: int
    index: int = -1
    size: int = field(default=0, compare=False)
    unacked: int = field(default=0, compare=False)
    around: tuple[int, int] | None = field(default=None, compare=False)
    chunks: tuple[tuple[int, int], ...] = field(default=(), compare=False)  # of its own message; this one is the last

    @property
    def message_id(self) -> MessageId:
        first = None
        if self.around is not None:
            first = MessageId(*self.around)
            first = replace(first, first_chunk=first)  # of another message: chunks of its own message lack it
        return MessageId(self.ledger, self.entry, -1, self.index, self.size, first)


def place_of_message(message: Message[Any]) -> AckPosition:
    delivery = message._delivery
    chunks = () if delivery.chunks is None else tuple(delivery.chunks)
    return AckPosition(
        delivery.ledger, delivery.entry, message.batch_index, delivery.size, delivery.unacked, delivery.around, chunks
    )


def entry_of(message: Message[Any]) -> AckPosition:
    """The position of its whole entry."""
    delivery = message._delivery
    return AckPosition(delivery.ledger, delivery.entry, around=delivery.around)


def place_of_id(id: MessageId) -> AckPosition:
    size = max(id.batch_size, id.batch_index + 1)
    first = id.first_chunk
    around = None if first is None or first.first_chunk is None else (first.ledger, first.entry)
    return AckPosition(id.ledger, id.entry, id.batch_index, size, all_bits(size), around)


def completes(message: Message[Any]) -> bool:
    """Whether it is the last message of its entry. Only then a reader acknowledges the entry: the acknowledgement may
    reach the broker of its next connection, which would not deliver the rest of the batch."""
    return message.batch_index + 1 >= message._delivery.unacked.bit_length()
