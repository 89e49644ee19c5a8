"""Which segments one stream consumer may read before their ancestors are acknowledged (H-F20).

A consumer that acknowledges every N messages holds the last messages of a sealed segment until it receives more, and
more is in the children. So a child is assigned early if one consumer holds all its unfinished ancestors and has
received everything in them. The child is then pinned to this consumer, and its ancestors too.

An early hold passes through these states:

- PROPOSED: stored. From here on no consumer attaches to an ancestor. The controller asks the owners of the ancestors
  once more whether the consumer has received everything.
- GRANTED: assigned. The owner of the segment keeps acknowledgements apart from the cursor until every ancestor is done.
- ENDING: the consumer left an ancestor of which it has not acknowledged everything. It is detached from the segment,
  and what it acknowledged there is dropped. Then the hold is removed, and consumers may attach to the ancestors again:
  all of it is delivered again, ancestors first.

When all ancestors are done a granted hold becomes an ordinary one, after its owner has applied the acknowledgements.
Decides only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from magnetar.base.ids import SegmentId
from magnetar.layout.layout import Layout
from magnetar.layout.lineage import open_segments
from magnetar.layout.segment import State
from magnetar.scalable.record.subscription import Early, Hold

Ancestry = Mapping[SegmentId, frozenset[SegmentId]]


def unfinished_ancestors(
    layout: Layout, latched: Collection[SegmentId], holds: Mapping[SegmentId, Hold]
) -> dict[SegmentId, frozenset[SegmentId]]:
    """Ancestors that are not done, of each segment that is held early or whose unfinished parents are all held: no
    other can be read early. A long history that is done is not walked."""
    done = frozenset(latched)
    settled = {one.id for one in open_segments(layout, done)} & done
    result: dict[SegmentId, frozenset[SegmentId]] = {}
    for segment in layout.segments:
        if segment.id in done:
            continue
        hold = holds.get(segment.id)
        unfinished = [id for id in segment.parents if id in layout and id not in settled]
        if not unfinished:
            continue
        if (hold is not None and hold.early is not Early.NO) or all(id in holds or id in done for id in unfinished):
            result[segment.id] = frozenset(blocking(layout, segment.id, done, settled))
    return result


def blocking(
    layout: Layout, id: SegmentId, done: Collection[SegmentId], settled: Collection[SegmentId] = ()
) -> set[SegmentId]:
    """The ancestors of a segment that are not done. `settled`: done with all their ancestors, so not walked."""
    left, seen = list(layout.segment(id).parents), set[SegmentId]()
    while left:
        ancestor = left.pop()
        if ancestor not in seen and ancestor in layout and ancestor not in settled:
            seen.add(ancestor)
            left.extend(layout.segment(ancestor).parents)
    return {one for one in seen if one not in done}


def planned(
    layout: Layout,
    ancestry: Ancestry,
    before: Mapping[SegmentId, Hold],
    members: Collection[str],
    received: Mapping[SegmentId, str],
) -> dict[SegmentId, Hold]:
    """The early holds that these inputs make of the present ones, of segments whose ancestors are not done.
    `received`: segments of which one consumer has received everything, and which consumer that is."""
    holds: dict[SegmentId, Hold] = {}
    for id, ancestors in ancestry.items():
        hold = before.get(id)
        early = hold.early if hold is not None else Early.NO
        reader = _reader(ancestors, before, holds)
        if hold is not None and early is Early.ENDING:
            holds[id] = replace(hold, target="")
        elif hold is not None and early is not Early.NO:
            # One that has left stays until its ancestors are drained or lost: it may have acknowledged all of it.
            kept = reader == hold.holder and (early is Early.GRANTED or reader in members)
            holds[id] = hold if kept else replace(hold, target="", early=Early.ENDING)
        elif hold is not None and hold.held_by:
            # The segment was readable and no longer is: a seek moved the subscription. No consumer keeps it.
            continue
        elif reader in members and _all_received(layout, id, ancestors, reader, received):
            holds[id] = Hold(id, reader, reader, early=Early.PROPOSED)
    return holds


def _all_received(
    layout: Layout, id: SegmentId, ancestors: Collection[SegmentId], reader: str, received: Mapping[SegmentId, str]
) -> bool:
    return layout.segment(id).state is not State.PRUNING and all(received.get(one) == reader for one in ancestors)


def _reader(ancestors: Collection[SegmentId], before: Mapping[SegmentId, Hold], early: Mapping[SegmentId, Hold]) -> str:
    """The consumer that holds all of them alone; "": there is none."""
    names = {_alone(early.get(one) or before.get(one)) for one in ancestors}
    return names.pop() if len(names) == 1 else ""


def _alone(hold: Hold | None) -> str:
    if hold is None or hold.moving or hold.sharers or hold.early not in (Early.NO, Early.GRANTED):
        return ""
    return hold.holder


def pinned(early: Mapping[SegmentId, Hold], ancestry: Ancestry) -> set[SegmentId]:
    """Ancestors of early holds: they stay with the consumer that reads ahead."""
    return {one for id, hold in early.items() if hold.early is not Early.ENDING for one in ancestry[id]}


def watched(holds: Collection[Hold], ancestry: Ancestry) -> dict[SegmentId, str]:
    """Ancestors that their consumer must not leave before they are done, and that consumer."""
    holders: dict[SegmentId, str] = {}
    for hold in holds:
        if hold.early in (Early.PROPOSED, Early.GRANTED):
            holders.update(dict.fromkeys(ancestry.get(hold.segment, ()), hold.holder))
    return holders
