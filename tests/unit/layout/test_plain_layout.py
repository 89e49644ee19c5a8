"""Plain topics as layouts: what clients are shown, how partitions come, what a migration makes of them."""

from __future__ import annotations

import pytest

from magnetar.base.ids import SegmentId
from magnetar.base.names import topic_name
from magnetar.base.ranges import FULL
from magnetar.layout.layout import initial
from magnetar.layout.lineage import open_segments
from magnetar.layout.plain_layout import children_of, grown, is_plain, migrated, synthetic, topics_of
from magnetar.layout.routing import Routing

PLAIN = topic_name("persistent://public/default/orders")


def test_plain_topic_is_one_segment_and_partition_one_each():
    one = synthetic(topics_of(PLAIN, 0))
    assert [(segment.id, segment.range, segment.legacy_topic) for segment in one.segments] == [(0, FULL, str(PLAIN))]
    three = synthetic(topics_of(PLAIN, 3))
    assert [segment.legacy_topic for segment in three.segments] == [str(PLAIN.partition(index)) for index in range(3)]
    assert [segment.id for segment in three.segments] == [0, 1, 2]
    assert is_plain(one)
    assert is_plain(three)
    assert not is_plain(initial(3, now_ms=0))


def test_added_partition_keeps_existing_ids():
    before = synthetic(topics_of(PLAIN, 2), epoch=2)
    assert grown(before, topics_of(PLAIN, 2)) is before
    after = grown(before, topics_of(PLAIN, 3))
    assert after.epoch > before.epoch
    assert [one.legacy_topic for one in after.segments[:2]] == [one.legacy_topic for one in before.segments]
    assert after.segments[2].created_epoch == after.epoch, "who follows begins there with the first message"
    assert after.next_segment_id == 3


def test_burned_ids_stay_burned_when_partitions_are_added_h_c2():
    before, _ = synthetic(topics_of(PLAIN, 2)).burned(children_of(synthetic(topics_of(PLAIN, 2))))
    assert grown(before, topics_of(PLAIN, 3)).next_segment_id == 4


@pytest.mark.parametrize("partitions", [0, 1, 3])
def test_new_segments_wait_for_every_plain_topic_after_migration(partitions: int):
    layout = migrated(topics_of(PLAIN, partitions), now_ms=1)
    old = [one.id for one in layout.segments if one.legacy_topic]
    new = [one.id for one in layout.active]
    assert len(old) == len(new)
    assert not is_plain(layout)
    assert [one.id for one in open_segments(layout, old[:-1])] == old
    assert [one.id for one in open_segments(layout, old)] == [*old, *new]
    assert all(layout.segment(SegmentId(id)).range == FULL for id in old), "keys of any hash were there"


def test_keys_of_partitioned_topic_keep_destination_under_any_routing():
    layout = synthetic(topics_of(PLAIN, 4))
    for routing in Routing:
        assert [layout.route_key(key, routing).id for key in ("a", "hello", "key-1", "pulsar")] == [2, 3, 0, 3]
