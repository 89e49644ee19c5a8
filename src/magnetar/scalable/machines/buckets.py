"""Decides which stream consumers share a segment: those beyond the number of segments join one by its entry buckets.

`assign` gives every segment an owner first. A consumer without a segment that supports entry buckets joins the segment
with the fewest consumers. That segment must have more buckets than consumers, and its owner must support buckets too;
other consumers stay idle. A consumer stays with its segment unless the numbers would differ by more than one. The owner
of the segment decides which consumer gets which bucket, and keeps the order of keys while that changes. Consumers that
share a segment therefore join and leave without waiting for each other. This module performs no I/O.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from magnetar.base.ids import SegmentId
from magnetar.base.limits import SEGMENT_BUCKETS_MAX
from magnetar.layout.routing import Routing
from magnetar.layout.segment import Segment
from magnetar.scalable.record.subscription import Hold


def shared(
    segments: Sequence[Segment],
    owners: Mapping[SegmentId, str],
    sharing: Collection[str],
    before: Mapping[SegmentId, Hold],
) -> dict[SegmentId, tuple[str, ...]]:
    """By segment, the consumers of those that have several. `sharing`: who knows entry buckets."""
    owning = set(owners.values())
    surplus = sorted(name for name in sharing if name not in owning)
    room = {one.id: one.buckets if owners[one.id] in sharing else 1 for one in segments}
    stay = _staying(segments, surplus, before)
    counts = _counts(segments, room, {id: len(names) for id, names in stay.items()}, len(surplus))
    kept = {id: names[: counts[id] - 1] for id, names in stay.items()}
    placed = {name for names in kept.values() for name in names}
    free = iter([name for name in surplus if name not in placed])
    sharers: dict[SegmentId, tuple[str, ...]] = {}
    for segment in segments:
        missing = counts[segment.id] - 1 - len(kept[segment.id])
        joining = [next(free) for _ in range(missing)]
        if counts[segment.id] > 1:
            sharers[segment.id] = tuple(sorted([owners[segment.id], *kept[segment.id], *joining]))
    return sharers


def _staying(
    segments: Sequence[Segment], surplus: Sequence[str], before: Mapping[SegmentId, Hold]
) -> dict[SegmentId, list[str]]:
    """Of those without a segment of their own, who was with which one before."""
    left = set(surplus)
    stay: dict[SegmentId, list[str]] = {}
    for segment in segments:
        hold = before.get(segment.id)
        names = [] if hold is None else [name for name in (*hold.joint, *hold.sharers, hold.target) if name in left]
        stay[segment.id] = list(dict.fromkeys(names))
        left -= set(names)
    return stay


def _counts(
    segments: Sequence[Segment], room: Mapping[SegmentId, int], stay: Mapping[SegmentId, int], surplus: int
) -> dict[SegmentId, int]:
    """How many each has: the least first, among equals those that need not fetch anybody."""
    counts = {one.id: 1 for one in segments}
    places = {one.id: index for index, one in enumerate(segments)}
    for _ in range(surplus):
        open_ = [id for id in counts if counts[id] < room[id]]
        if not open_:
            break
        chosen = min(open_, key=lambda id: (counts[id], stay[id] < counts[id], places[id]))
        counts[chosen] += 1
    return counts


def shared_out(budget: int, segments: int, routing: Routing | None) -> int:
    """The number of entry buckets of each segment of a new topic; 1 if the low half of the hash routes to segments."""
    return 1 if routing is Routing.LOW16 else max(1, min(budget // segments, SEGMENT_BUCKETS_MAX))
