"""Moves the cursor of one segment during a seek of its subscription (H-D7).

The record of the subscription contains the current seek; a call of another seek is outdated. The number of the seek is
stored with the cursor: a repeated call does not move it again, and cannot undo later acknowledgements.
"""

from __future__ import annotations

from magnetar.base.errors import SubscriptionNotFound
from magnetar.base.names import topic_name
from magnetar.broker.segments.cursors import START_PROPERTY, life
from magnetar.cluster.calls.topic_calls import CursorPlacedReply, ResetCursor, Stale
from magnetar.ledger.properties import number
from magnetar.scalable.record.store import RecordStore
from magnetar.topic.subscriptions.subscription import Subscription
from magnetar.topic.topic import Topic

SEEKS_PROPERTY = "magnetar.seeks"  # of a cursor: the last seek that moved it


async def reset(records: RecordStore, topic: Topic, request: ResetCursor) -> CursorPlacedReply | Stale:
    key = request.subscription
    stored, _ = await records.subscription(topic_name(request.topic), key.name)
    if stored is None or stored.life != key.life:
        raise SubscriptionNotFound(f"subscription not found on {request.topic}", subscription=key.name)
    if stored.seek is None or stored.seeks != request.seeks:
        return Stale()
    subscription = topic.subscriptions.get(key.name)
    if subscription is None or life(subscription) != key.life:
        raise SubscriptionNotFound(f"Subscription {key.name} not found on topic {topic.name}")
    if subscription.cursor.properties.get(SEEKS_PROPERTY) != str(request.seeks):
        await _move(topic, subscription, request)
    end = topic.managed.terminated
    return CursorPlacedReply(end is not None and subscription.cursor.drained(end))


def seeks_of(subscription: Subscription | None) -> int:
    """The number of seeks of this subscription as one of a scalable topic; clients that have left drained segments need
    it."""
    return 0 if subscription is None else number(subscription.cursor.properties, SEEKS_PROPERTY, 0)


async def _move(topic: Topic, subscription: Subscription, request: ResetCursor) -> None:
    """The seek also sets the start that the first consumer would have set."""
    if request.by_time:
        await subscription.seek_time(request.time_ms)
    else:
        await subscription.seek(request.position)
    kept = {key: text for key, text in subscription.cursor.properties.items() if key != START_PROPERTY}
    await subscription.cursor.set_properties({**kept, SEEKS_PROPERTY: str(request.seeks)})
    topic.runtime.mark("cursor.sought", topic=str(topic.name), subscription=subscription.name, seeks=request.seeks)
    topic.stir(subscription)
