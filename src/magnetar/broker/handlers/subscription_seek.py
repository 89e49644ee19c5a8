"""SEEK_SUBSCRIPTION: seeks the subscription of a scalable topic on all segments. This command is an extension of
Magnetar.

It requires the permission to consume and runs on the broker that leads the topic. Other brokers answer NotReady, and
the client asks the leader that its layout watch names. `scalable/machines/seek_target.py` and
`scalable/machines/seek.py` decide its meaning. For a peer that did not announce the extensions it is an unknown
command.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import Misuse, Moved, NotReady, TopicNotFound
from magnetar.base.ids import AFTER_ALL, BEFORE_ALL, Position, SegmentId
from magnetar.base.names import Domain, TopicName
from magnetar.broker.handlers.read_plan import announced, given_places, planned_name
from magnetar.broker.handlers.requests import error_reply, honestly, start, success
from magnetar.broker.handlers.scalable import check_enabled
from magnetar.layout.readable_range import DONE, START, ReadPosition
from magnetar.scalable.machines.seek_target import Target, TargetKind, at_places, at_time
from magnetar.scalable.record.record import Record
from magnetar.wire.proto import pb

if TYPE_CHECKING:
    from magnetar.broker.connection.connection import Connection
    from magnetar.broker.node import Node

_WORDS = {pb.FROM_START: TargetKind.EARLIEST, pb.FROM_EARLIEST: TargetKind.EARLIEST, pb.FROM_LATEST: TargetKind.LATEST}


def seek(connection: Connection, command: pb.BaseCommand) -> None:
    if not announced(connection):
        connection.node.unknown_command(connection)
        return
    request = command.seekSubscription
    start(connection, honestly(_seek(connection, request)), error_reply(request.request_id))


async def _seek(connection: Connection, request: pb.CommandSeekSubscription) -> bytes:
    node = connection.node
    check_enabled(node)
    name = planned_name(request.topic)
    node.allow(connection.principal, "consume", str(name))
    record = await _record(node, name)
    try:
        await node.scalable.seek(name.scalable, request.subscription, _target(request, record))
    except Moved as error:
        raise NotReady(f"another broker leads {name}: the layout watch contains its address") from error
    return success(request.request_id)


async def _record(node: Node, name: TopicName) -> Record:
    """TopicNotFound: also for a plain topic, which uses Pulsar's SEEK."""
    record = await node.scalable.read(name.scalable)
    if name.domain is Domain.PERSISTENT and (record is None or record.is_plain):
        raise TopicNotFound(f"{name} is not a scalable topic: use `magnetar subscription seek` for plain topics")
    if record is None or record.is_plain:
        raise TopicNotFound(f"Scalable topic not found: {name}")
    return record


def _target(request: pb.CommandSeekSubscription, record: Record) -> Target:
    if request.HasField("places"):
        if request.incarnation and request.incarnation != record.incarnation:
            raise Misuse(
                "the positions belong to a deleted topic of this name: read the positions again", topic=request.topic
            )
        places = given_places(request.places)
        kept = {id: place for id, place in places.items() if id in record.layout or place != DONE}
        return at_places({SegmentId(id): _position(place) for id, place in kept.items()})
    if request.to != pb.FROM_TIME:
        return Target(_WORDS[request.to])
    if not request.HasField("publish_time"):
        raise Misuse("a seek with FROM_TIME must contain publish_time")
    return at_time(request.publish_time)


def _position(place: ReadPosition) -> Position:
    if place == DONE:
        return AFTER_ALL
    return BEFORE_ALL if place == START else Position(place.ledger, place.entry)
