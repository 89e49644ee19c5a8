"""The backlog of a consumer's subscription as brokers count it: a number of messages, and the age of the oldest.

The client sends one command for each topic to any broker. It first sends the acknowledgements that this consumer still
groups, so that they count. The command is a Magnetar extension: brokers of Apache Pulsar do not support it (`Refused`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial, reduce
from operator import add

from magnetar.base.ids import SegmentId
from magnetar.client.batch_read.plan import check_ours
from magnetar.client.connection.backoff import persist
from magnetar.client.connection.lookup import Lookup
from magnetar.client.consumer.topic_consumer import TopicConsumer
from magnetar.layout.checkpoint import START, SegmentPosition
from magnetar.layout.lag import NO_LAG, Lag
from magnetar.layout.readable_range import DONE, ReadPosition
from magnetar.layout.readable_range import START as BEFORE_ALL
from magnetar.wire.proto import pb
from magnetar.wire.scalable.plans import columns, read_lag

__all__ = ["Lag", "of_places", "of_subscription"]


async def of_subscription(
    lookup: Lookup, topics: Iterable[str], subscription: str, parts: Iterable[TopicConsumer] = ()
) -> Lag:
    """The lag of all consumers of the subscription together, over these topics."""
    await asyncio.gather(*(part.confirm() for part in parts if len(part.acks)))
    commands = [_command(topic, subscription) for topic in topics]
    return await _sum(lookup, commands)


async def of_places(lookup: Lookup, topic: str, places: Mapping[SegmentId, SegmentPosition]) -> Lag:
    """The lag of a reader that stores its own positions."""
    command = _command(topic)
    command.lag.places.CopyFrom(columns({id: _next(place) for id, place in places.items()}))
    return await _sum(lookup, [command])


async def _sum(lookup: Lookup, commands: list[pb.BaseCommand]) -> Lag:
    runtime = lookup.pool.runtime
    measurable = (
        persist(runtime, lookup.timeout_s, partial(_ask, lookup, one), what=f"lag on {one.lag.topic}")
        for one in commands
    )
    return reduce(add, await asyncio.gather(*measurable), NO_LAG).at(runtime.wall())


async def _ask(lookup: Lookup, command: pb.BaseCommand) -> Lag:
    connection = await lookup.service()
    check_ours(connection, "lags")
    command.lag.request_id = connection.next_request_id()
    with lookup.moving_on(connection):
        reply = await connection.request(command, command.lag.request_id, timeout_s=lookup.timeout_s)
    return read_lag(reply.lagResponse)


def _command(topic: str, subscription: str = "") -> pb.BaseCommand:
    command = pb.BaseCommand(type=pb.BaseCommand.LAG)
    command.lag.topic = topic
    if subscription:
        command.lag.subscription = subscription
    return command


def _next(reached: SegmentPosition) -> ReadPosition:
    """The first message that the reader has not read."""
    if reached.is_done:
        return DONE
    if reached == START:
        return BEFORE_ALL
    if reached.index < 0 or reached.index == reached.size - 1:
        return ReadPosition(reached.ledger, reached.entry + 1)
    return ReadPosition(reached.ledger, reached.entry, reached.index + 1)
