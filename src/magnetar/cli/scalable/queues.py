"""Texts of `magnetar subscription` and `topic explain` for subscriptions without a plan: queues and holds.

The consumers of a queue read all segments at the same time, so no segment waits for another. Only its consumers and its
remaining messages matter, as the segment owners report them. The broker knows no consumers of a hold; `magnetar hold`
shows it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from magnetar.cli.output.output import KeyValues, TableData
from magnetar.cli.output.values import Cell, Lag
from magnetar.cli.scalable.tree import hashes
from magnetar.client.documents.scalable import ScalableSubscriptionStats, SubscriptionPlan
from magnetar.layout.layout import Layout
from magnetar.layout.segment import Segment

UNDECIDED = "undecided: the first consumer decides"
SEGMENT_COLUMNS = ("SEGMENT", "RANGE", "STATE", "CONSUMERS", "LEFT", "WHAT IT DOES")

Told = ScalableSubscriptionStats | SubscriptionPlan


@dataclass(frozen=True, slots=True)
class QueueStats:
    """One segment that a queue has not finished. `left` is None if its owner does not answer."""

    segment: Segment
    consumers: int
    left: int | None

    @property
    def words(self) -> str:
        if self.left is None:
            return "its owner does not answer"
        if not self.consumers:
            return "no consumer is connected"
        return "is read" if self.left else "is read: no messages are left now"


def is_queue(stats: Told) -> bool:
    return stats.type == "QUEUE"


def is_hold(stats: Told) -> bool:
    """Whether the subscription keeps messages for a reader outside the broker, and not for a group of consumers."""
    return stats.type == "CHECKPOINT" and not stats.consumers


def hold_words(topic: str, name: str) -> str:
    return f"magnetar hold show {topic} {name}"


def queued(layout: Layout, plan: SubscriptionPlan) -> list[QueueStats]:
    """Each segment that may still have messages for the queue. A sealed segment that the queue has finished never has
    new ones.
    """
    counts = Counter(id for one in plan.consumers for id in one.segmentIds)
    left = {one.segmentId: one.left for one in plan.segments}
    segments = [QueueStats(one, counts[one.id], left.get(one.id)) for one in layout.segments]
    return [one for one in segments if one.segment.is_active or one.left != 0]


def queue_parts(topic: str, layout: Layout, plan: SubscriptionPlan) -> tuple[KeyValues, TableData]:
    segments = queued(layout, plan)
    backlogs = [one.left for one in segments if one.left is not None]
    silent = len(segments) - len(backlogs)
    facts: dict[str, Cell] = {
        "subscription": plan.subscription,
        "topic": topic,
        "type": UNDECIDED if plan.undecided else plan.type,
        "consumers": len(plan.consumers),
        "lag": Lag(sum(backlogs)),
        "not counted": f"{silent} segments without an answer of their owners" if silent else None,
        "segments": f"{len(segments)} to read, {len(layout) - len(segments)} done",
    }
    rows: list[tuple[Cell, ...]] = [
        (
            one.segment.id,
            hashes(one.segment.range),
            str(one.segment.state),
            one.consumers,
            None if one.left is None else Lag(one.left),
            one.words,
        )
        for one in segments
    ]
    return KeyValues(facts, optional=frozenset(("not counted",))), TableData(SEGMENT_COLUMNS, rows)


def hold_facts(topic: str, plan: SubscriptionPlan) -> KeyValues:
    return KeyValues(
        {
            "subscription": plan.subscription,
            "topic": topic,
            "type": plan.type,
            "consumers": "none: it keeps messages for a reader that stores its own positions",
            "kept messages": hold_words(topic, plan.subscription),
        }
    )


def row(name: str, stats: ScalableSubscriptionStats) -> tuple[Cell, ...] | None:
    """The row in `topic explain`. None: the subscription has a plan, which is shown segment by segment."""
    if is_queue(stats):
        count = stats.consumerCount
        return name, "all", f"{count} consumer{'' if count == 1 else 's'}", None
    return (name, "all", "none: a hold", None) if is_hold(stats) else None
