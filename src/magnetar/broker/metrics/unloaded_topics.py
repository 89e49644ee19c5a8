"""Data of unloaded topics: the backlog that metrics continue to show, and the counters.

A topic with a backlog keeps one sample here, so that an alert does not end when the last client disconnects. Totals of
other topics are kept too, fewer of them, so that counters continue when the topic is loaded again. Both are bounded:
the oldest is dropped first, and counted. A bundle that leaves this broker takes its samples with it. This module holds
values only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from magnetar.base.limits import UNLOADED_SAMPLES_MAX, UNLOADED_TOTALS_MAX
from magnetar.broker.metrics.topic_samples import AnyTopic, TopicSample, unloaded
from magnetar.topic.topic import Topic


class Unloaded:
    def __init__(self) -> None:
        self._samples: dict[str, tuple[TopicSample, Any]] = {}  # with the bundle; the one that left last comes last
        self._totals: dict[str, TopicSample] = {}
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._samples)

    def __iter__(self) -> Iterator[TopicSample]:
        return (one for one, _ in list(self._samples.values()))

    def __contains__(self, key: str) -> bool:
        return key in self._samples

    def keep(self, key: str, sample: TopicSample, place: Any = None) -> None:
        """Stores the sample of an unloaded topic. `place`: its bundle, in a cluster."""
        self._samples.pop(key, None)
        self._totals.pop(key, None)
        if sample.has_backlog:
            self._samples[key] = unloaded(sample), place
            if len(self._samples) > UNLOADED_SAMPLES_MAX:
                del self._samples[next(iter(self._samples))]
                self.dropped += 1
        elif sample.messages_in or any(one.messages_out for one in sample.subscriptions):
            self._totals[key] = unloaded(sample)
            if len(self._totals) > UNLOADED_TOTALS_MAX:
                del self._totals[next(iter(self._totals))]

    def resume(self, key: str, topic: AnyTopic) -> None:
        """The topic is loaded again: its counters continue."""
        sample = self.forget(key)
        if sample is None or not isinstance(topic, Topic):
            return
        topic.messages_in += sample.messages_in
        topic.bytes_in += sample.bytes_in
        topic.entries_in += sample.entries_in
        topic.since_ms = sample.since_ms
        for subscription_sample in sample.subscriptions:
            subscription = topic.subscriptions.get(subscription_sample.name)
            if subscription is not None:
                subscription.messages_out += subscription_sample.messages_out
                subscription.bytes_out += subscription_sample.bytes_out

    def forget(self, key: str) -> TopicSample | None:
        sample = self._samples.pop(key, None)
        return self._totals.pop(key, None) if sample is None else sample[0]

    def forget_place(self, place: Any) -> None:
        """The bundle has another owner, which reports its topics from now on."""
        for key in [key for key, (_, where) in self._samples.items() if where == place]:
            del self._samples[key]
