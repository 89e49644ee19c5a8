"""Where each segment of a topic is to be read from, by a time, by places, from the start or from the end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from magnetar.base.errors import Misuse
from magnetar.base.ids import Position, SegmentId
from magnetar.base.limits import SEEK_SKEW_MS_MAX as SKEW
from magnetar.layout.layout import Layout, initial
from magnetar.layout.segment import Ending
from magnetar.scalable.machines import seek_target
from magnetar.scalable.machines.seek_target import (
    BEGIN,
    END,
    Seek,
    SegmentTarget,
    Target,
    TargetKind,
    at_places,
    at_time,
    stops,
)

EARLIEST, LATEST = Target(TargetKind.EARLIEST), Target(TargetKind.LATEST)


def grown() -> Layout:
    """0 was split into 1 and 2, then 1 into 3 and 4; published: 100 to 199 in 0, 200 to 299 in 1."""
    layout = initial(1, now_ms=0).split(SegmentId(0), now_ms=2)
    layout = layout.split(SegmentId(1), now_ms=3)
    endings = {0: Ending(Position(1, 9), 10, 10, 100, 199), 1: Ending(Position(2, 9), 10, 10, 200, 299)}
    segments = [replace(one, ending=endings.get(one.id)) for one in layout.segments]
    return replace(layout, segments=tuple(segments))


def said(found: dict[SegmentId, SegmentTarget]) -> dict[int, object]:
    names = {BEGIN: "begin", END: "end"}
    return {id: names.get(stop, stop.position or stop.time_ms) for id, stop in sorted(found.items())}


def test_start_and_end_are_those_of_every_segment() -> None:
    assert set(said(stops(EARLIEST, grown())).values()) == {"begin"}
    assert set(said(stops(LATEST, grown())).values()) == {"end"}


@pytest.mark.parametrize(
    ("time_ms", "expected"),
    [
        (50, {0: "begin", 1: "begin", 2: 50, 3: 50, 4: 50}),
        (100, {0: "begin", 1: "begin", 2: 100, 3: 100, 4: 100}),
        (150, {0: 150, 1: "begin", 2: 150, 3: 150, 4: 150}),
        (199, {0: 199, 1: "begin", 2: 199, 3: 199, 4: 199}),
        (200, {0: 200, 1: "begin", 2: 200, 3: 200, 4: 200}),
        (199 + SKEW, dict.fromkeys(range(5), 199 + SKEW)),
        (200 + SKEW, {0: "end"} | dict.fromkeys(range(1, 5), 200 + SKEW)),
        (300 + SKEW, {0: "end", 1: "end"} | dict.fromkeys(range(2, 5), 300 + SKEW)),
    ],
)
def test_seek_by_time_uses_publish_times_of_messages_h_d7(time_ms, expected) -> None:
    assert said(stops(at_time(time_ms), grown())) == expected


def test_sealed_segment_whose_times_are_not_known_is_looked_into() -> None:
    layout = grown()
    unknown = [replace(one, ending=Ending(Position(1, 9), 10, 10, 0, 0)) for one in layout.segments if one.id == 0]
    found = stops(at_time(5), replace(layout, segments=(*unknown, *layout.segments[1:])))
    assert found[SegmentId(0)] == SegmentTarget(time_ms=5)


def test_sealed_segment_without_messages_has_none_of_any_time() -> None:
    layout = grown()
    empty = [replace(one, ending=Ending(Position(1, -1))) if one.id == 0 else one for one in layout.segments]
    assert stops(at_time(0), replace(layout, segments=tuple(empty)))[SegmentId(0)] == END


def test_positions_move_earlier_segments_to_end_and_later_to_start() -> None:
    place = Position(2, 5)
    assert said(stops(at_places({SegmentId(1): place}), grown())) == {0: "end", 1: place, 3: "begin", 4: "begin"}
    both = {SegmentId(0): Position(1, 1), SegmentId(3): Position(3, 3)}
    found = {0: Position(1, 1), 1: "end", 2: "begin", 3: Position(3, 3), 4: "begin"}
    assert said(stops(at_places(both), grown())) == found


def test_position_in_missing_segment_and_invalid_value_are_misuse() -> None:
    with pytest.raises(Misuse, match="segment not found"):
        stops(at_places({SegmentId(9): Position(1, 1)}), grown())
    with pytest.raises(Misuse, match="at least one"):
        at_places({})
    with pytest.raises(Misuse):
        at_time(-1)


@pytest.mark.parametrize("wanted", [EARLIEST, LATEST, at_time(7), at_places({SegmentId(1): Position(2, 5)})])
def test_seek_is_read_as_it_was_written(wanted: Target) -> None:
    assert seek_target.decode(seek_target.encode(Seek("op", wanted))) == Seek("op", wanted)
