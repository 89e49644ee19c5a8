"""Entry buckets are cut as Pulsar cuts them; a segment is found by the names that its topic has or had."""

from __future__ import annotations

import pytest

from magnetar.base.errors import InvalidRange
from magnetar.base.ids import SegmentId
from magnetar.base.names import topic_name
from magnetar.base.ranges import FULL
from magnetar.layout.segment import Segment, bucket_splits


def test_equal_buckets_start_at_equal_distances():
    assert bucket_splits(1) == ()
    assert bucket_splits(4) == (0x4000, 0x8000, 0xC000)
    assert Segment(SegmentId(0), FULL, bucket_splits=bucket_splits(3)).buckets == 3


@pytest.mark.parametrize("count", [0, 1025])
def test_count_out_of_bounds_is_refused(count):
    with pytest.raises(InvalidRange):
        bucket_splits(count)


@pytest.mark.parametrize("name", ["topic://public/default/x", "persistent://public/default/x"])
def test_segment_of_migrated_topic_is_found_by_old_name(name):
    made = Segment(SegmentId(1), FULL)
    assert str(made.topic(topic_name(name))) == "segment://public/default/x/0000-ffff-1"
    before = Segment(SegmentId(0), FULL, legacy_topic="persistent://public/default/x")
    assert str(before.topic(topic_name(name))) == "persistent://public/default/x"
