"""The automatic decisions of the topics of a broker, taken and suppressed, with the counts that metrics show.

A decision that repeats the last one of its subject replaces it and counts, so that a long suppression does not displace
what came before. Both the decisions of a topic and the topics are bounded.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

import msgspec

from magnetar.base.ids import SegmentId
from magnetar.base.limits import DECISION_TOPICS_MAX, DECISIONS_KEPT_MAX
from magnetar.base.names import TopicName
from magnetar.layout.autoscale.decision import Decision, Evaluation
from magnetar.layout.autoscale.load import SegmentLoad


@dataclass(slots=True)
class TopicScaling:
    """The scaling of one topic, as this broker last evaluated it."""

    topic: TopicName
    cold_since_ms: dict[SegmentId, int] = field(default_factory=dict)
    loads: dict[SegmentId, SegmentLoad] = field(default_factory=dict)
    wanted: dict[str, int] = field(default_factory=dict)  # consumers by subscription
    latest: tuple[Decision, ...] = ()  # of the last evaluation
    kept: deque[Decision] = field(default_factory=lambda: deque(maxlen=DECISIONS_KEPT_MAX))
    evaluated_ms: int = 0
    depth: int = 0  # the most merges on one path of the layout
    counts: Counter[tuple[str, bool, str]] = field(default_factory=Counter)  # by kind, taken, reason

    def keep(self, evaluation: Evaluation, now_ms: int) -> None:
        before = {one.subject: one for one in self.latest}
        self.latest, self.evaluated_ms = evaluation.decisions, now_ms
        for decision in evaluation.decisions:
            self.counts[decision.kind, decision.taken, decision.reason] += 1
            repeated = before.get(decision.subject)
            newest = next((one for one in reversed(self.kept) if one.subject == decision.subject), None)
            if repeated is not None and newest is not None and not decision.taken:
                self.kept.remove(newest)
                decision = msgspec.structs.replace(decision, times=newest.times + 1)
            self.kept.append(decision)


class DecisionLog:
    def __init__(self) -> None:
        self.topics: dict[str, TopicScaling] = {}

    def of(self, topic: TopicName) -> TopicScaling:
        """Made if missing; the topic that was evaluated longest ago goes if there are too many."""
        scaling = self.topics.pop(topic.canonical, None) or TopicScaling(topic)
        self.topics[topic.canonical] = scaling
        if len(self.topics) > DECISION_TOPICS_MAX:
            del self.topics[next(iter(self.topics))]
        return scaling

    def find(self, topic: TopicName) -> TopicScaling | None:
        return self.topics.get(topic.canonical)

    def forget(self, topic: TopicName) -> None:
        self.topics.pop(topic.canonical, None)
