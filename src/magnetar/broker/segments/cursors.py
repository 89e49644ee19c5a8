"""The cursors of a scalable topic's subscriptions on its segments: creation, identification, start.

Internal properties of a cursor, beside those of its consumers, contain the life of its subscription and whether the
first consumer still has to set the start. So a cursor of an earlier life is never mistaken for the current one (H-D9).
On a plain topic a cursor that clients created before is taken over at its position. `scalable/machines/admission.py`
decides whether a cursor may exist.
"""

from __future__ import annotations

from collections.abc import Mapping

from magnetar.cluster.calls.topic_calls import SubscriptionLife
from magnetar.ledger.properties import RESERVED, number
from magnetar.topic.producers.admission import Admission
from magnetar.topic.subscriptions.subscribe import Subscribe
from magnetar.topic.subscriptions.subscription import Subscription
from magnetar.topic.topic import Topic

LIFE_PROPERTY = "magnetar.life"  # of a cursor: the life of its subscription
START_PROPERTY = "magnetar.start"  # of a cursor: its first consumer says where it starts


def given(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties that clients and administrators set."""
    return {key: text for key, text in properties.items() if not key.startswith(RESERVED)}


def ours(properties: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in properties.items() if key.startswith(RESERVED)}


async def describe(subscription: Subscription | None, properties: Mapping[str, str]) -> None:
    """Stores the properties of a consumer if the subscription has none: as in Pulsar, the first ones stay."""
    if subscription is not None and subscription.durable and given(properties):
        properties_before = subscription.cursor.properties
        if not given(properties_before):
            await subscription.cursor.set_properties({**given(properties), **properties_before})


async def start(subscription: Subscription, request: Subscribe) -> None:
    """Applies the start position and properties of the first consumer of a segment, if they are not set yet."""
    await describe(subscription, request.properties)
    cursor = subscription.cursor
    if START_PROPERTY not in cursor.properties:
        return
    if not request.earliest:
        cursor.reset(subscription.topic.managed.last)
        subscription.dispatcher.rewind()
        await cursor.flush()
    await cursor.set_properties({key: text for key, text in cursor.properties.items() if key != START_PROPERTY})
    subscription.topic.stir(subscription)


async def place(topic: Topic, key: SubscriptionLife, *, at_end: bool, asked: bool = False) -> None:
    """Creates the cursor if it does not exist. A cursor of an earlier life is replaced (H-D9); one that clients of a
    plain topic created is taken over at its position."""
    subscription = topic.subscriptions.get(key.name)
    if subscription is not None and subscription.durable and life(subscription) == key.life:
        return
    if subscription is not None and subscription.durable and not topic.name.is_segment:
        await subscription.cursor.set_properties({**subscription.cursor.properties, LIFE_PROPERTY: str(key.life)})
        return
    if subscription is not None:
        await topic.subscriptions.delete(key.name, force=True)
    managed = topic.managed
    position = managed.last if at_end else managed.before(managed.first)
    ours = {LIFE_PROPERTY: str(key.life), **({START_PROPERTY: "asked"} if asked else {})}
    properties = {**dict(key.properties), **ours}
    await topic.subscriptions.create(key.name, position, properties, admitted=True)


def life(subscription: Subscription) -> int:
    """The life of the scalable topic's subscription; -1: it does not belong to a scalable topic."""
    return number(subscription.cursor.properties, LIFE_PROPERTY, -1)


REGULAR = Admission(attach=start)  # of a plain topic: everybody may, and stream consumers say where they start
