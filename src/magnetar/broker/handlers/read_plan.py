"""PLAN, HOLD and LAG: the readable ranges of a scalable topic, the retention for readers in batches, and the lag of a
subscription. These commands are extensions of Magnetar.

All of them require the permission to consume and nothing more. For a peer that did not announce the extensions they are
unknown commands. The layout is sent only if the client does not have it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from magnetar.base.errors import Corrupt, Misuse, Refused, TopicNotFound
from magnetar.base.ids import SegmentId
from magnetar.base.names import Domain, TopicName, topic_name
from magnetar.broker.batch_read.holds import HoldRequest
from magnetar.broker.batch_read.plans import ReadPlan
from magnetar.broker.handlers.requests import honestly, start
from magnetar.broker.handlers.scalable import check_enabled
from magnetar.broker.metrics.lag import lag_behind, lag_of
from magnetar.layout.readable_range import ReadPosition
from magnetar.scalable.machines.read_plan import MeasureRequest
from magnetar.topic.measure import FROM_EARLIEST, FROM_LATEST, FROM_START
from magnetar.wire.proto import pb
from magnetar.wire.scalable import layouts, plans
from magnetar.wire.scalable.layouts import LayoutUpdate

if TYPE_CHECKING:
    from magnetar.broker.connection.connection import Connection

T = TypeVar("T")

_WORDS = {pb.FROM_START: FROM_START, pb.FROM_EARLIEST: FROM_EARLIEST, pb.FROM_LATEST: FROM_LATEST}


def plan(connection: Connection, command: pb.BaseCommand) -> None:
    if not announced(connection):
        connection.node.unknown_command(connection)
        return
    asked = command.plan
    start(connection, _plan(connection, asked), partial(plans.plan_failed, asked.request_id))


def hold(connection: Connection, command: pb.BaseCommand) -> None:
    if not announced(connection):
        connection.node.unknown_command(connection)
        return
    asked = command.hold
    start(connection, honestly(_hold(connection, asked)), partial(plans.hold_failed, asked.request_id))


def lag(connection: Connection, command: pb.BaseCommand) -> None:
    if not announced(connection):
        connection.node.unknown_command(connection)
        return
    asked = command.lag
    start(connection, _lag(connection, asked), partial(plans.lag_failed, asked.request_id))


def announced(connection: Connection) -> bool:
    return bool(connection.features is not None and connection.features.magnetar_extensions)


async def _plan(connection: Connection, asked: pb.CommandPlan) -> bytes:
    node = connection.node
    check_enabled(node)
    name = planned_name(asked.topic)
    node.allow(connection.principal, "consume", str(name))
    found = await node.handlers.plans.plan(name, _question(asked))
    record = found.record
    known = asked.HasField("known_epoch") and (asked.known_incarnation, asked.known_epoch) == (
        record.incarnation,
        record.epoch,
    )
    dag = None if known else _dag(found)
    return plans.planned(asked.request_id, record.incarnation, record.epoch, found.told, dag)


async def _hold(connection: Connection, asked: pb.CommandHold) -> bytes:
    node = connection.node
    check_enabled(node)
    name = planned_name(asked.topic)
    node.allow(connection.principal, "consume", str(name))
    if asked.release:
        await node.handlers.holds.release(name, asked.name)
        return plans.released(asked.request_id)
    places = given_places(asked.places) if asked.HasField("places") else None
    around = _given(plans.read_around, asked.places)
    wanted = HoldRequest(
        asked.name, places, asked.incarnation, asked.expires_s, asked.owner, asked.begins, asked.resumes, around
    )
    found = await node.handlers.holds.hold(name, wanted)
    return plans.held(
        asked.request_id,
        dict(found.held.places),
        dict(found.held.around),
        incarnation=found.record.incarnation,
        until_ms=found.held.until_ms,
        moved=found.moved,
        expired=found.expired,
        lost=found.lost,
        owner=found.owner,
    )


async def _lag(connection: Connection, asked: pb.CommandLag) -> bytes:
    node, name = connection.node, topic_name(asked.topic)
    node.allow(connection.principal, "consume", str(name))
    if asked.HasField("places"):
        check_enabled(node)
        found = await lag_behind(node, planned_name(asked.topic), given_places(asked.places))
    else:
        found = await lag_of(node, name, asked.subscription)
    return plans.lag(asked.request_id, found)


def planned_name(text: str) -> TopicName:
    """The name of a topic with a layout: a scalable one, or a persistent plain one."""
    name = topic_name(text)
    if name.domain is Domain.NON_PERSISTENT:
        raise Refused(f"{name} is non-persistent: read plans and holds require a persistent topic")
    if name.domain is Domain.SEGMENT or name.is_partition:
        raise TopicNotFound(f"{name} is a part of a topic: use the name of the whole topic")
    return name


def given_places(said: pb.SegmentPlaces) -> dict[SegmentId, ReadPosition]:
    """Raises Misuse for positions that no reader can have."""
    return _given(plans.read_places, said)


def _given(read: Callable[[pb.SegmentPlaces], T], said: pb.SegmentPlaces) -> T:
    """Raises Misuse instead of `Corrupt`: the bytes of the client arrived intact, and a retry has the same result."""
    try:
        return read(said)
    except Corrupt as error:
        raise Misuse(error.what, **error.facts) from error


def _question(asked: pb.CommandPlan) -> MeasureRequest:
    word: str | int
    if asked.start == pb.FROM_TIME:
        if not asked.HasField("publish_time"):
            raise Misuse("a plan with start FROM_TIME must contain publish_time")
        word = asked.publish_time
    else:
        word = _WORDS[asked.start]
    return MeasureRequest(
        given_places(asked.places),
        word,
        asked.messages_max,
        asked.bytes_max,
        given_places(asked.targets),
        asked.publish_times,
    )


def _dag(found: ReadPlan) -> pb.ScalableTopicDAG:
    record = found.record
    shown = LayoutUpdate(record.layout, {}, None, record.routing, record.term, record.incarnation)
    return layouts.dag(shown, extended=True)
