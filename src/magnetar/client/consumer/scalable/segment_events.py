"""Events and effects of open segments that all kinds of consumers share. Values only."""

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
    """Refused at the first attach or a later one; its consumer no longer exists."""

    segment: SegmentId
    error: MagnetarError


@dataclass(frozen=True, slots=True)
class SegmentEnded:
    """End of topic: all messages of a sealed segment were read and acknowledged, by any of the consumers."""

    segment: SegmentId


@dataclass(frozen=True, slots=True)
class SegmentClosed:
    segment: SegmentId


Attachment: TypeAlias = SegmentOpened | SegmentRefused | SegmentClosed

# Effects


@dataclass(frozen=True, slots=True)
class CloseSegment:
    """Send the acknowledgements, then CLOSE_CONSUMER. Answer: SegmentClosed, also if the connection was lost."""

    segment: SegmentId


@dataclass(frozen=True, slots=True)
class EndConsumer:
    error: MagnetarError
