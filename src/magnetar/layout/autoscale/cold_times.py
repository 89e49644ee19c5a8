"""Since when each segment is cold: the merge window is counted from there.

A sample above a merge threshold, or no sample at all, starts the time over. A leader that takes over starts with no
times, so it merges nothing before a whole window has passed.
"""

from __future__ import annotations

from collections.abc import Mapping

from magnetar.base.ids import SegmentId
from magnetar.layout.autoscale.load import SegmentLoad
from magnetar.layout.autoscale.policy import AutoScalePolicy
from magnetar.layout.layout import Layout


def cold_times(
    before: Mapping[SegmentId, int],
    layout: Layout,
    loads: Mapping[SegmentId, SegmentLoad],
    policy: AutoScalePolicy,
    now_ms: int,
) -> dict[SegmentId, int]:
    """The times after these samples; of active segments only."""
    return {
        one.id: min(before.get(one.id, now_ms), now_ms)
        for one in layout.active
        if one.id in loads and loads[one.id].is_cold(policy.merge)
    }
