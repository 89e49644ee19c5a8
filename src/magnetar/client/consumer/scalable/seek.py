"""Moves the subscription of a scalable topic on request of one of its consumers: one plan over all segments.

The topic's leader executes it. A seek is idempotent, so it is repeated while leaders change. Brokers disconnect the
readers of a moved segment before they report success; `passed` waits until that disconnect has arrived, so that no
earlier message is delivered after a seek. The command is a Magnetar extension: Apache Pulsar brokers do not support it
(`Refused`).
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

SeekTo = StartAt  # the same positions as the start of a checkpoint consumer


async def move(lookup: Lookup, leader: Callable[[], Route | None], topic: str, subscription: str, to: SeekTo) -> None:
    """`leader` returns the route to the topic's leader; None: ask any broker. Returns when every segment is moved.
    Conflict: a later seek of the subscription replaced this one."""
    command = _command(topic, subscription, *said(to))

    async def ask() -> Conflict | None:
        route = leader()
        connection = await (lookup.service() if route is None else lookup.pool.get(route.url, proxied=route.proxied))
        check_ours(connection, "seeks of subscriptions")
        command.seekSubscription.request_id = connection.next_request_id()
        try:
            await connection.request(command, command.seekSubscription.request_id, timeout_s=lookup.timeout_s)
        except Conflict as error:
            return error  # two callers that repeat their seeks would never end
        return None

    overtaken = await persist(lookup.pool.runtime, lookup.timeout_s, ask, what=f"seek of {subscription}")
    if overtaken is not None:
        raise overtaken


def sought(to: SeekTo, topics: list[str]) -> list[str]:
    """The topics of a consumer to move: a checkpoint moves one."""
    where, _ = said(to)
    if where.kind is not Kind.PLACES:
        return topics
    if not where.topic and len(topics) > 1:
        raise Misuse(
            "the checkpoint names no topic: to seek a consumer of several topics, pass one that does, as checkpoint "
            "consumers of this client create it",
            topics=topics[:3],
        )
    if not where.topic:
        return topics
    matching = [topic for topic in topics if where.is_of(topic)]
    if not matching:
        raise Misuse(
            "the checkpoint is of another topic: pass a checkpoint of this consumer's topic",
            checkpoint=where.topic,
            topics=topics[:3],
        )
    return matching


async def passed(parts: Iterable[TopicConsumer]) -> None:
    """Wait until everything that brokers sent to these consumers before now has arrived."""
    by_connection = {part.connection: part for part in parts if part.connection is not None}
    await asyncio.gather(*(_asked(connection, part) for connection, part in by_connection.items()))


async def _asked(connection: Connection, part: TopicConsumer) -> None:
    """Any answer is sufficient: it arrives after everything that was sent before."""
    command = pb.BaseCommand(type=pb.BaseCommand.GET_LAST_MESSAGE_ID)
    command.getLastMessageId.consumer_id = part.id
    command.getLastMessageId.request_id = connection.next_request_id()
    try:
        await connection.request(command, command.getLastMessageId.request_id, timeout_s=part.timeout_s)
    except TimedOut:
        raise
    except MagnetarError:
        return  # the consumer or its connection has ended already


def _command(topic: str, subscription: str, where: Checkpoint, time_ms: int | None) -> pb.BaseCommand:
    command = pb.BaseCommand(type=pb.BaseCommand.SEEK_SUBSCRIPTION)
    body = command.seekSubscription
    body.topic, body.subscription = topic, subscription
    if time_ms is not None:
        body.to, body.publish_time = pb.FROM_TIME, time_ms
    elif where.kind is not Kind.PLACES:
        body.to = pb.FROM_EARLIEST if where.kind is Kind.EARLIEST else pb.FROM_LATEST
    elif where.places:
        places = {id: _next(place) for id, place in where.places.items()}
        check_places(places, topic)
        body.places.CopyFrom(columns(places))
        body.incarnation = where.incarnation
    else:
        raise Misuse("the checkpoint has no position in any segment", topic=topic)
    return command


def _next(place: SegmentPosition) -> ReadPosition:
    """The first position to deliver. A partly read batch is delivered as a whole, because subscriptions move by
    entries. If an incomplete chunked message surrounds the position, delivery starts at its first chunk."""
    if place.is_done:
        return BEHIND_ALL
    if place == START:
        return BEFORE_ALL
    if place.around is not None:
        return ReadPosition(*place.around)
    whole = place.index < 0 or place.index == place.size - 1
    return ReadPosition(place.ledger, place.entry + whole)
