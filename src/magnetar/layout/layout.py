"""The layout of one scalable topic: all its segments, active and sealed, as an immutable graph with an epoch.

Splits, merges and pruning return a new layout. Every new layout is checked: the active ranges partition the keyspace,
edges agree at both ends, a child has a higher id than its parents (so the graph has no cycle), every id is below the
counter; anything else is `Corrupt`. The layout does not know why it changes, nor who may change it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import pairwise

from magnetar.base.errors import Corrupt, InvalidRange, NotFound
from magnetar.base.ids import Epoch, SegmentId
from magnetar.base.limits import SEGMENT_BUCKETS_MAX
from magnetar.base.names import TopicName, segment_name, topic_name
from magnetar.base.ranges import FULL, SLOT_MAX, HashRange
from magnetar.layout import range_split
from magnetar.layout.routing import Routing, legacy_partition, segment_hash
from magnetar.layout.segment import Ending, Segment, State, bucket_splits


@dataclass(frozen=True, slots=True)
class Child:
    """The id and range of a segment, planned or existing: the part that its owner needs."""

    id: SegmentId
    range: HashRange
    legacy_topic: str = ""  # of an existing segment: its messages are in this plain topic

    def topic(self, parent: TopicName) -> TopicName:
        """The topic that holds its messages."""
        return topic_name(self.legacy_topic) if self.legacy_topic else segment_name(parent, self.range, self.id)


@dataclass(frozen=True, slots=True)
class Layout:
    epoch: Epoch
    next_segment_id: SegmentId
    segments: tuple[Segment, ...]  # by id; none at all once the topic is deleted
    generation: int | None = None  # changes of the layout since the creation; None: not counted, as of a plain topic
    active: tuple[Segment, ...] = field(init=False, repr=False, compare=False)  # by range
    _by_id: Mapping[SegmentId, Segment] = field(init=False, repr=False, compare=False)
    _starts: list[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._index()
        _check(self, self.segments)

    def _index(self) -> None:
        active = sorted((one for one in self.segments if one.state is State.ACTIVE), key=lambda one: one.range.start)
        object.__setattr__(self, "active", tuple(active))
        object.__setattr__(self, "_by_id", {one.id: one for one in self.segments})
        object.__setattr__(self, "_starts", [one.range.start for one in active])

    @property
    def shown_epoch(self) -> Epoch:
        """What REST and Pulsar's clients see: 0 at the creation, one more for each change of the layout. `epoch` is
        raised by more (a take-over, the pinning of the routing), and orders what our own clients hear."""
        return self.epoch if self.generation is None else Epoch(self.generation)

    def __contains__(self, id: SegmentId) -> bool:
        return id in self._by_id

    def __len__(self) -> int:
        return len(self.segments)

    def segment(self, id: SegmentId) -> Segment:
        segment = self._by_id.get(id)
        if segment is None:
            raise NotFound(f"segment not found: {id}")
        return segment

    def child(self, id: SegmentId) -> Child:
        """The part of a segment that its owner needs."""
        segment = self.segment(id)
        return Child(segment.id, segment.range, segment.legacy_topic)

    def route(self, hash: int) -> Segment:
        """The active segment that takes this hash."""
        if not self.active or not 0 <= hash <= SLOT_MAX:
            raise InvalidRange("no active segment covers this hash", hash=hash)
        return self.active[bisect_right(self._starts, hash) - 1]

    def route_key(self, key: str | bytes, routing: Routing) -> Segment:
        """The active segment of a key. Where all of them are plain topics (a partitioned topic shown as a layout), the
        key goes to the partition it always went to."""
        if self.active and all(one.legacy_topic for one in self.active):
            return self.segment(SegmentId(legacy_partition(key, len(self.active))))
        return self.route(segment_hash(key, routing))

    # Planning: the layout that a reshape would make

    def split_ranges(
        self, id: SegmentId, *, at: int | None = None, into: int = 2, cuts: Sequence[int] = ()
    ) -> tuple[HashRange, ...]:
        whole = self._active(id).range
        if cuts:
            return range_split.cut_at_all(whole, cuts)
        return range_split.cut_into(whole, into) if at is None else range_split.cut_at(whole, at)

    def merge_range(self, ids: Sequence[SegmentId]) -> HashRange:
        return range_split.joined(self._active(id).range for id in ids)

    def rebucket_range(self, id: SegmentId, buckets: int) -> HashRange:
        segment = self._active(id)
        if buckets == segment.buckets:
            raise InvalidRange(f"segment {id} has {buckets} entry buckets already")
        bucket_splits(buckets)
        return segment.range

    # Changes

    def _numbered(self, *, epoch: Epoch | None = None, next_segment_id: SegmentId | None = None) -> Layout:
        """The same segments, which need no second check."""
        layout = copy(self)
        object.__setattr__(layout, "epoch", self.epoch if epoch is None else epoch)
        following = self.next_segment_id if next_segment_id is None else next_segment_id
        object.__setattr__(layout, "next_segment_id", following)
        return layout

    def burned(self, ranges: Sequence[HashRange]) -> tuple[Layout, tuple[Child, ...]]:
        """Allocates ids for new segments. They are used up permanently, even if the segments are never made (H-C2)."""
        first = self.next_segment_id
        children = tuple(Child(SegmentId(first + index), part) for index, part in enumerate(ranges))
        return self._numbered(next_segment_id=SegmentId(first + len(children))), children

    def reshaped(
        self,
        parents: Sequence[SegmentId],
        children: Sequence[Child],
        *,
        now_ms: int,
        op: str = "",
        endings: Mapping[SegmentId, Ending] | None = None,
        buckets: int = 0,
    ) -> Layout:
        """The parents sealed, the children active, one epoch later. A plain topic has had keys of any hash. `buckets`:
        of each child; 0: those of the parents shared out.
        """
        shown = Epoch(self.shown_epoch + 1)
        before = [self._active(id) for id in parents]
        ids = tuple(child.id for child in children)
        changed = {
            one.id: replace(
                one,
                range=FULL if one.legacy_topic else one.range,
                state=State.SEALED,
                children=ids,
                sealed_epoch=shown,
                sealed_ms=now_ms,
                sealed_by=op,
                ending=(endings or {}).get(one.id),
            )
            for one in before
        }
        splits = bucket_splits(buckets) if buckets else _buckets(before, len(children))
        depth = max(one.merge_depth for one in before) + (len(before) > 1 and not before[0].legacy_topic)
        for child in children:
            changed[child.id] = Segment(
                child.id,
                child.range,
                parents=tuple(parents),
                created_epoch=shown,
                created_ms=now_ms,
                bucket_splits=splits,
                merge_depth=depth,
            )
        return self._with(changed, Epoch(self.epoch + 1), generation=shown)

    def split(self, id: SegmentId, *, now_ms: int, at: int | None = None, into: int = 2) -> Layout:
        """The layout after a whole split."""
        burned, children = self.burned(self.split_ranges(id, at=at, into=into))
        return burned.reshaped([id], children, now_ms=now_ms)

    def merge(self, ids: Sequence[SegmentId], *, now_ms: int) -> Layout:
        """The layout after a whole merge of adjacent segments."""
        burned, children = self.burned([self.merge_range(ids)])
        return burned.reshaped(list(ids), children, now_ms=now_ms)

    def whole(self) -> Layout:
        """Without entry buckets: if routing uses the same half of the hash as buckets, a segment cannot be shared."""
        return replace(self, segments=tuple(replace(one, bucket_splits=()) for one in self.segments))

    def raised(self) -> Layout:
        """The same at a higher epoch: a take-over shows (H-B6, H-B7)."""
        return self._numbered(epoch=Epoch(self.epoch + 1))

    def pruning(self, ids: Iterable[SegmentId]) -> Layout:
        """Announce that sealed segments go; they stay listed until their topics are gone (H-H1)."""
        chosen = [self.segment(id) for id in ids]
        for segment in chosen:
            if segment.is_active:
                raise InvalidRange(f"cannot prune an active segment: {segment.id}")
        return self._with(
            {segment.id: replace(segment, state=State.PRUNING) for segment in chosen}, Epoch(self.epoch + 1)
        )

    def removed(self, *ids: SegmentId) -> Layout:
        """Without these sealed segments, one change of the layout later; their neighbours forget them."""
        gone = frozenset(ids)
        changed: dict[SegmentId, Segment] = {}
        for segment in [self.segment(id) for id in ids]:
            if segment.is_active:
                raise InvalidRange(f"cannot prune an active segment: {segment.id}")
            for id in {*segment.parents, *segment.children} - gone:
                neighbour = self.segment(id)
                parents, children = _without(neighbour.parents, gone), _without(neighbour.children, gone)
                changed[id] = replace(neighbour, parents=parents, children=children)
        return self._with(changed, Epoch(self.epoch + 1), without=gone, generation=self.shown_epoch + 1)

    def _active(self, id: SegmentId) -> Segment:
        segment = self.segment(id)
        if not segment.is_active:
            raise InvalidRange(f"segment {id} is not active", state=segment.state)
        return segment

    def _with(
        self,
        changed: Mapping[SegmentId, Segment],
        epoch: Epoch,
        *,
        without: frozenset[SegmentId] = frozenset(),
        generation: int | None = None,
    ) -> Layout:
        after = {id: one for id, one in {**self._by_id, **changed}.items() if id not in without}
        layout = self._numbered(epoch=epoch)
        object.__setattr__(layout, "segments", tuple(after[id] for id in sorted(after)))
        object.__setattr__(layout, "generation", self.generation if generation is None else generation)
        layout._index()
        _check(layout, tuple(changed.values()))  # both ends of every edge that changes are among them
        return layout


@dataclass(frozen=True, slots=True)
class Diff:
    """What one layout has that an older one has not."""

    added: tuple[SegmentId, ...]
    sealed: tuple[SegmentId, ...]
    removed: tuple[SegmentId, ...]


def diff(before: Layout, after: Layout) -> Diff:
    return Diff(
        added=tuple(one.id for one in after.segments if one.id not in before),
        sealed=tuple(
            one.id
            for one in after.segments
            if not one.is_active and one.id in before and before.segment(one.id).is_active
        ),
        removed=tuple(one.id for one in before.segments if one.id not in after),
    )


def initial(count: int, *, now_ms: int, first_id: int = 0, epoch: int = 0, buckets: int = 1) -> Layout:
    """The layout of a new topic. A name that had a life before goes on with its counters (H-C1)."""
    splits = bucket_splits(buckets)
    segments = tuple(
        Segment(SegmentId(first_id + index), part, created_epoch=Epoch(0), created_ms=now_ms, bucket_splits=splits)
        for index, part in enumerate(range_split.initial(count))
    )
    return Layout(Epoch(epoch), SegmentId(first_id + count), segments, generation=0)


def _buckets(parents: Sequence[Segment], children: int) -> tuple[int, ...]:
    """A split shares the buckets of its parent among the children, a merge adds those of its parents."""
    together = sum(one.buckets for one in parents)
    return bucket_splits(min(max(1, together // children), SEGMENT_BUCKETS_MAX))


def _without(ids: tuple[SegmentId, ...], gone: frozenset[SegmentId]) -> tuple[SegmentId, ...]:
    return tuple(one for one in ids if one not in gone)


def _check(layout: Layout, changed: tuple[Segment, ...]) -> None:
    """`changed`: those that the layout before did not have so; it was checked when it was made."""
    by_id = layout._by_id
    if len(by_id) != len(layout.segments):
        raise Corrupt("the layout lists a segment twice")
    if changed is layout.segments:
        for lower, upper in pairwise(layout.segments):
            if lower.id > upper.id:
                raise Corrupt("the segments of the layout are not in the order of their ids", id=upper.id)
    for segment in changed:
        _check_segment(segment, layout, by_id)
    if not layout.segments:
        return
    if not layout.active or layout.active[0].range.start != 0 or layout.active[-1].range.end != SLOT_MAX:
        raise Corrupt("the active segments do not cover the keyspace", epoch=layout.epoch)
    for lower, upper in pairwise(layout.active):
        if lower.range.end + 1 != upper.range.start:
            raise Corrupt("the active segments leave a gap or overlap", lower=lower.id, upper=upper.id)


def _check_segment(segment: Segment, layout: Layout, by_id: Mapping[SegmentId, Segment]) -> None:
    if not 0 <= segment.id < layout.next_segment_id:
        raise Corrupt("a segment has an id that was never allocated", id=segment.id, next=layout.next_segment_id)
    if segment.is_active and segment.children:
        raise Corrupt("an active segment has children", id=segment.id)
    for child in segment.children:
        if child <= segment.id or child not in by_id or segment.id not in by_id[child].parents:
            raise Corrupt("parent and child segments do not list each other", parent=segment.id, child=child)
    for parent in segment.parents:
        if parent >= segment.id or parent not in by_id or segment.id not in by_id[parent].children:
            raise Corrupt("parent and child segments do not list each other", parent=parent, child=segment.id)
