"""What a server says of a topic's segments, as the planner takes it: how far each can be read, and how much that is.

Positions are not dense, so only the server can count: it measures from the position that was asked about and gives
marks where a batch may end. One that counts entries only says one message for each. Values; the planner trusts them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

from magnetar.base.errors import Misuse
from magnetar.base.ids import SegmentId
from magnetar.layout.readable_range import DONE, CutPoint, ReadPosition


@dataclass(frozen=True, slots=True)
class ReadableRange:
    """What can be read of one segment from the position that was asked about. `start` is where reading begins, at or
    after that position; `lost` says that messages in between are gone. `sealed`: the last mark is the end for ever,
    by the word of the segment's owner (a layout may say so before the last message is counted).
    """

    start: ReadPosition
    marks: tuple[CutPoint, ...] = ()
    sealed: bool = False
    lost: bool = False

    def __post_init__(self) -> None:
        before = CutPoint(self.start, 0, 0)
        for mark in self.marks:
            if mark.place <= before.place or mark.messages < before.messages or mark.bytes < before.bytes:
                raise Misuse("marks of a stretch grow", mark=mark, before=before)
            before = mark

    @property
    def end(self) -> ReadPosition:
        return self.marks[-1].place if self.marks else self.start

    def until(self, target: ReadPosition) -> ReadableRange:
        """The same up to a place that a query wants to stop at; what lies beyond is none of its business."""
        if target == DONE:
            return self
        count = bisect_right(self.marks, target, key=_place)
        marks = self.marks[:count]
        if count < len(self.marks) and target > (marks[-1].place if marks else self.start):
            marks += (self.marks[count]._replace(place=target),)  # counted too high rather than never reached
        return ReadableRange(self.start, marks, sealed=False, lost=self.lost)


Stretches = Mapping[SegmentId, ReadableRange]


def _place(mark: CutPoint) -> ReadPosition:
    return mark.place
