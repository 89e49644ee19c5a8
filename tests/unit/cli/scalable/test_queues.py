"""What is said of a queue and of a hold: nothing waits for anything, and who is attached is counted."""

from __future__ import annotations

from magnetar.base.ids import SegmentId
from magnetar.cli.output.values import Lag
from magnetar.cli.scalable.queues import UNDECIDED, hold_facts, is_hold, is_queue, queue_parts, queued, row
from magnetar.client.documents.scalable import (
    ScalableSubscriptionStats,
    StreamConsumer,
    SubscribedConsumer,
    SubscribedSegment,
    SubscriptionPlan,
)
from magnetar.layout.layout import initial

SPLIT = initial(2, now_ms=0).split(SegmentId(0), now_ms=1)  # 0 -> 2, 3; 1 stays
TOPIC = "topic://public/default/x"


def a_queue(
    *left: int | None, consumers: tuple[tuple[int, ...], ...] = (), undecided: bool = False
) -> SubscriptionPlan:
    return SubscriptionPlan(
        subscription="work",
        type="QUEUE",
        generation=0,
        segments=[SubscribedSegment(segmentId=id, left=count) for id, count in enumerate(left)],
        consumers=[SubscribedConsumer(consumerName=f"w{at}", segmentIds=list(ids)) for at, ids in enumerate(consumers)],
        undecided=undecided,
    )


def test_children_of_undrained_segment_without_wait_are_shown_reading():
    plan = a_queue(7, 0, 2, None, consumers=((0, 1), (0,)))
    assert [(one.segment.id, one.consumers, one.words) for one in queued(SPLIT, plan)] == [
        (0, 2, "is read"),
        (1, 1, "is read: no messages are left now"),
        (2, 0, "no consumer is connected"),
        (3, 0, "its owner does not answer"),
    ]


def test_sealed_segment_of_which_nothing_is_left_is_done():
    facts, sheet = queue_parts(TOPIC, SPLIT, a_queue(0, 1, 2, 3))
    assert [cells[0] for cells in sheet.rows] == [1, 2, 3]
    assert facts.values["segments"] == "3 to read, 1 done"
    assert facts.values["lag"] == Lag(6)
    assert facts.values["not counted"] is None


def test_segments_that_nobody_counts_are_said():
    facts, _ = queue_parts(TOPIC, SPLIT, a_queue(None, 1, 2, 3))
    assert facts.values["not counted"] == "1 segments without an answer of their owners"
    assert facts.values["lag"] == Lag(6)


def test_undecided_type_is_not_called_queue():
    facts, _ = queue_parts(TOPIC, SPLIT, a_queue(0, 0, 0, 0, undecided=True))
    assert facts.values["type"] == UNDECIDED


def test_hold_is_shown_by_own_command_and_is_no_group():
    plan = SubscriptionPlan(subscription="nightly", type="CHECKPOINT", generation=0)
    assert is_hold(plan)
    assert hold_facts(TOPIC, plan).values["kept messages"] == f"magnetar hold show {TOPIC} nightly"
    group = SubscriptionPlan(
        subscription="g", type="CHECKPOINT", generation=1, consumers=[SubscribedConsumer(consumerName="m")]
    )
    assert not is_hold(group)
    assert not is_queue(group)


def test_explained_topic_has_one_line_per_unplanned_subscription():
    told = ScalableSubscriptionStats(consumerCount=2, type="QUEUE", lag=1)
    assert row("work", told) == ("work", "all", "2 consumers", None)
    assert row("nightly", ScalableSubscriptionStats(consumerCount=0, type="CHECKPOINT")) == (
        "nightly",
        "all",
        "none: a hold",
        None,
    )
    group = ScalableSubscriptionStats(consumerCount=1, type="CHECKPOINT", consumers=[StreamConsumer(consumerName="m")])
    assert row("g", group) is None
    assert row("s", ScalableSubscriptionStats(consumerCount=0, type="STREAM")) is None
