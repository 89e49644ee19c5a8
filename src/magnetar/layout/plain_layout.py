"""Plain and partitioned topics as layouts (PIP-475): what clients of scalable topics are shown of them, and what they
become when they are migrated.

A plain topic is one segment over all keys, a partitioned one a segment for each partition, with the partition's number
as its id: keys go where they went before, and the ranges say nothing. Each segment names the topic that holds its
messages. Pure; it does not know whether the topics exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from magnetar.base.ids import Epoch, SegmentId
from magnetar.base.names import TopicName
from magnetar.base.ranges import FULL, HashRange
from magnetar.layout import range_split
from magnetar.layout.layout import Layout
from magnetar.layout.segment import FIRST, Segment, State

FOLLOWS = ("__pulsar.v5.managed", "true")  # property of a producer or consumer that goes on when its topic is migrated


def topics_of(name: TopicName, partitions: int) -> tuple[str, ...]:
    """The topics that hold the messages of a plain topic (no partitions) or of a partitioned one."""
    return tuple(str(name.partition(index)) for index in range(partitions)) or (str(name),)


def synthetic(topics: Sequence[str], *, epoch: int = 0) -> Layout:
    """A plain topic, or the partitions of one, as clients of scalable topics see it: all active. Partitions only grow:
    a partitioned topic whose number of them is its epoch is seen to grow."""
    return Layout(Epoch(epoch), SegmentId(len(topics)), _active(topics, ()))


def migrated(topics: Sequence[str], *, now_ms: int) -> Layout:
    """A plain topic, or the partitions of one, as sealed parents of as many fresh segments, in one step."""
    burned, children = synthetic(topics).burned(range_split.initial(len(topics)))
    after = burned.reshaped([one.id for one in burned.active], children, now_ms=now_ms)
    segments = tuple(
        replace(one, created_epoch=FIRST, created_ms=now_ms, sealed_epoch=min(one.sealed_epoch, FIRST))
        for one in after.segments
    )
    return replace(after, epoch=FIRST, segments=segments, generation=FIRST)


def is_plain(layout: Layout) -> bool:
    """Whether everything that is written goes to plain topics: it was not migrated."""
    return bool(layout.active) and all(one.legacy_topic for one in layout.active)


def children_of(layout: Layout) -> tuple[HashRange, ...]:
    """The ranges of the segments that a migration makes: as many as there are plain topics."""
    return range_split.initial(len(layout.active))


def grown(layout: Layout, topics: Sequence[str]) -> Layout:
    """With the partitions that have come; the same where none has."""
    if len(topics) <= len(layout.active):
        return layout
    epoch = Epoch(max(layout.epoch + 1, len(topics)))
    following = SegmentId(max(layout.next_segment_id, len(topics)))
    return Layout(epoch, following, _active(topics, layout.active, epoch))


def _active(topics: Sequence[str], before: Sequence[Segment], epoch: Epoch = FIRST) -> tuple[Segment, ...]:
    ranges = range_split.initial(len(topics)) if len(topics) > 1 else (FULL,)
    segments = {one.id: one for one in before}
    return tuple(
        replace(segments[SegmentId(index)], range=part)
        if SegmentId(index) in segments
        else Segment(SegmentId(index), part, State.ACTIVE, legacy_topic=topic, created_epoch=epoch)
        for index, (topic, part) in enumerate(zip(topics, ranges, strict=True))
    )
