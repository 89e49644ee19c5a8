"""Lanes over a few small layouts, and short ways to say what goes in and what comes out."""

from __future__ import annotations

from magnetar.base.ids import SegmentId
from magnetar.client.lane import Entry, Fate
from magnetar.client.lanes import LaneOpened, Lanes, LayoutAdvanced, OpenLane, Report
from magnetar.client.router import Route
from magnetar.layout.layout import initial

ONE = initial(1, now_ms=0)
SPLIT = ONE.split(SegmentId(0), now_ms=1)
AGAIN = SPLIT.split(SegmentId(1), now_ms=2)
MERGED = SPLIT.merge([SegmentId(1), SegmentId(2)], now_ms=2).whole()  # entry buckets are `test_bucketing`'s

PARENT, LOW, HIGH = SegmentId(0), SegmentId(1), SegmentId(2)


def some_lanes(layout=ONE, *, last: int = -1, **options) -> Lanes:
    lanes = Lanes(**options)
    for effect in lanes.handle(LayoutAdvanced(layout)):
        assert isinstance(effect, OpenLane)
        lanes.handle(LaneOpened(effect.segment, last))
    return lanes


def add(lanes: Lanes, slot: int, name: str = "", *, deadline: float = 10.0, **options) -> SegmentId:
    return lanes.add(name, Route(slot, slot), size=options.pop("size", 1), deadline=deadline, **options).segment


def names(entry: Entry | None) -> list[str]:
    return [] if entry is None else [message.item for message in entry.messages]


def written(lanes: Lanes, segment: SegmentId) -> list[list[str]]:
    found = []
    while (entry := lanes.next_entry(segment)) is not None:
        found.append(names(entry))
    return found


def fates(effects) -> dict[str, Fate]:
    return {effect.message.item: effect.message.fate for effect in effects if isinstance(effect, Report)}
