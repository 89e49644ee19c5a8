"""What the tasks of a batch read: from its two frontiers and the graph, the same again whenever it is asked.

One task for each hash range that ends in one segment; it reads that segment after all that came before it in the
batch, oldest first, each filtered to the range. So a key is in exactly one task of a batch, in the order it was
published. Rows without a key, and rows whose hash is not of their segment (another client's slip), are strays: one task
takes those of a segment. Only segments that the two frontiers name or enclose matter, so a reshape since the plan
changes nothing; a segment that is needed and gone is `DataLost`; frontiers that no batch can join are `Misuse`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from magnetar.base.errors import Misuse, NotReady
from magnetar.base.ids import SegmentId
from magnetar.base.ranges import HashRange
from magnetar.layout.layout import Layout
from magnetar.layout.lineage import ancestors
from magnetar.layout.stretch import DONE, START, Place, released
from magnetar.spark.frontier import Frontier
from magnetar.spark.planner import DEFAULT, DataLost, KeyOrder, Rules, unread

Keys = tuple[HashRange, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of a segment: from `start` up to `end`, which is not included; DONE is the end that its seal gave it.
    `keys` None takes every row; else those whose hash is in one of the ranges, and the strays if `strays`.
    """

    segment: SegmentId
    range: HashRange  # of the whole segment
    start: Place
    end: Place
    keys: Keys | None = None
    strays: bool = True

    def takes(self, hash: int | None) -> bool:
        """Is a row with this hash of its key for this task?"""
        if self.keys is None:
            return True
        if hash is None or hash not in self.range:
            return self.strays
        return any(hash in part for part in self.keys)


@dataclass(frozen=True, slots=True)
class Task:
    pieces: tuple[Piece, ...]  # in the order they are to be read


def tasks(start: Frontier, end: Frontier, layout: Layout, *, rules: Rules = DEFAULT) -> tuple[Task, ...]:
    """The batch from `start` to `end`; the first batch's end says itself where it started."""
    reads = _reads(start, end, layout, rules)
    if rules.key_order is KeyOrder.RELAXED:
        return tuple(Task((Piece(id, layout.segment(id).range, *reads[id]),)) for id in sorted(reads))
    before = {id: ancestors(layout, id) & reads.keys() for id in reads}
    made: list[Task] = []
    for leaf in sorted(reads, key=lambda id: (layout.segment(id).range.start, id)):
        after = [layout.segment(id).range for id in reads if leaf in before[id]]
        keys = _minus(layout.segment(leaf).range, after)
        if keys:
            pieces = (_piece(layout, id, reads[id], keys) for id in sorted(before[leaf] | {leaf}))
            made.append(Task(tuple(piece for piece in pieces if piece is not None)))
    return tuple(made)


def _reads(start: Frontier, end: Frontier, layout: Layout, rules: Rules) -> dict[SegmentId, tuple[Place, Place]]:
    """From where to where each segment is read."""
    if start.text == end.text:
        return {}
    origin = start.places if end.origin is None else end.origin
    if end.origin is None and not start.grows_to(end):
        raise Misuse("the end of a batch lies before its start", start=start.text, end=end.text)
    if layout.epoch < end.epoch:
        raise NotReady("the layout is older than the batch: read it again", layout=layout.epoch, batch=end.epoch)
    enclosed = released(layout, end.places) | end.places.keys()
    opened = [id for id in unread(layout, origin) if id in enclosed]
    reads: dict[SegmentId, tuple[Place, Place]] = {}
    gone = [id for id in end.places if id not in layout and id not in origin]
    for id in [*origin, *opened, *gone]:
        first = origin.get(id, START)
        last = end.places.get(id, DONE)
        if last < first:
            raise Misuse("the end of a batch lies before its start", segment=id, start=str(first), end=str(last))
        if id in layout and id not in enclosed:
            raise Misuse("no batch leads from one offset to the other", segment=id, start=str(first))
        first = end.gaps[id][1] if id in end.gaps else first
        if first < last and id in layout:
            reads[id] = (first, last)
        elif first < last and rules.fail_on_data_loss:
            raise DataLost(
                "a segment of a batch that was planned is gone, so the batch cannot be read again: set failOnDataLoss "
                "to false to go on without it, or start with a new checkpointLocation; a subscription would have kept "
                "it",
                segment=id,
                position=str(first),
            )
    return reads


def _piece(layout: Layout, id: SegmentId, read: tuple[Place, Place], keys: Keys) -> Piece | None:
    whole = layout.segment(id).range
    parts = tuple(
        HashRange(max(part.start, whole.start), min(part.end, whole.end)) for part in keys if part.overlaps(whole)
    )
    if not parts:
        return None
    if parts == (whole,):
        return Piece(id, whole, *read)
    return Piece(id, whole, *read, keys=parts, strays=parts[0].start == whole.start)


def _minus(whole: HashRange, others: Iterable[HashRange]) -> Keys:
    """What is left of a range, in parts that do not touch."""
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
