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

log = get("queues")


async def admit_consumer(scalable: ScalableTopics, topic: Topic, asked: Subscribe, making: KeyedLock) -> Admitted:
    """When this returns, the subscription exists, is ready and has the right type. A consumer that was attached before
    and returns creates nothing: its subscription was removed in between (H-D9). A new queue consumer attaches to all
    its segments concurrently: one of them creates the subscription, the others wait for it in `making`."""
    found, early = await _admitted(scalable, topic, asked)
    if found is None:
        async with making.through(f"{topic.name.parent} {asked.subscription}"):
            found, early = await _admitted(scalable, topic, asked)
            if found is None:
                await _make(scalable, topic, asked)
    said = found.properties if found is not None else ()
    if not said and given(asked.properties):
        said = await described(scalable, topic.name.parent, asked.subscription, asked.properties)
    await describe(topic.subscriptions.get(asked.subscription), dict(said))
    return Admitted(0 if found is None else found.seeks, early)


async def described(
    scalable: ScalableTopics, parent: TopicName, subscription: str, properties: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """The properties of a subscription; sets the given ones if it has none. The record contains them, so that all
    segments have the same ones, also segments created while no consumer is connected."""
    for _ in range(PROPERTIES_TRIES_MAX):
        one, version = await scalable.records.subscription(parent, subscription)
        if one is None or one.properties or one.standing is not SubscriptionState.LIVE:
            return () if one is None else one.properties
        said = replace(one, properties=tuple(sorted(given(properties).items())))
        try:
            await scalable.records.write_subscription(parent, said, version)
        except BadVersion:
            continue  # it is changed for another reason: look what stands there now
        return said.properties
    raise Busy(f"subscription {subscription} of {parent} changed during every attempt to update it: try again")


async def _admitted(scalable: ScalableTopics, topic: Topic, asked: Subscribe) -> tuple[Subscription | None, bool]:
    """None: the subscription has to be created or completed. True: the consumer reads before the preceding segments are
    acknowledged (H-F20)."""
    record, found = await _looked(scalable, topic, asked)
    early = False
    if found is not None and topic.name.segment is not None:
        check_moved(scalable, topic.name.parent, found, SegmentId(topic.name.segment.id), asked)
    shared = asked.key_shared if asked.key_shared is not None and asked.key_shared.buckets else None
    if not admission.check_consumer(found, asked.kind, buckets=shared is not None):
        return None, False
    if record is not None and found is not None and topic.name.segment is not None:
        early = admission.check_order(record, found, SegmentId(topic.name.segment.id), asked.consumer_name)
    if shared is not None and record is not None and topic.name.segment is not None:
        admission.check_buckets(record, SegmentId(topic.name.segment.id), shared)
    return found, early


async def _make(scalable: ScalableTopics, topic: Topic, asked: Subscribe) -> None:
    parent = topic.name.parent
    _, found = await _looked(scalable, topic, asked)
    if found is None and not (asked.creates and topic.settings.auto_subscription):
        raise SubscriptionNotFound(
            f"{parent} has no subscription {asked.subscription}, and it is not created automatically: create it first"
        )
    log.info("queue_subscription_created", topic=str(parent), subscription=asked.subscription, earliest=asked.earliest)
    kind = Type.QUEUE if found is None else found.type
    await scalable.subscribe(parent, asked.subscription, kind, earliest=asked.earliest)


async def _looked(
    scalable: ScalableTopics, topic: Topic, asked: Subscribe
) -> tuple[Record | None, Subscription | None]:
    """The record of the topic, and the record of the subscription if it belongs to this incarnation of the topic."""
    record, _ = await scalable.records.fresh(topic.name.parent)
    found, _ = await scalable.records.subscription(topic.name.parent, asked.subscription)
    if record is None or (found is not None and found.incarnation != record.incarnation):
        return record, None
    return record, found


def check_moved(
    scalable: ScalableTopics, parent: TopicName, found: Subscription, segment: SegmentId, asked: Subscribe
) -> None:
    """NotReady: the subscription is being moved, or was, and the segment is not for this consumer (H-D7)."""
    if found.seek is not None and asked.durable:
        scalable.poke(parent)  # the leader of the seek may have failed
        raise NotReady(f"subscription {found.name} of {parent} is being moved: try again")
    if found.seeks and asked.durable:
        admission.check_granted(found, segment, asked.consumer_name)
