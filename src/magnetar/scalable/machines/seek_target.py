"""The target of a seek on a scalable topic, and its meaning for each of the segments.

A time is compared with the publish times of messages: of a sealed segment with the bounds that its seal recorded,
otherwise by the owner; no local clock is read (H-D7). Positions name the next message to read in a segment. Segments
before such a segment are then done, segments after it are read from their start, and all others stay as they are. This
module performs no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from magnetar.base.errors import Misuse
from magnetar.base.ids import AFTER_ALL, BEFORE_ALL, Position, SegmentId
from magnetar.base.limits import SEEK_SKEW_MS_MAX
from magnetar.layout.layout import Layout
from magnetar.layout.lineage import ancestors_of_any, descendants_of_any
from magnetar.layout.segment import Segment


class TargetKind(StrEnum):
    EARLIEST = "EARLIEST"
    LATEST = "LATEST"
    TIME = "TIME"
    PLACES = "PLACES"


@dataclass(frozen=True, slots=True)
class Target:
    where: TargetKind
    time_ms: int = 0
    places: tuple[tuple[SegmentId, Position], ...] = ()  # by segment: the first message to come


@dataclass(frozen=True, slots=True)
class SegmentTarget:
    """Of one segment: the first message to come is at this position or behind it, or was published at this time or
    later."""

    position: Position | None = None
    time_ms: int = 0


BEGIN, END = SegmentTarget(BEFORE_ALL), SegmentTarget(AFTER_ALL)


@dataclass(frozen=True, slots=True)
class Seek:
    """A seek under way. Until it ends, no consumer reads the subscription and none of its segments is drained."""

    op: str
    target: Target


class Form(msgspec.Struct, omit_defaults=True):
    op: str
    where: TargetKind
    timeMs: int = 0
    places: dict[str, tuple[int, int]] = {}


def encode(seek: Seek) -> Form:
    target = seek.target
    places = {str(id): (place.ledger, place.entry) for id, place in target.places}
    return Form(seek.op, target.where, target.time_ms, places)


def decode(form: Form) -> Seek:
    places = sorted((SegmentId(int(id)), Position(*place)) for id, place in form.places.items())
    return Seek(form.op, Target(form.where, form.timeMs, tuple(places)))


def at_time(time_ms: int) -> Target:
    if time_ms < 0:
        raise Misuse("the time must be in milliseconds since 1970", time_ms=time_ms)
    return Target(TargetKind.TIME, time_ms)


def at_places(places: Mapping[SegmentId, Position]) -> Target:
    if not places:
        raise Misuse("a seek to positions must name at least one segment")
    return Target(TargetKind.PLACES, places=tuple(sorted(places.items())))


def stops(target: Target, layout: Layout) -> dict[SegmentId, SegmentTarget]:
    """Of every segment that is moved. Misuse: a place in a segment that the topic does not have."""
    match target.where:
        case TargetKind.EARLIEST:
            return {one.id: BEGIN for one in layout.segments}
        case TargetKind.LATEST:
            return {one.id: END for one in layout.segments}
        case TargetKind.TIME:
            return {one.id: _by_time(one, target.time_ms) for one in layout.segments}
        case TargetKind.PLACES:
            return _by_places(target, layout)


def _by_time(segment: Segment, time_ms: int) -> SegmentTarget:
    """The seal of a segment records the publish times of its first and last message, by the clocks of the producers.
    The segment is skipped only if no clock can be so wrong; otherwise the owner reads its messages (H-D7)."""
    ending = segment.ending
    if segment.is_active or ending is None:
        return SegmentTarget(time_ms=time_ms)
    if not ending.messages:
        return END
    times_known = ending.first_publish_ms and ending.last_publish_ms
    if times_known and ending.last_publish_ms < time_ms - SEEK_SKEW_MS_MAX:
        return END
    return BEGIN if times_known and ending.first_publish_ms >= time_ms else SegmentTarget(time_ms=time_ms)


def _by_places(target: Target, layout: Layout) -> dict[SegmentId, SegmentTarget]:
    places = dict(target.places)
    gone = [id for id in places if id not in layout]
    if gone:
        raise Misuse("segment not found: it does not exist or was removed by retention", segment=gone[0])
    targets = dict.fromkeys(descendants_of_any(layout, places), BEGIN)
    targets |= dict.fromkeys(ancestors_of_any(layout, places), END)
    return targets | {id: SegmentTarget(place) for id, place in places.items()}
