"""Computes the tasks of a batch from its two frontiers and the graph; the result is deterministic.

Each task covers a hash range that ends in one segment. It reads that segment after all its ancestors in the batch,
oldest first, each filtered to the range. So a key is in exactly one task of a batch, in publish order. Rows without a
key, and rows whose hash is outside their segment (an error of another client), are strays: one task takes all strays of
a segment. Only segments on or between the two frontiers matter, so later reshapes change no result. A required segment
that was deleted raises `DataLost`; frontiers that no batch can connect raise `Misuse`.

Options can request more tasks. In relaxed order, the end offset contains cuts inside segments. In strict order, a task
is split by the entry buckets of its segment (PIP-486): each part takes the keys of some buckets and skips the entries
of the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

from magnetar.base.errors import Misuse, NotReady
from magnetar.base.ids import SegmentId
from magnetar.base.ranges import HashRange
from magnetar.layout.layout import Layout
from magnetar.layout.lineage import ancestors
from magnetar.layout.readable_range import DONE, START, ReadPosition, released
from magnetar.spark.source.offset import SourceOffset
from magnetar.spark.source.planner import DEFAULT, DataLost, KeyOrder, Rules, unread

Keys = tuple[HashRange, ...]
HASHES = 1 << 16  # hash range that entry buckets divide


@dataclass(frozen=True, slots=True)
class SegmentSlice:
    """Part of a segment from `start` to `end`, exclusive; DONE is the end from its seal. `keys` None takes every row;
    otherwise rows with a hash in one of the ranges, plus strays with `strays`. `bucket` also limits rows to bucket
    hashes inside it, by the metadata of their entry.
    """

    segment: SegmentId
    range: HashRange  # range of the whole segment
    start: ReadPosition
    end: ReadPosition
    keys: Keys | None = None
    strays: bool = True
    bucket: HashRange | None = None

    def takes(self, hash: int | None, low: int = 0) -> bool:
        """Whether a row with this key hash belongs to the task. `low`: the hash for entry buckets."""
        if self.bucket is not None and low not in self.bucket:
            return False
        if self.keys is None:
            return True
        if hash is None or hash not in self.range:
            return self.strays
        return any(hash in part for part in self.keys)


@dataclass(frozen=True, slots=True)
class Task:
    pieces: tuple[SegmentSlice, ...]  # in reading order


def tasks(start: SourceOffset, end: SourceOffset, layout: Layout, *, rules: Rules = DEFAULT) -> tuple[Task, ...]:
    """The batch from `start` to `end`; the end of the first batch contains its own start."""
    reads = _reads(start, end, layout, rules)
    if rules.key_order is KeyOrder.RELAXED:
        return tuple(
            Task((SegmentSlice(id, layout.segment(id).range, *part),))
            for id in sorted(reads)
            for part in _parts(reads[id], end.cuts.get(id, ()))
        )
    before = {id: ancestors(layout, id) & reads.keys() for id in reads}
    pairs: list[tuple[SegmentId, Task]] = []
    for leaf in sorted(reads, key=lambda id: (layout.segment(id).range.start, id)):
        after = [layout.segment(id).range for id in reads if leaf in before[id]]
        keys = _minus(layout.segment(leaf).range, after)
        if keys:
            pieces = (_piece(layout, id, reads[id], keys) for id in sorted(before[leaf] | {leaf}))
            pairs.append((leaf, Task(tuple(piece for piece in pieces if piece is not None))))
    each = -(-rules.partitions_min // max(1, len(pairs)))
    return tuple(one for leaf, task in pairs for one in _bucketed(task, layout.segment(leaf).bucket_splits, each))


def _parts(
    read: tuple[ReadPosition, ReadPosition], cuts: Iterable[ReadPosition]
) -> list[tuple[ReadPosition, ReadPosition]]:
    """Splits a segment's part of a batch at the cuts."""
    places = [read[0], *(cut for cut in cuts if read[0] < cut < read[1]), read[1]]
    return list(pairwise(places))


def _bucketed(task: Task, splits: tuple[int, ...], parts: int) -> list[Task]:
    """The same rows in at most `parts` tasks, each key in one of them."""
    count = min(parts, len(splits) + 1)
    if count < 2:
        return [task]
    starts = [0, *splits]
    firsts = [starts[len(starts) * part // count] for part in range(count)]
    ranges = [HashRange(first, last - 1) for first, last in pairwise([*firsts, HASHES])]
    return [Task(tuple(replace(piece, bucket=one) for piece in task.pieces)) for one in ranges]


def _reads(
    start: SourceOffset, end: SourceOffset, layout: Layout, rules: Rules
) -> dict[SegmentId, tuple[ReadPosition, ReadPosition]]:
    """The range of each segment that is read."""
    if start.text == end.text:
        return {}
    origin = start.places if end.origin is None else end.origin
    if end.origin is None and not start.grows_to(end):
        raise Misuse("a batch must not end before its start", start=start.text, end=end.text)
    if layout.epoch < end.epoch:
        raise NotReady("the layout is older than the batch: read it again", layout=layout.epoch, batch=end.epoch)
    enclosed = released(layout, end.places) | end.places.keys()
    opened = [id for id in unread(layout, origin) if id in enclosed]
    reads: dict[SegmentId, tuple[ReadPosition, ReadPosition]] = {}
    gone = [id for id in end.places if id not in layout and id not in origin]
    for id in [*origin, *opened, *gone]:
        first = origin.get(id, START)
        last = end.places.get(id, DONE)
        if last < first:
            raise Misuse("a batch must not end before its start", segment=id, start=str(first), end=str(last))
        if id in layout and id not in enclosed:
            raise Misuse("no batch leads from the start offset to the end offset", segment=id, start=str(first))
        first = end.gaps[id][1] if id in end.gaps else first
        if first < last and id in layout:
            reads[id] = (first, last)
        elif first < last and rules.fail_on_data_loss:
            raise DataLost(
                "a segment of a planned batch was deleted, so the batch cannot be read again. Set "
                "failOnDataLoss to false to continue without it, or set a new checkpointLocation. Option "
                "subscription prevents such losses",
                segment=id,
                position=str(first),
            )
    return reads


def _piece(layout: Layout, id: SegmentId, read: tuple[ReadPosition, ReadPosition], keys: Keys) -> SegmentSlice | None:
    whole = layout.segment(id).range
    parts = tuple(
        HashRange(max(part.start, whole.start), min(part.end, whole.end)) for part in keys if part.overlaps(whole)
    )
    if not parts:
        return None
    if parts == (whole,):
        return SegmentSlice(id, whole, *read)
    return SegmentSlice(id, whole, *read, keys=parts, strays=parts[0].start == whole.start)


def _minus(whole: HashRange, others: Iterable[HashRange]) -> Keys:
    """The rest of a range, in parts that do not touch."""
    left: list[HashRange] = []
    at = whole.start
    for other in sorted(others):
        if other.end < at or other.start > whole.end:
            continue
        if other.start > at:
            left.append(HashRange(at, other.start - 1))
        at = other.end + 1
    if at <= whole.end:
        left.append(HashRange(at, whole.end))
    return tuple(left)
