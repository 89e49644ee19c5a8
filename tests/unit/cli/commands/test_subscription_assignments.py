"""What a subscription does, told in words: who reads, who gets what next, what waits for what."""

from __future__ import annotations

import pytest

from magnetar.base.ids import SegmentId
from magnetar.cli.commands.subscription_assignments import SegmentAssignment, consumers_words, readings, words
from magnetar.client.documents.scalable import SubscribedConsumer, SubscribedSegment, SubscriptionPlan
from magnetar.layout.layout import initial

SPLIT = initial(2, now_ms=0).split(SegmentId(0), now_ms=1)  # 0 -> 2, 3; 1 stays


def a_plan(*holds: tuple[int, str | None, str | None], drained: tuple[int, ...] = ()) -> SubscriptionPlan:
    segments = [SubscribedSegment(segmentId=id, consumerName=one, nextConsumerName=next) for id, one, next in holds]
    return SubscriptionPlan(
        subscription="s", type="STREAM", generation=1, segments=segments, drainedSegmentIds=list(drained)
    )


def told(plan: SubscriptionPlan, left: dict[int, int]) -> dict[int, str]:
    counts = {SegmentId(id): count for id, count in left.items()}
    return {one.segment.id: words(one, {**counts}) for one in readings(SPLIT, plan)}


def test_children_show_what_they_wait_for_and_rest():
    assert told(a_plan((0, "a", None), (1, "b", None)), {0: 1200, 1: 0}) == {
        0: "is read to its end; #2, #3 wait for it",
        1: "is read",
        2: "waits for #0 (1,200 left)",
        3: "waits for #0 (1,200 left)",
    }


def test_segment_that_changes_hands_says_from_whom_to_whom():
    plan = a_plan((1, "a", "b"), (2, None, "b"), (3, None, None), drained=(0,))
    assert told(plan, {}) == {1: "moves to b when a releases it", 2: "moves to b", 3: "waits for a consumer"}


def test_drained_segments_are_not_told():
    assert [one.segment.id for one in readings(SPLIT, a_plan(drained=(0, 1)))] == [2, 3]


def test_parent_whose_owner_is_silent_has_no_count():
    deeper = SPLIT.split(SegmentId(2), now_ms=2)
    [one] = [one for one in readings(deeper, a_plan()) if one.segment.id == 4]
    assert words(one, {SegmentId(0): 7}) == "waits for #0 (7 left), #2 (unknown)"
    assert isinstance(one, SegmentAssignment)


@pytest.mark.parametrize(("connected", "said"), [((True, True), "2"), ((True, False), "2, 1 of them not connected")])
def test_consumers_that_are_waited_for_are_counted(connected, said):
    assert consumers_words([SubscribedConsumer(consumerName="c", connected=one) for one in connected]) == said


def test_segment_held_before_its_ancestors_are_done_is_read_ahead():
    assert told(a_plan((0, "a", None), (1, "a", None), (2, "a", None)), {0: 3}) == {
        0: "is read to its end; #3 waits for it",
        1: "is read",
        2: "is read ahead of acknowledgements in #0 (3 left)",
        3: "waits for #0 (3 left)",
    }
