"""The start position of a checkpoint consumer: the user's value, and the positions to request from brokers.

"Latest" and a time are resolved once, when the consumer opens, to a position in every segment (H-G2): every later
message is read, in any segment. A segment is asked through a reader that requests no messages and is closed after the
answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from magnetar.base.errors import Misuse
from magnetar.base.ids import SegmentId
from magnetar.base.limits import SUBSCRIBES_AT_ONCE_MAX
from magnetar.client.arguments import is_publish_ms
from magnetar.client.connection.lookup import Lookup
from magnetar.client.consumer.config import ConsumerConfig, InitialPosition
from magnetar.client.consumer.context import ConsumerContext, ScalableSegment, TopicCallbacks
from magnetar.client.consumer.receive.receive_queue import ReceiveQueue
from magnetar.client.consumer.receive.waiters import ReceiveWaiters
from magnetar.client.consumer.seek import last_message, seek
from magnetar.client.consumer.topic_consumer import TopicConsumer
from magnetar.client.counters import Counters
from magnetar.client.message import MessageId
from magnetar.client.schema import BYTES
from magnetar.layout.checkpoint import START, SegmentPosition
from magnetar.wire.scalable.checkpoint import Checkpoint, place_of, whole

# A checkpoint or its bytes; the earliest or latest message; a publish time, in milliseconds or as a date.
StartAt = Checkpoint | bytes | InitialPosition | datetime | int


def said(start: StartAt) -> tuple[Checkpoint, int | None]:
    """The checkpoint to begin with. If the start is a time, returns it too, with the checkpoint EARLIEST."""
    match start:
        case Checkpoint():
            return start, None
        case bytes():
            return whole(start), None
        case InitialPosition.EARLIEST:
            return Checkpoint.EARLIEST, None
        case InitialPosition.LATEST:
            return Checkpoint.LATEST, None
        case datetime() if start.timestamp() >= 0:
            return Checkpoint.EARLIEST, int(start.timestamp() * 1000)
        case int() if is_publish_ms(start):
            return Checkpoint.EARLIEST, start
    raise Misuse(
        "start or seek position must be a Checkpoint or its bytes, InitialPosition.EARLIEST or "
        "LATEST, or a publish time (a datetime, or milliseconds since 1970)",
        given=repr(start)[:80],
    )


async def places(
    lookup: Lookup, config: ConsumerConfig, topics: Mapping[SegmentId, str], since_ms: int | None
) -> dict[SegmentId, SegmentPosition]:
    """The last message of each segment now, or the last one before a time."""
    room = asyncio.Semaphore(SUBSCRIBES_AT_ONCE_MAX)

    async def one(segment: SegmentId, topic: str) -> tuple[SegmentId, SegmentPosition]:
        async with room:
            return segment, await _place(lookup, config, segment, topic, since_ms)

    results = await asyncio.gather(*(one(id, topic) for id, topic in topics.items()), return_exceptions=True)
    for answer in results:
        if isinstance(answer, BaseException):  # after all are done, so that no task is left
            raise answer
    return dict(answer for answer in results if not isinstance(answer, BaseException))


async def _place(
    lookup: Lookup, config: ConsumerConfig, segment: SegmentId, topic: str, since_ms: int | None
) -> SegmentPosition:
    inbox = ReceiveQueue(config.queue_bytes)
    runtime = lookup.pool.runtime
    part = TopicConsumer(
        ConsumerContext(lookup, inbox, ReceiveWaiters(inbox), Counters(), BYTES, consumer=None),
        topic,
        replace(
            config,
            subscription=f"{config.subscription}-{config.name}-asks",
            name=f"{config.name}-seg-{segment}",
            start=MessageId.LATEST if since_ms is None else MessageId.EARLIEST,
            paused=True,
        ),
        queue_messages=1,
        callbacks=TopicCallbacks(ended=lambda part: None, failed=lambda part, error: None),
        segment=ScalableSegment(segment),
        creates=False,
    )
    await part.open(lookup.timeout_s)
    try:
        if since_ms is not None:
            await seek(part, runtime, since_ms, lookup.timeout_s)
        last, mark = await last_message(part, runtime, lookup.timeout_s)
    finally:
        await part.close()
    if mark is not None:  # the position where this reader would continue; `last` may be newer
        return START if mark.ledger < 0 else SegmentPosition(mark.ledger, mark.entry)
    return START if last.entry < 0 else place_of(last)
