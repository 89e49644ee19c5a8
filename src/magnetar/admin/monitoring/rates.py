"""Rates from counters: the inbound and outbound messages and bytes per second of a topic or subscription.

It has no timer: a request starts a new interval when the last one is long enough, so an idle broker computes nothing.
The rates of an unloaded topic are dropped; its totals continue when it is loaded again
(`broker/metrics/unloaded_topics.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from magnetar.base.limits import RATE_INTERVAL_S
from magnetar.broker.metrics.topic_samples import AnySubscription, AnyTopic, outgoing, subscriptions
from magnetar.topic.topic import Topic
from magnetar.topic.write_metrics import Writes

if TYPE_CHECKING:
    from magnetar.broker.node import Node

__all__ = ["AnySubscription", "RateTracker", "TopicCounts", "counts", "observe", "outgoing", "subscriptions"]


@dataclass(frozen=True, slots=True)
class TopicCounts:
    """Totals, or the same values per second."""

    messages_in: float = 0.0
    bytes_in: float = 0.0
    messages_out: float = 0.0
    bytes_out: float = 0.0
    entries_in: float = 0.0

    def per_second(self, before: TopicCounts, seconds: float) -> TopicCounts:
        pairs = zip(astuple(self), astuple(before), strict=True)
        return TopicCounts(*(max(0.0, now - then) / seconds for now, then in pairs))


@dataclass(slots=True)
class _Interval:
    """The last complete interval, and the totals at its end."""

    at: float
    totals: TopicCounts
    rate: TopicCounts = TopicCounts()


@dataclass(slots=True)
class _Written:
    at: float
    totals: Writes
    last: Writes


class RateTracker:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._topics: WeakKeyDictionary[AnyTopic, _Interval] = WeakKeyDictionary()
        self._subscriptions: WeakKeyDictionary[AnySubscription, _Interval] = WeakKeyDictionary()
        self._writes: WeakKeyDictionary[AnyTopic, _Written] = WeakKeyDictionary()
        self._all = _Written(0.0, Writes(), Writes())

    def of(self, topic: AnyTopic) -> TopicCounts:
        interval = self._topics.get(topic)
        if interval is None:
            self._topics[topic] = _Interval(self._now, counts(topic))
            return TopicCounts()
        return self._moved(interval, lambda: counts(topic))

    def of_subscription(self, subscription: AnySubscription) -> TopicCounts:
        interval = self._subscriptions.get(subscription)
        if interval is None:
            self._subscriptions[subscription] = _Interval(self._now, _out(subscription))
            return TopicCounts()
        return self._moved(interval, lambda: _out(subscription))

    def writes(self, topic: Topic) -> Writes | None:
        """The writes of the last interval; None: there were never any."""
        if topic.writes is None:
            return None
        written = self._writes.get(topic)
        if written is None:
            written = self._writes[topic] = _Written(self._now, Writes(), topic.writes.copy())
            written.totals = topic.writes.copy()
        return self._written(written, topic.writes)

    def all_writes(self, totals: Writes) -> Writes:
        """The writes of the whole broker."""
        return self._written(self._all, totals)

    @property
    def _now(self) -> float:
        return self._node.runtime.monotonic()

    def _moved(self, interval: _Interval, totals: Callable[[], TopicCounts]) -> TopicCounts:
        seconds = self._now - interval.at
        if seconds >= RATE_INTERVAL_S:
            fresh = totals()
            interval.rate = fresh.per_second(interval.totals, seconds)
            interval.at, interval.totals = self._now, fresh
        return interval.rate

    def _written(self, written: _Written, totals: Writes) -> Writes:
        if self._now - written.at >= RATE_INTERVAL_S:
            written.last = totals.since(written.totals)
            written.at, written.totals = self._now, totals.copy()
        return written.last


def counts(topic: AnyTopic) -> TopicCounts:
    sums = [outgoing(subscription) for subscription in subscriptions(topic)]
    messages, size = sum(out[0] for out in sums), sum(out[1] for out in sums)
    return TopicCounts(topic.messages_in, topic.bytes_in, messages, size, topic.entries_in)


def _out(subscription: AnySubscription) -> TopicCounts:
    messages, size = outgoing(subscription)
    return TopicCounts(messages_out=messages, bytes_out=size)


_OF_NODE: WeakKeyDictionary[Node, RateTracker] = WeakKeyDictionary()


def observe(node: Node) -> RateTracker:
    """The rates of this node."""
    tracker = _OF_NODE.get(node)
    if tracker is None:
        tracker = _OF_NODE[node] = RateTracker(node)
    return tracker
