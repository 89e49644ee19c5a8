"""Hash ranges: parts of the 65,536 slots of a topic's keys, both ends included.

A range is a value; splitting and merging return new ones. Invalid bounds raise `InvalidRange`.
"""

from __future__ import annotations

from dataclasses import dataclass

from magnetar.base.errors import InvalidRange

SLOT_MAX = 0xFFFF


@dataclass(frozen=True, slots=True, order=True)
class HashRange:
    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= SLOT_MAX:
            raise InvalidRange("a hash range must start inside 0..65535", start=self.start)
        if not 0 <= self.end <= SLOT_MAX:
            raise InvalidRange("a hash range must end inside 0..65535", end=self.end)
        if self.end < self.start:
            raise InvalidRange("a hash range must not end before its start", start=self.start, end=self.end)

    def __len__(self) -> int:
        return self.end - self.start + 1

    def __contains__(self, slot: int) -> bool:
        return self.start <= slot <= self.end

    def __str__(self) -> str:
        return f"[{self.start:04x}, {self.end:04x}]"

    @property
    def hex(self) -> str:
        return f"{self.start:04x}-{self.end:04x}"

    def overlaps(self, other: HashRange) -> bool:
        return self.start <= other.end and other.start <= self.end

    def adjacent(self, other: HashRange) -> bool:
        return self.end + 1 == other.start or other.end + 1 == self.start

    def split(self) -> tuple[HashRange, HashRange]:
        """Two halves; with an odd size, the lower half is larger by one."""
        if self.start == self.end:
            raise InvalidRange("a range of one slot cannot be split", range=self)
        middle = (self.start + self.end) // 2
        return HashRange(self.start, middle), HashRange(middle + 1, self.end)

    def merge(self, other: HashRange) -> HashRange:
        if not self.adjacent(other):
            raise InvalidRange("only adjacent ranges can be merged", range=self, other=other)
        return HashRange(min(self.start, other.start), max(self.end, other.end))


FULL = HashRange(0, SLOT_MAX)


def slot_from_hex(text: str) -> int:
    digits = text.removeprefix("+")  # as Java reads numbers
    if not digits or len(digits) > 16 or not set(digits) <= set("0123456789abcdefABCDEF"):
        raise InvalidRange("a hash slot must be hexadecimal", text=text[:40])
    return int(digits, 16)
