"""Moving the subscription of a scalable topic, asked for by one of its consumers: one plan over all segments.

The topic's leader does it; a seek is safe to repeat, so it is repeated while leaders come and go. Brokers disconnect
whoever reads what is moved before they say that it is done; `passed` waits until word of that has come, so that nothing
of before is handed out after a seek. Our own command: brokers of Apache Pulsar do not have it, which is `Refused`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from magnetar.base.errors import Conflict, MagnetarError, Misuse, TimedOut
from magnetar.client.arguments import check_places
from magnetar.client.batch_read.plan import check_ours
from magnetar.client.connection.backoff import persist
from magnetar.client.connection.connection import Connection
from magnetar.client.connection.lookup import Lookup, Route
from magnetar.client.consumer.scalable.checkpoint.start import StartAt, said
from magnetar.client.consumer.topic_consumer import TopicConsumer
from magnetar.layout.checkpoint import START, Kind, SegmentPosition
from magnetar.layout.readable_range import DONE as BEHIND_ALL
from magnetar.layout.readable_range import START as BEFORE_ALL
from magnetar.layout.readable_range import ReadPosition
from magnetar.wire.proto import pb
from magnetar.wire.scalable.checkpoint import Checkpoint
from magnetar.wire.scalable.plans import columns

SeekTo = StartAt  # as a checkpoint consumer starts


async def move(lookup: Lookup, leader: Callable[[], Route | None], topic: str, subscription: str, to: SeekTo) -> None:
    """`leader`: the way to who leads the topic; None: any broker is asked. Done when every segment is moved. Conflict:
    a later seek of the subscription took the place of this one."""
    command = _command(topic, subscription, *said(to))

    async def ask() -> Conflict | None:
        route = leader()
        connection = await (lookup.service() if route is None else lookup.pool.get(route.url, proxied=route.proxied))
        check_ours(connection, "seeks of subscriptions")
        command.seekSubscription.request_id = connection.next_request_id()
        try:
            await connection.request(command, command.seekSubscription.request_id, timeout_s=lookup.timeout_s)
        except Conflict as error:
            return error  # two that repeat themselves would never end
        return None

    overtaken = await persist(lookup.pool.runtime, lookup.timeout_s, ask, what=f"seek of {subscription}")
    if overtaken is not None:
        raise overtaken


def sought(to: SeekTo, topics: list[str]) -> list[str]:
    """Which of the topics of a consumer are moved: a checkpoint is of one."""
    where, _ = said(to)
    if where.kind is not Kind.PLACES:
        return topics
    if not where.topic and len(topics) > 1:
        raise Misuse(
            "the checkpoint does not say which topic it is of: a consumer of several is moved by one that does, as "
            "checkpoint consumers of this client make it",
            topics=topics[:3],
        )
    if not where.topic:
        return topics
    found = [topic for topic in topics if where.is_of(topic)]
    if not found:
        raise Misuse("the checkpoint is of another topic", checkpoint=where.topic, topics=topics[:3])
    return found


async def passed(parts: Iterable[TopicConsumer]) -> None:
    """Until all that brokers have sent to these before now has come."""
    by_connection = {part.connection: part for part in parts if part.connection is not None}
    await asyncio.gather(*(_asked(connection, part) for connection, part in by_connection.items()))


async def _asked(connection: Connection, part: TopicConsumer) -> None:
    """Whatever it answers: that comes behind all that was sent before."""
    command = pb.BaseCommand(type=pb.BaseCommand.GET_LAST_MESSAGE_ID)
    command.getLastMessageId.consumer_id = part.id
    command.getLastMessageId.request_id = connection.next_request_id()
    try:
        await connection.request(command, command.getLastMessageId.request_id, timeout_s=part.timeout_s)
    except TimedOut:
        raise
    except MagnetarError:
        return  # it is gone already, or the connection is, with all that was on it


def _command(topic: str, subscription: str, where: Checkpoint, time_ms: int | None) -> pb.BaseCommand:
    command = pb.BaseCommand(type=pb.BaseCommand.SEEK_SUBSCRIPTION)
    asked = command.seekSubscription
    asked.topic, asked.subscription = topic, subscription
    if time_ms is not None:
        asked.to, asked.publish_time = pb.FROM_TIME, time_ms
    elif where.kind is not Kind.PLACES:
        asked.to = pb.FROM_EARLIEST if where.kind is Kind.EARLIEST else pb.FROM_LATEST
    elif where.places:
        places = {id: _next(place) for id, place in where.places.items()}
        check_places(places, topic)
        asked.places.CopyFrom(columns(places))
        asked.incarnation = where.incarnation
    else:
        raise Misuse("the checkpoint says of no segment where it stands", topic=topic)
    return command


def _next(place: SegmentPosition) -> ReadPosition:
    """The first that is to come. Of a batch that was read in part, all of it: subscriptions are moved by entries. Where
    a message in chunks lies around the place, from its beginning on."""
    if place.is_done:
        return BEHIND_ALL
    if place == START:
        return BEFORE_ALL
    if place.around is not None:
        return ReadPosition(*place.around)
    whole = place.index < 0 or place.index == place.size - 1
    return ReadPosition(place.ledger, place.entry + whole)
