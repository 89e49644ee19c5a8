"""The splits that bring a topic to a number of segments before its load comes.

The widest parts are divided first, at the weighted median of their keys where samples exist.
"""

from __future__ import annotations

from collections.abc import Mapping

from magnetar.base.errors import LimitExceeded
from magnetar.base.ids import SegmentId
from magnetar.layout.autoscale.decision import SPLIT, Action
from magnetar.layout.autoscale.load import UNLOADED, SegmentLoad
from magnetar.layout.autoscale.weighted_split import weighted_cuts
from magnetar.layout.layout import Layout


def scale_out(layout: Layout, loads: Mapping[SegmentId, SegmentLoad], segments: int) -> tuple[Action, ...]:
    """One split for each segment that is divided; none if the topic has as many segments already. LimitExceeded: its
    ranges have fewer hashes."""
    parts = {one.id: 1 for one in layout.active}
    widths = {one.id: len(one.range) for one in layout.active}
    if segments > sum(widths.values()):
        raise LimitExceeded("the topic has fewer hashes than that", segments=segments)
    for _ in range(segments - len(parts)):
        widest = max(parts, key=lambda id: (widths[id] / parts[id], -id))
        parts[widest] += 1
    return tuple(
        Action(
            SPLIT,
            (one.id,),
            f"scaled to {segments} segments on request",
            cuts=weighted_cuts(one.range, loads.get(one.id, UNLOADED), parts[one.id], width_min=1),
        )
        for one in layout.active
        if parts[one.id] > 1
    )
