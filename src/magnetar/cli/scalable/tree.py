"""Layouts for people: the tree of segments as text, and the plan that leads to a number of segments.

Pure. The REST document of a topic becomes the same `Layout` that broker and client use.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from magnetar.base.errors import Misuse
from magnetar.base.ids import Epoch, SegmentId
from magnetar.base.names import TopicName, topic_name
from magnetar.base.ranges import HashRange
from magnetar.client.documents.scalable import ScalableTopicMetadata
from magnetar.layout.layout import Layout
from magnetar.layout.segment import Segment, State


@dataclass(frozen=True, slots=True)
class ScaleStep:
    """One reshape of a plan: a split of one segment, or a merge of neighbours."""

    parents: tuple[int, ...]
    children: tuple[int, ...]

    @property
    def is_split(self) -> bool:
        return len(self.parents) == 1


def scalable_name(text: str) -> TopicName:
    """A complete name, or a short name as with plain topics."""
    name = topic_name(text)
    if "://" in text and not name.is_scalable:
        raise Misuse("expected a scalable topic (topic://)", topic=text)
    return name.scalable


def layout_of(metadata: ScalableTopicMetadata) -> Layout:
    segments = [
        Segment(
            SegmentId(one.segmentId),
            HashRange(one.hashRange.start, one.hashRange.end),
            state=State.ACTIVE if one.state == "ACTIVE" else State.SEALED,
            parents=tuple(SegmentId(id) for id in one.parentIds),
            children=tuple(SegmentId(id) for id in one.childIds),
            created_epoch=Epoch(one.createdAtEpoch),
            created_ms=one.createdAtMs,
            sealed_epoch=Epoch(one.sealedAtEpoch),
            sealed_ms=one.sealedAtMs,
        )
        for one in metadata.segments.values()
    ]
    ordered = tuple(sorted(segments, key=lambda one: one.id))
    return Layout(Epoch(metadata.epoch), SegmentId(metadata.nextSegmentId), ordered, generation=metadata.epoch)


def hashes(range: HashRange) -> str:
    """The hash range of a segment, both ends included."""
    return f"{range.start:04x}-{range.end:04x}"


def plan(layout: Layout, count: int) -> list[ScaleStep]:
    """Splits of the widest segment, or merges of the two neighbours with the smallest common range, one after
    another.
    """
    steps: list[ScaleStep] = []
    while len(layout.active) != count:
        if len(layout.active) < count:
            widest = max(layout.active, key=lambda one: (len(one.range), -one.range.start))
            parents: tuple[SegmentId, ...] = (widest.id,)
            after = layout.split(widest.id, now_ms=0)
        else:
            pairs = list(zip(layout.active, layout.active[1:], strict=False))
            lower, upper = min(pairs, key=lambda pair: (len(pair[0].range) + len(pair[1].range), pair[0].range.start))
            parents = (lower.id, upper.id)
            after = layout.merge(parents, now_ms=0)
        steps.append(ScaleStep(parents, after.segment(parents[0]).children))
        layout = after
    return steps


def tree(layout: Layout) -> Iterator[tuple[str, Segment]]:
    """Every segment once, under its first parent, with its prefix in the text tree."""
    roots = [one for one in layout.segments if not one.parents]
    for root in roots:
        yield "", root
        yield from _below(layout, root, "")


def _below(layout: Layout, parent: Segment, indent: str) -> Iterator[tuple[str, Segment]]:
    mine = [layout.segment(id) for id in parent.children if layout.segment(id).parents[0] == parent.id]
    for index, child in enumerate(mine):
        last = index == len(mine) - 1
        yield indent + ("└─" if last else "├─"), child
        yield from _below(layout, child, indent + ("  " if last else "│ "))


def generations(layout: Layout, slot: int) -> list[Segment]:
    """The segments that contained a hash slot, the oldest first; the last one is active."""
    return [one for one in layout.segments if slot in one.range]
