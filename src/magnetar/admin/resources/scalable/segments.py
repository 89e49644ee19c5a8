"""The topics of single segments over REST, as Pulsar's brokers call them on each other; here the record decides.

Only the controller of a topic creates, seals and deletes its segments, and their cursors are those of the topic's
subscriptions. So a call succeeds if its effect already exists. A call that would make a segment differ from the record
of its topic is refused, and the error names the right call. An unknown segment is 404.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.admin.request import DONE, Request, Response, shown
from magnetar.admin.resolve import open_topic
from magnetar.admin.resources.messages import unacknowledged
from magnetar.admin.resources.scalable.topics import check_enabled
from magnetar.admin.route import delete, get, post, put
from magnetar.base.errors import Conflict, SubscriptionNotFound, TopicNotFound
from magnetar.base.ids import SegmentId
from magnetar.layout.segment import Segment
from magnetar.topic.topic import Topic

if TYPE_CHECKING:
    from magnetar.broker.node import Node


async def create(node: Node, request: Request) -> Response:
    """Succeeds if the record of the topic lists the segment. A segment that the record does not list is not created."""
    request.read(list[str])
    await _listed(node, request)
    return DONE


async def terminate(node: Node, request: Request) -> Response:
    segment = await _listed(node, request)
    if segment.is_active:
        raise Conflict("segments cannot be terminated individually: a split or merge of the scalable topic seals them")
    return DONE


async def remove(node: Node, request: Request) -> Response:
    try:
        await _listed(node, request)
    except TopicNotFound:
        return DONE
    raise Conflict(
        "segments cannot be deleted individually: DELETE the scalable topic; retention removes expired segments"
    )


async def subscribe(node: Node, request: Request) -> Response:
    await _listed(node, request)
    if not await _subscribed(node, request):
        raise Conflict("segments have the subscriptions of their topic: PUT the subscription on the scalable topic")
    return DONE


async def unsubscribe(node: Node, request: Request) -> Response:
    try:
        await _listed(node, request)
    except TopicNotFound:
        return DONE
    if await _subscribed(node, request):
        raise Conflict("segments have the subscriptions of their topic: DELETE the subscription on the scalable topic")
    return DONE


async def backlog(node: Node, request: Request) -> Response:
    """The number of entries that the subscription has not acknowledged."""
    await _listed(node, request)
    topic = await open_topic(node, request.topic)
    assert isinstance(topic, Topic)
    name = request.parts["subscription"]
    subscription = topic.subscriptions.get(name)
    if subscription is None:
        raise SubscriptionNotFound(f"Subscription not found on segment: {name}")
    return shown(subscription.cursor.backlog)


async def peek(node: Node, request: Request) -> Response:
    """The n-th entry that the subscription has not acknowledged. An extension of Magnetar, like Pulsar's route for
    plain topics."""
    number = request.number("position")
    await _listed(node, request)
    topic = await open_topic(node, request.topic)
    assert isinstance(topic, Topic)
    return await unacknowledged(node, topic, request.parts["subscription"], number)


async def _listed(node: Node, request: Request) -> Segment:
    check_enabled(node)
    name = request.topic
    assert name.segment is not None
    record = await node.scalable.read(name.parent)
    id = SegmentId(name.segment.id)
    if record is not None and id in record.layout:
        segment = record.layout.segment(id)
        if segment.range == name.segment.range:
            return segment
    raise TopicNotFound(f"Segment topic not found: {name}")


async def _subscribed(node: Node, request: Request) -> bool:
    subscriptions = await node.scalable.subscriptions(request.topic.parent)
    return any(one.name == request.parts["subscription"] for one in subscriptions)


_SEGMENT = "/admin/v2/segments/{tenant}/{namespace}/{topic}/{descriptor}"
_SUBSCRIPTION = f"{_SEGMENT}/subscription/{{subscription}}"
ROUTES = [
    put(_SEGMENT, create, "Check that a segment exists", list[str]),
    post(f"{_SEGMENT}/terminate", terminate, "Check that a segment is sealed"),
    delete(_SEGMENT, remove, "Check that a segment does not exist"),
    put(_SUBSCRIPTION, subscribe, "Check that a segment has a subscription"),
    delete(_SUBSCRIPTION, unsubscribe, "Check that a segment does not have a subscription"),
    get(f"{_SUBSCRIPTION}/backlog", backlog, "The number of entries that a subscription has not acknowledged", int),
    get(f"{_SUBSCRIPTION}/position/{{position}}", peek, "The n-th unacknowledged entry of a segment", bytes),
]
