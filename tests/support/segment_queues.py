"""Segment queues over a few small layouts, and short ways to say what goes in and what comes out."""

from __future__ import annotations

from magnetar.base.ids import SegmentId
from magnetar.client.producer.router import KeyRoute
from magnetar.client.producer.scalable.queued_messages import SendStatus
from magnetar.client.producer.scalable.segment_queue import QueuedEntry
from magnetar.client.producer.scalable.segment_queues import (
    AttachSegment,
    LayoutAdvanced,
    ReportOutcome,
    SegmentAttached,
    SegmentQueues,
)
from magnetar.layout.layout import initial

ONE = initial(1, now_ms=0)
SPLIT = ONE.split(SegmentId(0), now_ms=1)
AGAIN = SPLIT.split(SegmentId(1), now_ms=2)
MERGED = SPLIT.merge([SegmentId(1), SegmentId(2)], now_ms=2).whole()  # entry buckets are `test_bucketing`'s

PARENT, LOW, HIGH = SegmentId(0), SegmentId(1), SegmentId(2)


def some_queues(layout=ONE, *, last: int = -1, **options) -> SegmentQueues:
    queues = SegmentQueues(**options)
    for effect in queues.handle(LayoutAdvanced(layout)):
        assert isinstance(effect, AttachSegment)
        queues.handle(SegmentAttached(effect.segment, last))
    return queues


def add(queues: SegmentQueues, slot: int, name: str = "", *, deadline: float = 10.0, **options) -> SegmentId:
    return queues.add(name, KeyRoute(slot, slot), size=options.pop("size", 1), deadline=deadline, **options).segment


def names(entry: QueuedEntry | None) -> list[str]:
    return [] if entry is None else [message.item for message in entry.messages]


def written(queues: SegmentQueues, segment: SegmentId) -> list[list[str]]:
    found = []
    while (entry := queues.next_entry(segment)) is not None:
        found.append(names(entry))
    return found


def fates(effects) -> dict[str, SendStatus]:
    return {effect.message.item: effect.message.fate for effect in effects if isinstance(effect, ReportOutcome)}
