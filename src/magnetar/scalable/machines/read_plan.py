"""Which segments of a topic a reader's next batch can be of, in the order in which they are measured.

Those where it stands come first, then what comes behind them, older ones first: as soon as there is enough for the
limits of the reader nothing more is asked for, because a planner opens a segment only when it has read what came before
it. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from magnetar.base.ids import SegmentId
from magnetar.base.limits import CALLS_AT_ONCE_MAX, PLAN_MARKS_MAX, PLAN_SEGMENT_MARKS_MAX, PLAN_SEGMENT_MARKS_MIN
from magnetar.layout.layout import Layout
from magnetar.layout.readable_range import DONE, START, Places, ReadableRange, ReadPosition, unread
from magnetar.layout.segment import Segment
from magnetar.topic.measure import FROM_START, RangeRequest
from magnetar.wire.scalable.plan_ranges import EncodedRange


@dataclass(frozen=True, slots=True)
class MeasureRequest:
    """The request of a reader. `start`: a word or a time as in `topic/measure.py`, for segments without a place. 0: no
    limit."""

    places: Places = field(default_factory=dict)
    start: str | int = FROM_START
    messages_max: int = 0
    bytes_max: int = 0
    targets: Places = field(default_factory=dict)
    times: bool = False


def rounds(layout: Layout, question: MeasureRequest) -> Iterator[list[SegmentId]]:
    """Groups of segments to measure together. Between two groups the caller decides whether it needs more."""
    first = [id for id in sorted(question.places) if id in layout and question.places[id] != DONE]
    rest = unread(layout, question.places)
    if not question.places:  # a reader that begins wants to know all of them
        first, rest = rest, []
    if first:
        yield first
    for at in range(0, len(rest), CALLS_AT_ONCE_MAX):
        yield rest[at : at + CALLS_AT_ONCE_MAX]


def enough(question: MeasureRequest, answers: Mapping[SegmentId, ReadableRange | EncodedRange]) -> bool:
    messages, size = question.messages_max, question.bytes_max
    return bool(
        (messages and sum([one.messages for one in answers.values()]) >= messages)
        or (size and sum([one.bytes for one in answers.values()]) >= size)
    )


def asked(question: MeasureRequest, ids: Sequence[SegmentId]) -> list[RangeRequest]:
    """The requests for the owners of these segments: they share the marks of an answer."""
    marks = min(max(PLAN_MARKS_MAX // max(1, len(ids)), PLAN_SEGMENT_MARKS_MIN), PLAN_SEGMENT_MARKS_MAX)
    rest = question.messages_max, question.bytes_max, marks, question.times
    usual = RangeRequest(question.start, None, *rest)
    places, targets = question.places, question.targets
    return [
        RangeRequest(places.get(id, question.start), targets.get(id), *rest) if id in places or id in targets else usual
        for id in ids
    ]


def agreed(readable: ReadableRange) -> ReadableRange:
    """Of a segment that was sealed since the layout was read: its children are not in that layout."""
    return readable._replace(sealed=False)


def missing(segment: Segment, question: MeasureRequest) -> ReadableRange:
    """The segment has no topic. An active one is created by its first use; a sealed one has lost all its messages."""
    if segment.is_active:
        return ReadableRange(START)
    ending = segment.ending
    if ending is None or ending.end.entry < 0:
        return ReadableRange(START, sealed=True)
    end = ReadPosition(ending.end.ledger, ending.end.entry + 1)
    place = question.places.get(segment.id, START)
    return ReadableRange(max(place, end), sealed=True, lost=question.start == FROM_START and place < end, end=end)
