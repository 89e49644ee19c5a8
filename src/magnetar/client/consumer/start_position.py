"""The position where reading starts, and the messages of the first entries that are hidden for it.

Brokers start at an entry; clients mean a message, inclusive or exclusive. This module filters the difference. Pure
decisions.
"""

from __future__ import annotations

from dataclasses import dataclass

from magnetar.client.consumer.ack.acks import all_bits
from magnetar.client.message import MessageId


@dataclass(frozen=True, slots=True)
class StartPosition:
    """Messages before `id` are hidden, and also the message itself unless `inclusive`. `around`: a chunked message that
    begins there and ends after `id` is shown, so its chunks must be delivered."""

    id: MessageId
    inclusive: bool = False
    around: tuple[int, int] | None = None

    @property
    def wire_id(self) -> MessageId:
        """The id for the broker. A chunked message starts with its first chunk."""
        if self.around is not None:
            return MessageId(*self.around)
        if self.inclusive and self.id.first_chunk is not None:
            return self.id.first_chunk
        return self.id

    @property
    def open(self) -> bool:
        """Earliest and latest hide no message: the broker starts exactly there."""
        return self.id in (MessageId.EARLIEST, MessageId.LATEST)

    def hides(self, position: tuple[int, int], size: int) -> int:
        """The number of hidden messages at the front of an entry: of a batch of `size`, or of 1 if `size` is 0."""
        if self.open:
            return 0
        whole = size or 1
        here = (self.id.ledger, self.id.entry)
        first_chunk = self.id.first_chunk
        if self.inclusive and first_chunk is not None:
            here = (first_chunk.ledger, first_chunk.entry)
        if position < here:
            return whole
        if position > here:
            return 0
        if self.id.batch_index < 0 or size == 0:
            return 0 if self.inclusive else whole
        return min(whole, self.id.batch_index + (not self.inclusive))

    def passed(self, position: tuple[int, int]) -> bool:
        """Whether an entry is after all hidden messages."""
        return position > (self.id.ledger, self.id.entry)


def hidden_bits(unacked: int, hidden: int) -> int:
    """The bits of a batch without its first `hidden` messages."""
    return unacked & ~all_bits(hidden)
