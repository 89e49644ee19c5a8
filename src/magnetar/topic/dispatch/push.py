"""Entries of a run out to one consumer: frames from templates, permits paid, counters kept.

The straight case (nothing acknowledged inside, nothing redelivered) makes a whole stretch with one call; the careful
case goes entry by entry and says which messages of a batch are still open and how often the entry was delivered before.
"""

from __future__ import annotations

from magnetar.base.errors import Corrupt
from magnetar.ledger.cursor.cursor import Cursor
from magnetar.ledger.run import Run
from magnetar.topic.dispatch.permits import Chunk
from magnetar.topic.subscriptions.consumer import Consumer
from magnetar.wire import broker_frames, entry

_WORD = 0xFFFF_FFFF_FFFF_FFFF


def push_stretch(consumer: Consumer, run: Run, start: int, stop: int, partition: int) -> None:
    """Writes entries [start, stop), whole and never delivered before, in one write."""
    messages = run.messages if stop - start == len(run.counts) else sum(run.counts[start:stop])
    consumer.outlet.write(
        broker_frames.messages(
            consumer.id,
            run.body,
            run.offsets,
            start,
            stop,
            ledger=run.ledger,
            first_entry=run.first,
            partition=partition,
            epoch=consumer.epoch,
        )
    )
    consumer.permits -= messages
    consumer.messages_out += messages
    consumer.bytes_out += run.offsets[stop] - run.offsets[start]


def open_messages(words: list[int] | None) -> int:
    """How many bits are set in the words of an `ack_set`."""
    return sum((word & _WORD).bit_count() for word in words or ())


def words_of(cursor: Cursor, run: Run, index: int) -> int:
    """The number of words that name the open messages of an entry in its frame. Each costs as much as a small entry."""
    words = cursor.words(run.position(index))
    return min(words, (run.counts[index] + 63) // 64) if words else 0


def frame_of(consumer: Consumer, run: Run, index: int, cursor: Cursor, partition: int) -> tuple[bytes, int]:
    """The frame of one entry, with its redelivery count and what of its batch is open, and the messages it takes."""
    position = run.position(index)
    count = run.counts[index]
    words = cursor.bits(position, count)
    if words is not None:
        count = max(1, open_messages(words))
    redelivery = cursor.redelivery(position)
    body = run.entry(index)
    consumer.permits -= count
    consumer.messages_out += count
    consumer.bytes_out += len(body)
    if redelivery:
        consumer.redelivered += count
    frame = broker_frames.message(
        consumer.id,
        run.ledger,
        run.first + index,
        body,
        partition=partition,
        redelivery_count=redelivery,
        ack_set=words,
        epoch=consumer.epoch,
    )
    return frame, count


def chunk_of(run: Run, index: int) -> Chunk | None:
    try:
        chunk = entry.chunk(run.body, run.offsets[index], run.offsets[index + 1])
    except Corrupt:
        return None  # a client's broken metadata is for its reader to refuse
    return None if chunk is None else Chunk(chunk[0], chunk[1] == chunk[2] - 1)
