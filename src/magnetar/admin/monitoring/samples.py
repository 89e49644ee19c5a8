"""The samples of a scrape: of the broker, of its namespaces, topics and subscriptions, and of whole scalable topics.

Topics in memory are read directly; a topic that was unloaded with a backlog shows its stored sample. Segments have
their own series. Their scalable topic has the sums of this broker's segments under other names, so that a sum over
topics counts nothing twice. `prepare` measures outdated lags, for a bounded time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from magnetar import __version__
from magnetar.admin.monitoring.rates import RateTracker, TopicCounts, observe
from magnetar.base.errors import MagnetarError
from magnetar.base.ids import SegmentId
from magnetar.base.limits import LAG_MEASURED_PER_TURN, LAG_SCRAPE_S
from magnetar.base.names import TopicName, topic_name
from magnetar.broker.metrics.topic_samples import AnyTopic, SubscriptionSample, TopicSample, sample, subscriptions
from magnetar.layout.autoscale.decision import MERGE, SPLIT
from magnetar.layout.autoscale.load import SegmentLoad, key_share
from magnetar.layout.lag import NO_LAG, Lag
from magnetar.ledger.local.engine import LocalLedgers
from magnetar.observe.metrics import Histogram, Labels, Sample
from magnetar.scalable.autoscale.decision_log import TopicScaling
from magnetar.topic.subscriptions.subscription import Subscription
from magnetar.topic.topic import Topic
from magnetar.topic.write_metrics import Writes

if TYPE_CHECKING:
    from magnetar.broker.node import Node

QUANTILES = (0.5, 0.95, 0.99, 0.999)


async def prepare(node: Node) -> None:
    """Measures outdated lags of subscriptions in memory. Lags that are not measured in time keep their last value."""
    until = node.runtime.monotonic() + LAG_SCRAPE_S
    measured = 0
    for topic in list(node.topics.loaded.values()):
        for subscription in subscriptions(topic):
            if not isinstance(subscription, Subscription) or not subscription.cursor.backlog or subscription.lag.fresh:
                continue
            try:
                await subscription.lag.measure()
            except MagnetarError:
                continue  # it is being closed, or its storage does not answer
            measured += 1
            if measured % LAG_MEASURED_PER_TURN == 0:
                await asyncio.sleep(0)
                if node.runtime.monotonic() > until:
                    return


def samples(node: Node) -> Iterator[Sample]:
    rates = observe(node)
    totals = _Totals()
    wholes: dict[str, _Whole] = {}
    by_namespace: dict[str, int] = {}
    writes = node.topics.writes.copy()
    now_ms = node.runtime.wall()
    for topic, topic_sample in _topics(node):
        namespace = str(topic_sample.name.namespace)
        by_namespace[namespace] = by_namespace.get(namespace, 0) + 1
        rate = TopicCounts() if topic is None else rates.of(topic)
        totals.add(topic_sample, rate)
        if topic_sample.part_of is not None:
            wholes.setdefault(topic_sample.part_of.canonical, _Whole(topic_sample.part_of)).add(topic_sample, rate)
        labels: Labels = (("namespace", namespace), ("topic", str(topic_sample.name)))
        if topic is None:
            yield from _unloaded(labels, topic_sample, now_ms)
            continue
        yield from _topic(labels, topic_sample, rate, now_ms)
        if isinstance(topic, Topic):
            if topic.writes is not None:
                writes.add(topic.writes)
            yield from _written(labels, rates.writes(topic))
        each = {subscription.name: rates.of_subscription(subscription) for subscription in subscriptions(topic)}
        for subscription in topic_sample.subscriptions:
            named = (*labels, ("subscription", subscription.name))
            yield from _subscription(named, subscription, each.get(subscription.name, TopicCounts()), now_ms)
    for namespace, number in sorted(by_namespace.items()):
        yield "pulsar_topics_count", (("namespace", namespace),), number
    yield from _broker(node, totals)
    yield from _latency(rates, writes)
    yield from _journal(node)
    yield from _scalable(node, wholes, now_ms)


def _topics(node: Node) -> Iterator[tuple[AnyTopic | None, TopicSample]]:
    for topic in list(node.topics.loaded.values()):
        yield topic, sample(topic)
    for kept in node.topics.unloaded:
        yield None, kept


@dataclass(slots=True)
class _Totals:
    """Totals of the whole broker."""

    producers: int = 0
    consumers: int = 0
    subscriptions: int = 0
    backlog: int = 0
    size: int = 0
    rates: list[float] = field(default_factory=lambda: [0.0] * 4)

    def add(self, sample: TopicSample, rate: TopicCounts) -> None:
        self.producers += sample.producers
        self.consumers += sum(one.consumers for one in sample.subscriptions)
        self.subscriptions += len(sample.subscriptions)
        self.backlog += sum(one.backlog for one in sample.subscriptions)
        self.size += sample.size
        for index, value in enumerate((rate.messages_in, rate.messages_out, rate.bytes_in, rate.bytes_out)):
            self.rates[index] += value


@dataclass(slots=True)
class _Whole:
    """The sums over the segments of a scalable topic that this broker reports."""

    name: TopicName
    size: int = 0
    messages_in: int = 0
    bytes_in: int = 0
    rates: list[float] = field(default_factory=lambda: [0.0] * 4)
    lags: dict[str, Lag] = field(default_factory=dict)

    def add(self, sample: TopicSample, rate: TopicCounts) -> None:
        self.size += sample.size
        self.messages_in += sample.messages_in
        self.bytes_in += sample.bytes_in
        for index, value in enumerate((rate.messages_in, rate.messages_out, rate.bytes_in, rate.bytes_out)):
            self.rates[index] += value
        for subscription in sample.subscriptions:
            self.lags[subscription.name] = self.lags.get(subscription.name, NO_LAG) + subscription.lag


def _broker(node: Node, totals: _Totals) -> Iterator[Sample]:
    yield "pulsar_version_info", (("version", __version__),), 1
    yield "pulsar_health", (), int(node.ready and node.failure is None)
    yield "pulsar_active_connections", (), len(node.connections)
    yield "pulsar_broker_topics_count", (), len(node.topics)
    yield "pulsar_broker_producers_count", (), totals.producers
    yield "pulsar_broker_consumers_count", (), totals.consumers
    yield "pulsar_broker_subscriptions_count", (), totals.subscriptions
    for family, value in zip(("rate_in", "rate_out", "throughput_in", "throughput_out"), totals.rates, strict=True):
        yield f"pulsar_broker_{family}", (), round(value, 3)
    yield "pulsar_broker_storage_size", (), totals.size
    yield "pulsar_broker_msg_backlog", (), totals.backlog
    yield "magnetar_topics_unloaded_with_backlog", (), len(node.topics.unloaded)
    yield "magnetar_topics_unloaded_dropped_total", (), node.topics.unloaded.dropped
    yield "magnetar_publish_pending_bytes", (), node.pending_bytes
    yield "magnetar_requests_in_progress", (), node.requests
    yield "magnetar_client_properties_bytes", (), node.kept.bytes
    yield "magnetar_client_objects_bytes", (), node.kept.objects_bytes
    yield "magnetar_partial_frames_bytes", (), node.partial_frames.bytes
    yield "magnetar_unread_bytes", (), node.unread.bytes
    yield "magnetar_stages_begun_total", (), node.sinks.begun
    yield "magnetar_stage_batches_committed_total", (), node.sinks.commits
    yield "magnetar_stage_messages_published_total", (), node.sinks.leader.rows
    yield "magnetar_sinks_waiting", (), len(node.sinks.leader.errors)


def _latency(rates: RateTracker, writes: Writes) -> Iterator[Sample]:
    last = rates.all_writes(writes).latency
    for share in QUANTILES:
        yield "pulsar_broker_publish_latency", (("quantile", str(share)),), round(last.quantile(share), 3)
    yield "pulsar_broker_publish_latency_count", (), writes.latency.count
    yield "pulsar_broker_publish_latency_sum", (), round(writes.latency.sum, 3)
    yield from _histogram("magnetar_storage_write_latency_seconds", writes.latency, 1000)


def _histogram(family: str, histogram: Histogram, unit: float) -> Iterator[Sample]:
    """In the format of Prometheus: each bucket counts the values at or below its bound."""
    below = 0
    for bound, count in zip((*histogram.bounds, None), histogram.counts, strict=True):
        below += count
        yield f"{family}_bucket", (("le", "+Inf" if bound is None else str(bound / unit)),), below
    yield f"{family}_sum", (), round(histogram.sum / unit, 6)
    yield f"{family}_count", (), histogram.count


def _journal(node: Node) -> Iterator[Sample]:
    if not isinstance(node.ledgers, LocalLedgers):
        return
    journal = node.ledgers.journal
    yield "magnetar_journal_batches_total", (), journal.batches
    yield "magnetar_journal_syncs_total", (), journal.syncs
    yield "magnetar_journal_sync_seconds_total", (), journal.sync_s
    yield "magnetar_journal_entries_total", (), journal.entries_written
    yield "magnetar_journal_bytes_total", (), journal.bytes_written
    yield "magnetar_journal_pending_bytes", (), journal.pending_bytes
    yield "magnetar_journal_segments", (), len(journal.segments)


def _topic(labels: Labels, sample: TopicSample, rate: TopicCounts, now_ms: int) -> Iterator[Sample]:
    yield "pulsar_subscriptions_count", labels, len(sample.subscriptions)
    yield "pulsar_producers_count", labels, sample.producers
    yield "pulsar_consumers_count", labels, sum(one.consumers for one in sample.subscriptions)
    yield "pulsar_rate_in", labels, round(rate.messages_in, 3)
    yield "pulsar_rate_out", labels, round(rate.messages_out, 3)
    yield "pulsar_throughput_in", labels, round(rate.bytes_in, 3)
    yield "pulsar_throughput_out", labels, round(rate.bytes_out, 3)
    yield "pulsar_in_messages_total", labels, sample.messages_in
    yield "pulsar_in_bytes_total", labels, sample.bytes_in
    yield "pulsar_average_msg_size", labels, round(sample.bytes_in / sample.messages_in, 3) if sample.messages_in else 0
    if not sample.stored:
        return
    lags = [one.lag for one in sample.subscriptions]
    ages = [lag.at(now_ms).age_s for lag in lags]
    per_entry = sample.entries_in / sample.messages_in if sample.messages_in else 1.0
    yield "pulsar_storage_size", labels, sample.size
    yield "pulsar_storage_logical_size", labels, sample.size
    yield "pulsar_storage_backlog_size", labels, max((lag.bytes for lag in lags), default=0)
    yield "pulsar_storage_backlog_age_seconds", labels, max(ages, default=0)
    yield "pulsar_storage_offloaded_size", labels, 0
    yield "pulsar_storage_backlog_quota_limit", labels, -1
    yield "pulsar_storage_write_rate", labels, round(rate.entries_in, 3)
    yield "pulsar_storage_read_rate", labels, round(rate.messages_out * per_entry, 3)
    yield "pulsar_msg_backlog", labels, sum(one.backlog for one in sample.subscriptions)


def _unloaded(labels: Labels, sample: TopicSample, now_ms: int) -> Iterator[Sample]:
    """The samples that show an unread backlog. There may be tens of thousands of unloaded topics; all their other
    values are 0."""
    lags = [subscription.lag for subscription in sample.subscriptions]
    yield "pulsar_subscriptions_count", labels, len(sample.subscriptions)
    yield "pulsar_producers_count", labels, 0
    yield "pulsar_consumers_count", labels, 0
    yield "pulsar_in_messages_total", labels, sample.messages_in
    yield "pulsar_storage_size", labels, sample.size
    yield "pulsar_storage_backlog_size", labels, max((lag.bytes for lag in lags), default=0)
    yield "pulsar_storage_backlog_age_seconds", labels, max((lag.at(now_ms).age_s for lag in lags), default=0)
    yield "pulsar_msg_backlog", labels, sum(subscription.backlog for subscription in sample.subscriptions)
    for subscription in sample.subscriptions:
        named = (*labels, ("subscription", subscription.name))
        yield "pulsar_subscription_consumers_count", named, 0
        yield "pulsar_subscription_back_log", named, subscription.backlog
        yield "magnetar_subscription_lag_messages", named, subscription.lag.messages
        yield "magnetar_subscription_lag_seconds", named, subscription.lag.at(now_ms).age_s


def _written(labels: Labels, last: Writes | None) -> Iterator[Sample]:
    if last is None:
        return
    yield from last.latency.samples("pulsar_storage_write_latency", labels)
    yield from last.latency.samples("pulsar_storage_ledger_write_latency", labels)
    yield from last.latency.samples("pulsar_add_entry_latency", labels)
    yield from last.sizes.samples("pulsar_entry_size", labels)


def _subscription(labels: Labels, sample: SubscriptionSample, rate: TopicCounts, now_ms: int) -> Iterator[Sample]:
    yield "pulsar_out_messages_total", labels, sample.messages_out
    yield "pulsar_out_bytes_total", labels, sample.bytes_out
    yield "pulsar_subscription_msg_rate_out", labels, round(rate.messages_out, 3)
    yield "pulsar_subscription_msg_throughput_out", labels, round(rate.bytes_out, 3)
    yield "pulsar_subscription_consumers_count", labels, sample.consumers
    yield "pulsar_subscription_unacked_messages", labels, sample.unacked
    yield "pulsar_subscription_blocked_on_unacked_messages", labels, int(sample.blocked)
    if not sample.stored:
        return
    yield "pulsar_subscription_back_log", labels, sample.backlog
    yield "pulsar_subscription_back_log_no_delayed", labels, max(0, sample.backlog - sample.delayed)
    yield "pulsar_subscription_delayed", labels, sample.delayed
    yield "magnetar_subscription_lag_messages", labels, sample.lag.messages
    yield "magnetar_subscription_lag_seconds", labels, sample.lag.at(now_ms).age_s


def _scalable(node: Node, wholes: dict[str, _Whole], now_ms: int) -> Iterator[Sample]:
    led = {name.canonical for name in node.scalable.figures.led}
    shown = node.handlers.holds.expiry.layouts.shown
    for key, layout in shown.items():
        labels = _labels(layout.topic)
        yield "pulsar_scalable_topic_active_segments", labels, layout.active
        yield "pulsar_scalable_topic_sealed_segments", labels, layout.sealed
        yield "pulsar_scalable_topic_layout_epoch", labels, layout.epoch
        yield "pulsar_scalable_topic_controller_leader", labels, int(key in led)
        for name, count in layout.waiting:
            yield "magnetar_scalable_subscription_waiting_segments", (*labels, ("subscription", name)), count
    for topic in node.scalable.figures.led:
        if topic.canonical not in shown:
            yield "pulsar_scalable_topic_controller_leader", _labels(topic), 1
    for whole, kinds in node.scalable.figures.finished.items():
        labels = _labels(topic_name(whole))
        yield "pulsar_scalable_topic_splits_total", labels, kinds.get("SPLIT", 0)
        yield "pulsar_scalable_topic_merges_total", labels, kinds.get("MERGE", 0)
    for scaling in list(node.autoscaler.log.topics.values()):
        yield from _scaling(_labels(scaling.topic), scaling)
    yield from _sums(wholes.values(), now_ms)


def _scaling(labels: Labels, scaling: TopicScaling) -> Iterator[Sample]:
    """Automatic scaling as the last evaluation saw it: only segments with messages have series."""
    counts = scaling.counts
    for family, kind in (("auto_splits", SPLIT), ("auto_merges", MERGE)):
        taken = sum(number for (each, was_taken, _), number in counts.items() if each == kind and was_taken)
        yield f"pulsar_scalable_topic_{family}_total", labels, taken
    yield "pulsar_scalable_topic_split_suppressed_max_segments_total", labels, counts[SPLIT, False, "max-segments"]
    yield "pulsar_scalable_topic_merge_suppressed_max_depth_total", labels, counts[MERGE, False, "max-depth"]
    yield "pulsar_scalable_topic_dag_depth", labels, scaling.depth
    for (kind, was_taken, reason), number in sorted(counts.items()):
        decided = (("kind", kind), ("taken", str(was_taken).lower()), ("reason", reason))
        yield "magnetar_scalable_topic_decisions_total", (*labels, *decided), number
    for name, consumers in sorted(scaling.wanted.items()):
        yield "pulsar_subscription_wanted_consumers", (*labels, ("subscription", name)), consumers
    for id, load in sorted(scaling.loads.items()):
        if load.measured_s:
            yield from _segment(labels, id, load)


def _segment(labels: Labels, id: SegmentId, load: SegmentLoad) -> Iterator[Sample]:
    named = (*labels, ("segment", str(id)))
    families = ("rate_in", "throughput_in", "rate_out", "throughput_out")
    for family, rate in zip(families, load.rates, strict=True):
        yield f"pulsar_segment_{family}", named, round(rate, 3)
    yield "pulsar_segment_key_share_ratio", named, round(key_share(load), 4)
    yield "pulsar_segment_hot_key_share_ratio", named, load.hot[0].share if load.hot else 0


def _sums(wholes: Iterable[_Whole], now_ms: int) -> Iterator[Sample]:
    for whole in wholes:
        labels = _labels(whole.name)
        for family, value in zip(("rate_in", "rate_out", "throughput_in", "throughput_out"), whole.rates, strict=True):
            yield f"pulsar_scalable_topic_{family}", labels, round(value, 3)
        yield "pulsar_scalable_topic_in_messages_total", labels, whole.messages_in
        yield "pulsar_scalable_topic_in_bytes_total", labels, whole.bytes_in
        yield "pulsar_scalable_topic_storage_size", labels, whole.size
        for name, lag in sorted(whole.lags.items()):
            named = (*labels, ("subscription", name))
            yield "magnetar_scalable_subscription_lag_messages", named, lag.messages
            yield "magnetar_scalable_subscription_lag_seconds", named, lag.at(now_ms).age_s


def _labels(topic: TopicName) -> Labels:
    return (("namespace", str(topic.namespace)), ("topic", str(topic)))
