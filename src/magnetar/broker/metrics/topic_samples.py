"""Samples of one topic and its subscriptions for metrics: read from a topic in memory, or stored for an unloaded one.

The sample of an unloaded topic has no clients and no rates; its backlog, lag and totals are those at the time of
unloading. The age of its oldest message continues to grow, because the sample contains its publish time.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from magnetar.base.names import TopicName
from magnetar.layout.lag import NO_LAG, Lag
from magnetar.topic.dispatch.key_shared import KeySharedDispatcher
from magnetar.topic.dispatch.shared import SharedDispatcher
from magnetar.topic.nonpersistent import LooseSubscription, NonPersistentTopic
from magnetar.topic.subscriptions.subscription import Subscription
from magnetar.topic.topic import Topic

AnyTopic = Topic | NonPersistentTopic
AnySubscription = Subscription | LooseSubscription


@dataclass(frozen=True, slots=True)
class SubscriptionSample:
    """`backlog` counts entries, as Pulsar does, `lag` messages."""

    name: str
    stored: bool = True
    consumers: int = 0
    unacked: int = 0
    blocked: bool = False
    delayed: int = 0
    backlog: int = 0
    lag: Lag = NO_LAG
    messages_out: int = 0
    bytes_out: int = 0


@dataclass(frozen=True, slots=True)
class TopicSample:
    name: TopicName
    stored: bool = True
    producers: int = 0
    messages_in: int = 0
    bytes_in: int = 0
    entries_in: int = 0
    since_ms: int = 0
    size: int = 0
    part_of: TopicName | None = None
    subscriptions: tuple[SubscriptionSample, ...] = field(default=())

    @property
    def has_backlog(self) -> bool:
        return any(one.backlog for one in self.subscriptions)


def subscriptions(topic: AnyTopic) -> list[AnySubscription]:
    return list(topic.subscriptions) if isinstance(topic, Topic) else list(topic.subscriptions.values())


def outgoing(subscription: AnySubscription) -> tuple[int, int]:
    """(messages, bytes) delivered, also to consumers that have left."""
    messages = subscription.messages_out + sum(consumer.messages_out for consumer in subscription.consumers)
    return messages, subscription.bytes_out + sum(consumer.bytes_out for consumer in subscription.consumers)


def sample(topic: AnyTopic) -> TopicSample:
    """The sample of a topic in memory, with the lags of the last measurement."""
    stored = isinstance(topic, Topic)
    return TopicSample(
        topic.name,
        stored,
        len(topic.producers),
        topic.messages_in,
        topic.bytes_in,
        topic.entries_in,
        topic.since_ms,
        topic.managed.bytes if isinstance(topic, Topic) else 0,
        topic.part_of if isinstance(topic, Topic) else None,
        tuple(sample_subscription(one) for one in subscriptions(topic)),
    )


def sample_subscription(subscription: AnySubscription) -> SubscriptionSample:
    messages, size = outgoing(subscription)
    consumers = subscription.consumers
    sample = SubscriptionSample(
        subscription.name,
        isinstance(subscription, Subscription),
        len(consumers),
        sum(each.pending.messages for each in consumers),
        any(each.blocked for each in consumers),
        messages_out=messages,
        bytes_out=size,
    )
    if not isinstance(subscription, Subscription):
        return sample
    dispatcher, backlog = subscription.dispatcher, subscription.cursor.backlog
    delayed = len(dispatcher.delay.index) if isinstance(dispatcher, SharedDispatcher | KeySharedDispatcher) else 0
    return replace(sample, delayed=delayed, backlog=backlog, lag=subscription.lag.known if backlog else NO_LAG)


def unloaded(sample: TopicSample) -> TopicSample:
    """The same sample after the topic was unloaded: without connected clients."""
    quiet = tuple(
        replace(one, consumers=0, unacked=0, blocked=False, delayed=0) for one in sample.subscriptions if one.stored
    )
    return replace(sample, producers=0, subscriptions=quiet)
