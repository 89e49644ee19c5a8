"""Admission of consumers to a segment: a queue consumer has no other way to announce itself.

Pulsar's V5 client attaches its queue consumers to every segment and sends nothing to the topic. So the owner of the
first segment creates the subscription of the topic, with cursors on every segment of the layout (H-D5), before it
attaches a consumer. No durable cursor is created without that record (H-D3), and children of a reshape inherit it
(H-D1). `scalable/machines/admission.py` decides; the record is read fresh.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from magnetar.base.errors import BadVersion, Busy, NotReady, SubscriptionNotFound
from magnetar.base.ids import SegmentId
from magnetar.base.limits import PROPERTIES_TRIES_MAX
from magnetar.base.names import TopicName
from magnetar.broker.peers.keyed_lock import KeyedLock
from magnetar.broker.segments.cursors import describe, given
from magnetar.observe.log import get
from magnetar.scalable.machines import admission
from magnetar.scalable.record.record import Record
from magnetar.scalable.record.subscription import Subscription, SubscriptionState, Type
from magnetar.scalable.service import ScalableTopics
from magnetar.topic.producers.admission import Admitted
from magnetar.topic.subscriptions.subscribe import Subscribe
from magnetar.topic.topic import Topic

log = get("queue_admission")


async def admit_consumer(scalable: ScalableTopics, topic: Topic, request: Subscribe, making: KeyedLock) -> Admitted:
    """When this returns, the subscription exists, is ready and has the right type. A consumer that was attached before
    and returns creates nothing: its subscription was removed in between (H-D9). A new queue consumer attaches to all
    its segments concurrently: one of them creates the subscription, the others wait for it in `making`."""
    stored, early = await _admitted(scalable, topic, request)
    if stored is None:
        async with making.through(f"{topic.name.parent} {request.subscription}"):
            stored, early = await _admitted(scalable, topic, request)
            if stored is None:
                await _make(scalable, topic, request)
    properties = stored.properties if stored is not None else ()
    if not properties and given(request.properties):
        properties = await described(scalable, topic.name.parent, request.subscription, request.properties)
    await describe(topic.subscriptions.get(request.subscription), dict(properties))
    return Admitted(0 if stored is None else stored.seeks, early)


async def described(
    scalable: ScalableTopics, parent: TopicName, subscription: str, properties: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """The properties of a subscription; sets the given ones if it has none. The record contains them, so that all
    segments have the same ones, also segments created while no consumer is connected."""
    for _ in range(PROPERTIES_TRIES_MAX):
        stored, version = await scalable.records.subscription(parent, subscription)
        if stored is None or stored.properties or stored.standing is not SubscriptionState.LIVE:
            return () if stored is None else stored.properties
        changed = replace(stored, properties=tuple(sorted(given(properties).items())))
        try:
            await scalable.records.write_subscription(parent, changed, version)
        except BadVersion:
            continue  # it is changed for another reason: look what stands there now
        return changed.properties
    raise Busy(f"subscription {subscription} of {parent} changed during every attempt to update it: try again")


async def _admitted(scalable: ScalableTopics, topic: Topic, request: Subscribe) -> tuple[Subscription | None, bool]:
    """None: the subscription has to be created or completed. True: the consumer reads before the preceding segments are
    acknowledged (H-F20)."""
    record, stored = await _looked(scalable, topic, request)
    early = False
    if stored is not None and topic.name.segment is not None:
        check_moved(scalable, topic.name.parent, stored, SegmentId(topic.name.segment.id), request)
    shared = request.key_shared if request.key_shared is not None and request.key_shared.buckets else None
    if not admission.check_consumer(stored, request.kind, buckets=shared is not None):
        return None, False
    if record is not None and stored is not None and topic.name.segment is not None:
        early = admission.check_order(record, stored, SegmentId(topic.name.segment.id), request.consumer_name)
    if shared is not None and record is not None and topic.name.segment is not None:
        admission.check_buckets(record, SegmentId(topic.name.segment.id), shared)
    return stored, early


async def _make(scalable: ScalableTopics, topic: Topic, request: Subscribe) -> None:
    parent = topic.name.parent
    _, stored = await _looked(scalable, topic, request)
    if stored is None and not (request.creates and topic.settings.auto_subscription):
        raise SubscriptionNotFound(
            f"{parent} has no subscription {request.subscription}, and it is not created automatically: create it first"
        )
    log.info(
        "queue_subscription_created", topic=str(parent), subscription=request.subscription, earliest=request.earliest
    )
    kind = Type.QUEUE if stored is None else stored.type
    await scalable.subscribe(parent, request.subscription, kind, earliest=request.earliest)


async def _looked(
    scalable: ScalableTopics, topic: Topic, request: Subscribe
) -> tuple[Record | None, Subscription | None]:
    """The record of the topic, and the record of the subscription if it belongs to this incarnation of the topic."""
    record, _ = await scalable.records.fresh(topic.name.parent)
    stored, _ = await scalable.records.subscription(topic.name.parent, request.subscription)
    if record is None or (stored is not None and stored.incarnation != record.incarnation):
        return record, None
    return record, stored


def check_moved(
    scalable: ScalableTopics, parent: TopicName, stored: Subscription, segment: SegmentId, request: Subscribe
) -> None:
    """NotReady: the subscription is being moved, or was, and the segment is not for this consumer (H-D7)."""
    if stored.seek is not None and request.durable:
        scalable.poke(parent)  # the leader of the seek may have failed
        raise NotReady(f"subscription {stored.name} of {parent} is being moved: try again")
    if stored.seeks and request.durable:
        admission.check_granted(stored, segment, request.consumer_name)
