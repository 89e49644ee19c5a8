"""Rates from counters: what a topic took in and gave out per second over the last interval, and all samples of topics.

No timer: whoever asks moves the interval on once it is long enough, so an idle broker computes nothing. A topic that is
unloaded is forgotten with its counters. Totals are those of this broker since the topic was loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from magnetar.base.limits import RATE_INTERVAL_S
from magnetar.ledger.local.engine import LocalLedgers
from magnetar.topic.nonpersistent import LooseSubscription
from magnetar.topic.subscription import Subscription
from magnetar.topic.topic import Topic

if TYPE_CHECKING:
    from magnetar.broker.node import Node
    from magnetar.broker.topics import AnyTopic
    from magnetar.observe.metrics import Labels, Sample


JOURNAL_COUNTERS = {
    f"magnetar_journal_{what}": "counter" for what in ("batches", "syncs", "sync_seconds", "entries", "bytes")
}
AnySubscription = Subscription | LooseSubscription


@dataclass(frozen=True, slots=True)
class Counts:
    """Totals, or the same per second."""

    messages_in: float = 0.0
    bytes_in: float = 0.0
    messages_out: float = 0.0
    bytes_out: float = 0.0

    def per_second(self, before: Counts, seconds: float) -> Counts:
        return Counts(
            max(0.0, self.messages_in - before.messages_in) / seconds,
            max(0.0, self.bytes_in - before.bytes_in) / seconds,
            max(0.0, self.messages_out - before.messages_out) / seconds,
            max(0.0, self.bytes_out - before.bytes_out) / seconds,
        )


class Rates:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._before: WeakKeyDictionary[AnyTopic, tuple[float, Counts]] = WeakKeyDictionary()
        self._now: WeakKeyDictionary[AnyTopic, Counts] = WeakKeyDictionary()

    def of(self, topic: AnyTopic) -> Counts:
        now = self._node.runtime.monotonic()
        before = self._before.get(topic)
        if before is None:
            self._before[topic] = (now, counts(topic))
        elif now - before[0] >= RATE_INTERVAL_S:
            fresh = counts(topic)
            self._now[topic] = fresh.per_second(before[1], now - before[0])
            self._before[topic] = (now, fresh)
        return self._now.get(topic, Counts())


def counts(topic: AnyTopic) -> Counts:
    sums = [outgoing(subscription) for subscription in subscriptions(topic)]
    messages, size = sum(out[0] for out in sums), sum(out[1] for out in sums)
    return Counts(topic.messages_in, topic.bytes_in, messages, size)


def subscriptions(topic: AnyTopic) -> list[AnySubscription]:
    return list(topic.subscriptions) if isinstance(topic, Topic) else list(topic.subscriptions.values())


def outgoing(subscription: AnySubscription) -> tuple[int, int]:
    """(messages, bytes) handed out, also to consumers that have left."""
    messages = subscription.messages_out + sum(consumer.messages_out for consumer in subscription.consumers)
    return messages, subscription.bytes_out + sum(consumer.bytes_out for consumer in subscription.consumers)


_OF_NODE: WeakKeyDictionary[Node, Rates] = WeakKeyDictionary()


def observe(node: Node) -> Rates:
    """The rates of this node; the first call adds its topics to what a scrape shows."""
    found = _OF_NODE.get(node)
    if found is None:
        found = _OF_NODE[node] = Rates(node)
        node.registry.provide(lambda: samples(node), **JOURNAL_COUNTERS)
    return found


def samples(node: Node) -> Iterator[Sample]:
    """Everything about loaded topics, in Pulsar's names."""
    topics = list(node.topics.loaded.values())
    by_namespace: dict[str, int] = {}
    for topic in topics:
        by_namespace[str(topic.name.namespace)] = by_namespace.get(str(topic.name.namespace), 0) + 1
    for namespace, number in sorted(by_namespace.items()):
        yield "pulsar_topics_count", (("namespace", namespace),), number
    yield "pulsar_active_connections", (), len(node.connections)
    yield "pulsar_broker_topics_count", (), len(topics)
    yield "pulsar_health", (), int(node.ready and node.failure is None)
    yield "magnetar_publish_pending_bytes", (), node.pending_bytes
    yield "magnetar_stages_begun", (), node.sinks.begun
    yield "magnetar_stage_batches_committed", (), node.sinks.commits
    yield "magnetar_stage_messages_published", (), node.sinks.leader.rows
    yield "magnetar_sinks_waiting", (), len(node.sinks.leader.errors)
    yield from _journal(node)
    for topic in topics:
        yield from _topic(node, topic)


def _journal(node: Node) -> Iterator[Sample]:
    if not isinstance(node.ledgers, LocalLedgers):
        return
    journal = node.ledgers.journal
    yield "magnetar_journal_batches", (), journal.batches
    yield "magnetar_journal_syncs", (), journal.syncs
    yield "magnetar_journal_sync_seconds", (), journal.sync_s
    yield "magnetar_journal_entries", (), journal.entries_written
    yield "magnetar_journal_bytes", (), journal.bytes_written
    yield "magnetar_journal_pending_bytes", (), journal.pending_bytes
    yield "magnetar_journal_segments", (), len(journal.segments)


def _topic(node: Node, topic: AnyTopic) -> Iterator[Sample]:
    labels: Labels = (("namespace", str(topic.name.namespace)), ("topic", str(topic.name)))
    rate = observe(node).of(topic)
    attached = subscriptions(topic)
    yield "pulsar_subscriptions_count", labels, len(attached)
    yield "pulsar_producers_count", labels, len(topic.producers)
    yield "pulsar_consumers_count", labels, sum(len(one.consumers) for one in attached)
    yield "pulsar_rate_in", labels, round(rate.messages_in, 3)
    yield "pulsar_rate_out", labels, round(rate.messages_out, 3)
    yield "pulsar_throughput_in", labels, round(rate.bytes_in, 3)
    yield "pulsar_throughput_out", labels, round(rate.bytes_out, 3)
    yield "pulsar_in_messages_total", labels, topic.messages_in
    yield "pulsar_in_bytes_total", labels, topic.bytes_in
    yield "pulsar_average_msg_size", labels, round(topic.bytes_in / topic.messages_in, 3) if topic.messages_in else 0
    if isinstance(topic, Topic):
        yield "pulsar_storage_size", labels, topic.managed.bytes
        yield "pulsar_storage_logical_size", labels, topic.managed.bytes
        yield "pulsar_msg_backlog", labels, sum(one.cursor.backlog for one in topic.subscriptions)
    for subscription in attached:
        yield from _subscription((*labels, ("subscription", subscription.name)), subscription)


def _subscription(labels: Labels, subscription: AnySubscription) -> Iterator[Sample]:
    messages, size = outgoing(subscription)
    consumers = subscription.consumers
    yield "pulsar_out_messages_total", labels, messages
    yield "pulsar_out_bytes_total", labels, size
    yield "pulsar_subscription_consumers_count", labels, len(consumers)
    yield "pulsar_subscription_unacked_messages", labels, sum(one.pending.messages for one in consumers)
    yield "pulsar_subscription_blocked_on_unacked_messages", labels, int(any(one.blocked for one in consumers))
    if isinstance(subscription, Subscription):
        yield "pulsar_subscription_back_log", labels, subscription.cursor.backlog
