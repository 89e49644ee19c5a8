"""What becomes of the segments that a consumer has open, as those who decide hear of it, whatever kind it is of; and
what all of them ask for. Values only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from magnetar.base.errors import MagnetarError
from magnetar.base.ids import SegmentId
from magnetar.layout.layout import Layout

# Events


@dataclass(frozen=True, slots=True)
class LayoutAdvanced:
    layout: Layout


@dataclass(frozen=True, slots=True)
class SegmentOpened:
    segment: SegmentId


@dataclass(frozen=True, slots=True)
class SegmentRefused:
    """At the first attach or at a later one; there is no consumer of it any more."""

    segment: SegmentId
    error: MagnetarError


@dataclass(frozen=True, slots=True)
class SegmentEnded:
    """End of topic: everything of a sealed segment was read and acknowledged, by whoever had it."""

    segment: SegmentId


@dataclass(frozen=True, slots=True)
class SegmentClosed:
    segment: SegmentId


Attachment: TypeAlias = SegmentOpened | SegmentRefused | SegmentClosed

# Effects


@dataclass(frozen=True, slots=True)
class CloseSegment:
    """Send what is acknowledged, then CLOSE_CONSUMER. Answer: SegmentClosed, also where the connection is gone."""

    segment: SegmentId


@dataclass(frozen=True, slots=True)
class EndConsumer:
    error: MagnetarError
