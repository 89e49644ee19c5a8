"""Moves a topic's consumer to another position, and finds the end of its topic.

A seek is idempotent, so it is repeated until its deadline while brokers restart or move. A broker disconnects the
consumer that it moves; the consumer reconnects, and the seek ends then. Queued messages and messages in flight are
outdated and never shown; acknowledgements made before are sent first.
"""

from __future__ import annotations

import asyncio

from magnetar.base.errors import ConsumerNotFound, MagnetarError, NotReady, Outcome, TimedOut
from magnetar.client.connection.backoff import persist
from magnetar.client.consumer.start_position import StartPosition
from magnetar.client.consumer.topic_consumer import TopicConsumer
from magnetar.client.message import MessageId
from magnetar.runtime.runtime import Runtime
from magnetar.wire.ids import from_data
from magnetar.wire.proto import pb


async def seek(part: TopicConsumer, runtime: Runtime, target: StartPosition | int, timeout_s: float) -> None:
    """Move to a message, or to the first message published at or after a time in milliseconds."""
    before = (part.start, part.queue.last)
    part.skip(True)
    try:
        # Set before the request: a consumer that reconnects in between already starts at the new position.
        part.start = target if isinstance(target, StartPosition) else None
        part.queue.last = None
        await persist(runtime, timeout_s, lambda: _seek_once(part, target), what="seek")
        try:
            async with asyncio.timeout(timeout_s):
                await part.until_attached()
        except TimeoutError:
            raise TimedOut("the broker moved the consumer, which did not reconnect in time") from None
    except MagnetarError as error:
        if error.outcome is Outcome.DEFINITE:
            part.start, part.queue.last = before
        raise
    finally:
        part.skip(False)


async def _seek_once(part: TopicConsumer, target: StartPosition | int) -> None:
    connection = await part.until_attached()
    part.acker.flush()
    command = pb.BaseCommand(type=pb.BaseCommand.SEEK)
    command.seek.consumer_id = part.id
    command.seek.request_id = connection.next_request_id()
    if isinstance(target, StartPosition):
        wire_id = target.wire_id
        command.seek.message_id.ledgerId = wire_id.ledger % (1 << 64)
        command.seek.message_id.entryId = wire_id.entry % (1 << 64)
    else:
        command.seek.message_publish_time = target
    try:
        await connection.request(command, command.seek.request_id, timeout_s=part.timeout_s)
    except ConsumerNotFound as error:  # the consumer was disconnected at that moment and reconnects
        raise NotReady(str(error)) from error
    part.moved()


async def last_message(part: TopicConsumer, runtime: Runtime, timeout_s: float) -> tuple[MessageId, MessageId | None]:
    """The last message of the topic, (-1, -1) if it is empty, and the acknowledged position of the subscription."""

    async def ask() -> pb.CommandGetLastMessageIdResponse:
        connection = await part.until_attached()
        command = pb.BaseCommand(type=pb.BaseCommand.GET_LAST_MESSAGE_ID)
        command.getLastMessageId.consumer_id = part.id
        command.getLastMessageId.request_id = connection.next_request_id()
        try:
            reply = await connection.request(command, command.getLastMessageId.request_id, timeout_s=part.timeout_s)
        except ConsumerNotFound as error:
            raise NotReady(str(error)) from error
        return reply.getLastMessageIdResponse

    response = await persist(runtime, timeout_s, ask, what="last message id")
    id = from_data(response.last_message_id)
    last = MessageId(id.ledger, id.entry, id.partition, id.batch_index, id.batch_size, topic=part.topic)
    if not response.HasField("consumer_mark_delete_position"):
        return last, None
    return last, from_data(response.consumer_mark_delete_position)


async def has_message(part: TopicConsumer, runtime: Runtime, timeout_s: float) -> bool:
    """Whether the topic has a message after the last one taken."""
    last, mark = await last_message(part, runtime, timeout_s)
    if last.entry < 0:
        return False
    taken = part.queue.last
    if taken is not None:
        return _place(last) > _place(taken.id)
    start = part.start
    if start is not None and start.id == MessageId.EARLIEST:
        return True
    if start is not None and start.id != MessageId.LATEST:
        return _place(last) >= _place(start.id) if start.inclusive else _behind(last, start.id)
    return mark is not None and (last.ledger, last.entry) > (mark.ledger, mark.entry)


def _place(message_id: MessageId) -> tuple[int, int, int]:
    return message_id.ledger, message_id.entry, message_id.batch_index


def _behind(last: MessageId, start: MessageId) -> bool:
    """Whether `last` is after `start`. An id without a batch index stands for its whole entry."""
    if start.batch_index < 0:
        return (last.ledger, last.entry) > (start.ledger, start.entry)
    return _place(last) > _place(start)
