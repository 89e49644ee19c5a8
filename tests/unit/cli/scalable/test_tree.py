"""Layouts for people: every segment once in the tree, plans that lead to a number of segments, the past of a key."""

from __future__ import annotations

import pytest

from magnetar.base.errors import Misuse
from magnetar.base.ids import SegmentId
from magnetar.cli.scalable.tree import ScaleStep, generations, layout_of, plan, scalable_name, tree
from magnetar.client.documents.scalable import HashRange, ScalableTopicMetadata, SegmentInfo
from magnetar.layout.layout import Layout, initial


def ids(*numbers: int) -> list[SegmentId]:
    return [SegmentId(number) for number in numbers]


def reshaped() -> Layout:
    """0 was split into 1 and 2, 1 into 3 and 4, then 4 and 2 were merged into 5."""
    split = initial(1, now_ms=0).split(SegmentId(0), now_ms=1).split(SegmentId(1), now_ms=2)
    return split.merge(ids(4, 2), now_ms=3)


def test_tree_shows_every_segment_once_under_its_first_parent():
    assert [f"{before}{one.id}" for before, one in tree(reshaped())] == ["0", "├─1", "│ ├─3", "│ └─4", "│   └─5", "└─2"]


def test_plan_splits_widest_and_merges_narrowest():
    assert plan(initial(1, now_ms=0), 3) == [ScaleStep((0,), (1, 2)), ScaleStep((1,), (3, 4))]
    layout = initial(1, now_ms=0).split(SegmentId(0), now_ms=1).split(SegmentId(1), now_ms=2)
    assert plan(layout, 2) == [ScaleStep((3, 4), (5,))]
    assert [step.is_split for step in plan(layout, 1)] == [False, False]
    assert plan(layout, 3) == []


def test_generations_of_place_end_with_segment_that_takes_it_now():
    layout = reshaped()
    assert [one.id for one in generations(layout, 0x5000)] == [0, 1, 4, 5]
    assert generations(layout, 0x5000)[-1] == layout.route(0x5000)


def test_layout_is_read_from_what_rest_says():
    layout = initial(1, now_ms=5).split(SegmentId(0), now_ms=9)
    shown = ScalableTopicMetadata(
        epoch=layout.epoch,
        nextSegmentId=layout.next_segment_id,
        segments={
            str(one.id): SegmentInfo(
                segmentId=one.id,
                hashRange=HashRange(one.range.start, one.range.end),
                state=str(one.state),
                parentIds=list(one.parents),
                childIds=list(one.children),
                createdAtEpoch=one.created_epoch,
                sealedAtEpoch=one.sealed_epoch,
                createdAtMs=one.created_ms,
                sealedAtMs=one.sealed_ms,
            )
            for one in reversed(layout.segments)
        },
    )
    assert layout_of(shown) == layout


def test_name_of_scalable_topic_may_be_short():
    assert str(scalable_name("clicks")) == "topic://public/default/clicks"
    assert str(scalable_name("topic://a/b/c")) == "topic://a/b/c"
    with pytest.raises(Misuse):
        scalable_name("persistent://a/b/c")
