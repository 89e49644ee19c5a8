"""Who descends from whom: the questions that order rests on.

A message of an ancestor comes before a message of its descendants, so a segment may be read only when EVERY ancestor is
done, not only its parents: an empty generation in the middle would otherwise open its children while a grandparent
still has messages (H-F1). Pure; each answer takes one walk over the edges.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from magnetar.base.ids import SegmentId
from magnetar.layout.layout import Layout
from magnetar.layout.segment import Segment


def ancestors(layout: Layout, id: SegmentId) -> set[SegmentId]:
    """Everything that comes before, without the segment itself."""
    return _walk(layout, layout.segment(id).parents, up=True)


def descendants(layout: Layout, id: SegmentId) -> set[SegmentId]:
    return _walk(layout, layout.segment(id).children, up=False)


def ancestors_of_any(layout: Layout, ids: Iterable[SegmentId]) -> set[SegmentId]:
    """In one walk: the lineage of a long history one by one costs the square of it."""
    return _walk(layout, [parent for id in ids for parent in layout.segment(id).parents], up=True)


def descendants_of_any(layout: Layout, ids: Iterable[SegmentId]) -> set[SegmentId]:
    return _walk(layout, [child for id in ids for child in layout.segment(id).children], up=False)


def descends(layout: Layout, id: SegmentId, ancestor: SegmentId) -> bool:
    """Whether one segment came of another."""
    left, seen = list(layout.segment(id).parents), set[SegmentId]()
    while left:
        current = left.pop()
        if current == ancestor:
            return True
        if (
            current > ancestor and current not in seen and current in layout
        ):  # ids grow: older ones cannot descend from it
            seen.add(current)
            left.extend(layout.segment(current).parents)
    return False


def merge_depths(layout: Layout) -> dict[SegmentId, int]:
    """For each segment the most merges on one path of ancestors to it, pruned ones and its own merge included."""
    return {segment.id: segment.merge_depth for segment in layout.segments}


def open_segments(layout: Layout, done: Collection[SegmentId]) -> list[Segment]:
    """The segments with only done ancestors, the done segments among them, by id. An ancestor that is not in the
    layout any more was done by everybody before it went."""
    done = frozenset(done)  # it may be long, and is looked into for every edge
    clear: set[SegmentId] = set()
    opened: list[Segment] = []
    for segment in layout.segments:  # parents come before their children: ids grow
        if all(parent in done and parent in clear for parent in segment.parents):
            clear.add(segment.id)
            opened.append(segment)
    return opened


def blockers(layout: Layout, id: SegmentId, done: Collection[SegmentId]) -> list[SegmentId]:
    """The ancestors that a segment still waits for, by id."""
    return sorted(ancestors(layout, id) - set(done))


def removable(layout: Layout) -> list[SegmentId]:
    """Sealed segments without a remaining parent: only these may be pruned, so that no segment loses its ancestors."""
    return [one.id for one in layout.segments if not one.is_active and not one.parents]


def _walk(layout: Layout, start: Iterable[SegmentId], *, up: bool) -> set[SegmentId]:
    seen: set[SegmentId] = set()
    waiting = list(start)
    while waiting:
        id = waiting.pop()
        if id not in seen:
            seen.add(id)
            segment = layout.segment(id)
            waiting.extend(segment.parents if up else segment.children)
    return seen
