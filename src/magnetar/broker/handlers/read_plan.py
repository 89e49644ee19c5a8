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
    request = command.plan
    start(connection, _plan(connection, request), partial(plans.plan_failed, request.request_id))


def hold(connection: Connection, command: pb.BaseCommand) -> None:
    if not announced(connection):
        connection.node.unknown_command(connection)
        return
    request = command.hold
    start(connection, honestly(_hold(connection, request)), partial(plans.hold_failed, request.request_id))


def lag(connection: Connection, command: pb.BaseCommand) -> None:
    if not announced(connection):
        connection.node.unknown_command(connection)
        return
    request = command.lag
    start(connection, _lag(connection, request), partial(plans.lag_failed, request.request_id))


def announced(connection: Connection) -> bool:
    return bool(connection.features is not None and connection.features.magnetar_extensions)


async def _plan(connection: Connection, request: pb.CommandPlan) -> bytes:
    node = connection.node
    check_enabled(node)
    name = planned_name(request.topic)
    node.allow(connection.principal, "consume", str(name))
    read_plan = await node.handlers.plans.plan(name, _question(request))
    record = read_plan.record
    is_known = request.HasField("known_epoch") and (request.known_incarnation, request.known_epoch) == (
        record.incarnation,
        record.epoch,
    )
    dag = None if is_known else _dag(read_plan)
    return plans.planned(request.request_id, record.incarnation, record.epoch, read_plan.told, dag)


async def _hold(connection: Connection, command: pb.CommandHold) -> bytes:
    node = connection.node
    check_enabled(node)
    name = planned_name(command.topic)
    node.allow(connection.principal, "consume", str(name))
    if command.release:
        await node.handlers.holds.release(name, command.name)
        return plans.released(command.request_id)
    places = given_places(command.places) if command.HasField("places") else None
    around = _given(plans.read_around, command.places)
    request = HoldRequest(
        command.name,
        places,
        command.incarnation,
        command.expires_s,
        command.owner,
        command.begins,
        command.resumes,
        around,
    )
    result = await node.handlers.holds.hold(name, request)
    return plans.held(
        command.request_id,
        dict(result.held.places),
        dict(result.held.around),
        incarnation=result.record.incarnation,
        until_ms=result.held.until_ms,
        moved=result.moved,
        expired=result.expired,
        lost=result.lost,
        owner=result.owner,
    )


async def _lag(connection: Connection, request: pb.CommandLag) -> bytes:
    node, name = connection.node, topic_name(request.topic)
    node.allow(connection.principal, "consume", str(name))
    if request.HasField("places"):
        check_enabled(node)
        backlog = await lag_behind(node, planned_name(request.topic), given_places(request.places))
    else:
        backlog = await lag_of(node, name, request.subscription)
    return plans.lag(request.request_id, backlog)


def planned_name(text: str) -> TopicName:
    """The name of a topic with a layout: a scalable one, or a persistent plain one."""
    name = topic_name(text)
    if name.domain is Domain.NON_PERSISTENT:
        raise Refused(f"{name} is non-persistent: read plans and holds require a persistent topic")
    if name.domain is Domain.SEGMENT or name.is_partition:
        raise TopicNotFound(f"{name} is a part of a topic: use the name of the whole topic")
    return name


def given_places(places: pb.SegmentPlaces) -> dict[SegmentId, ReadPosition]:
    """Raises Misuse for positions that no reader can have."""
    return _given(plans.read_places, places)


def _given(read: Callable[[pb.SegmentPlaces], T], places: pb.SegmentPlaces) -> T:
    """Raises Misuse instead of `Corrupt`: the bytes of the client arrived intact, and a retry has the same result."""
    try:
        return read(places)
    except Corrupt as error:
        raise Misuse(error.what, **error.facts) from error


def _question(request: pb.CommandPlan) -> MeasureRequest:
    word: str | int
    if request.start == pb.FROM_TIME:
        if not request.HasField("publish_time"):
            raise Misuse("a plan with start FROM_TIME must contain publish_time")
        word = request.publish_time
    else:
        word = _WORDS[request.start]
    return MeasureRequest(
        given_places(request.places),
        word,
        request.messages_max,
        request.bytes_max,
        given_places(request.targets),
        request.publish_times,
    )


def _dag(read_plan: ReadPlan) -> pb.ScalableTopicDAG:
    record = read_plan.record
    shown = LayoutUpdate(record.layout, {}, None, record.routing, record.term, record.incarnation)
    return layouts.dag(shown, extended=True)
