"""The readable ranges of a topic's segments, as input of the planner: their ends and their sizes.

Positions are not dense, so only the server can count. It measures from the requested position and returns marks where a
batch may end. A server that counts only entries reports one message per entry. Plain values, which the planner trusts.
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
    """The readable range of one segment from the requested position. Reading begins at `start`, at or after that
    position. `lost` means that messages in between were deleted. `sealed`: the last mark is final, confirmed by the
    segment's owner (a layout may report the seal before the last message is counted).
    """

    start: ReadPosition
    marks: tuple[CutPoint, ...] = ()
    sealed: bool = False
    lost: bool = False

    def __post_init__(self) -> None:
        before = CutPoint(self.start, 0, 0)
        for mark in self.marks:
            if mark.place <= before.place or mark.messages < before.messages or mark.bytes < before.bytes:
                raise Misuse("marks of a stretch must increase", mark=mark, before=before)
            before = mark

    @property
    def end(self) -> ReadPosition:
        return self.marks[-1].place if self.marks else self.start

    def until(self, target: ReadPosition) -> ReadableRange:
        """The same range up to a target position, without the rest."""
        if target == DONE:
            return self
        count = bisect_right(self.marks, target, key=_place)
        marks = self.marks[:count]
        if count < len(self.marks) and target > (marks[-1].place if marks else self.start):
            # counting it too high is better than never reaching it
            marks += (self.marks[count]._replace(place=target),)
        return ReadableRange(self.start, marks, sealed=False, lost=self.lost)


Stretches = Mapping[SegmentId, ReadableRange]


def _place(mark: CutPoint) -> ReadPosition:
    return mark.place
