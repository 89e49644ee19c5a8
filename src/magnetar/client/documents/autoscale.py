"""Documents of automatic scaling: the effective policy, the loads of segments, and decisions with their reasons."""

from __future__ import annotations

import msgspec

from magnetar.layout.autoscale.decision import Decision
from magnetar.layout.autoscale.load import SegmentLoad
from magnetar.layout.autoscale.policy import AutoScaleOverride

__all__ = ["AutoScaleOverride", "AutoScaleReport", "Decision", "MeasuredSegment", "ScaleResult", "WantedConsumers"]


class MeasuredSegment(msgspec.Struct, frozen=True, kw_only=True):
    """`coldSinceMs` 0: its load is not below the merge thresholds. `load` None: its owner does not respond."""

    segmentId: int
    start: int
    end: int
    state: str
    load: SegmentLoad | None = None
    coldSinceMs: int = 0


class AutoScaleReport(msgspec.Struct, frozen=True, kw_only=True):
    """The scaling of a topic as its leader sees it now. The first line of `cause` is the most important decision.

    `layers` are the layers that set something, the strongest first. `decisions` are those of an evaluation for this
    answer, which changed nothing. `consumers` and `wanted` are by subscription.
    """

    topic: str
    cause: str
    policy: AutoScaleOverride
    layers: list[str]
    atMs: int
    decisions: list[Decision]
    segments: list[MeasuredSegment]
    consumers: dict[str, int] = {}
    wanted: dict[str, int] = {}


class ScaleResult(msgspec.Struct, frozen=True, kw_only=True):
    """The active segments before and after, and until when the topic keeps this minimum; 0: no hold."""

    before: int
    after: int
    heldUntilMs: int = 0


class WantedConsumers(msgspec.Struct, frozen=True, kw_only=True):
    """The number of consumers that would have work."""

    wantedConsumers: int
    consumers: int
