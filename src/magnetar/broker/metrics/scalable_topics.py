"""Metrics of scalable topics as a whole: their segments, and the segments that subscriptions wait for.

The check of all scalable topics for the expiry of holds fills them, so a value may be half a minute old. In a cluster
the broker that minds a topic (`broker/topics/ownership.py`) reports it. This module holds a bounded number of values.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from magnetar.base.limits import LAYOUT_SAMPLES_MAX
from magnetar.base.names import TopicName
from magnetar.layout.layout import Layout
from magnetar.layout.lineage import ancestors
from magnetar.scalable.record.record import Record
from magnetar.scalable.record.subscription import Early, Subscription, SubscriptionState, Type


@dataclass(frozen=True, slots=True)
class LayoutSample:
    """`waiting`: for each stream subscription, the segments that wait until others are drained. A segment that a
    consumer reads ahead of acknowledgements does not wait (H-F20)."""

    topic: TopicName
    active: int
    sealed: int
    epoch: int
    waiting: tuple[tuple[str, int], ...] = ()


def layout_sample(topic: TopicName, record: Record, subscriptions: Collection[Subscription]) -> LayoutSample:
    layout = record.layout
    waiting = [
        (one.name, _waiting(layout, one))
        for one in subscriptions
        if one.type is Type.STREAM and one.standing is SubscriptionState.LIVE
    ]
    active = len(layout.active)
    return LayoutSample(topic, active, len(layout) - active, layout.epoch, tuple(waiting))


def _waiting(layout: Layout, subscription: Subscription) -> int:
    drained = set(subscription.latched)
    read = drained | {hold.segment for hold in subscription.plan.holds if hold.early is Early.GRANTED}
    return sum(1 for one in layout.segments if one.id not in read and not ancestors(layout, one.id) <= drained)


class Layouts:
    def __init__(self) -> None:
        self.shown: dict[str, LayoutSample] = {}

    def keep(self, sample: LayoutSample) -> None:
        key = sample.topic.canonical
        if key in self.shown or len(self.shown) < LAYOUT_SAMPLES_MAX:
            self.shown[key] = sample

    def forget(self, topic: TopicName) -> None:
        self.shown.pop(topic.canonical, None)

    def retain(self, seen: Collection[str]) -> None:
        """Called after a check of all topics: drops those that are deleted or that another broker reports."""
        self.shown = {key: one for key, one in self.shown.items() if key in seen}
