"""The arithmetic of reshaping: how one hash range becomes several, and several neighbours one.

Two parts are cut where Pulsar cuts them: the lower half is larger by one where the size is odd. What cannot be cut or
joined is `InvalidRange`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from magnetar.base.errors import InvalidRange
from magnetar.base.hashes import SLOTS
from magnetar.base.ranges import SLOT_MAX, HashRange


def cut_at(whole: HashRange, at: int) -> tuple[HashRange, ...]:
    """Two parts; `at` is the first hash of the upper one."""
    if not whole.start < at <= whole.end:
        raise InvalidRange("the split point must leave at least one hash on each side", range=whole, at=f"{at:04x}")
    return HashRange(whole.start, at - 1), HashRange(at, whole.end)


def cut_at_all(whole: HashRange, cuts: Sequence[int]) -> tuple[HashRange, ...]:
    """Several parts; `cuts` are the first hashes of all but the lowest, in ascending order."""
    starts = (whole.start, *cuts)
    if not cuts or any(lower >= upper for lower, upper in pairwise(starts)) or cuts[-1] > whole.end:
        raise InvalidRange(
            "split points must ascend and leave at least one hash on each side",
            range=whole,
            at=[f"{at:04x}" for at in cuts],
        )
    return tuple(HashRange(start, end - 1) for start, end in pairwise([*starts, whole.end + 1]))


def cut_into(whole: HashRange, parts: int) -> tuple[HashRange, ...]:
    """Parts of equal size, the larger ones below."""
    size = len(whole)
    if parts < 2:
        raise InvalidRange("a split must create at least two parts", parts=parts)
    if parts > size:
        raise InvalidRange(
            "the number of parts must be at most the number of hashes in the range", range=whole, parts=parts
        )
    starts = [whole.start + -(-index * size // parts) for index in range(parts)]
    return tuple(HashRange(start, end - 1) for start, end in pairwise([*starts, whole.end + 1]))


def joined(parts: Iterable[HashRange]) -> HashRange:
    """The range that adjacent ranges form together, in any order."""
    ordered = sorted(parts)
    if len(ordered) < 2:
        raise InvalidRange("a merge must name at least two segments", segments=len(ordered))
    for lower, upper in pairwise(ordered):
        if lower.end + 1 != upper.start:
            raise InvalidRange(f"segments are not adjacent: {lower} and {upper}")
    return HashRange(ordered[0].start, ordered[-1].end)


def initial(count: int) -> tuple[HashRange, ...]:
    """The ranges of a new topic: equal, the last one takes the remainder, as in Pulsar."""
    if not 1 <= count <= SLOTS:
        raise InvalidRange("the initial number of segments must be between 1 and 65536", segments=count)
    width = SLOTS // count
    starts = [index * width for index in range(count)]
    return tuple(
        HashRange(start, end) for start, end in zip(starts, [*(s - 1 for s in starts[1:]), SLOT_MAX], strict=True)
    )
