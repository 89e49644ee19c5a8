"""Where a reader of entries may stop, and how much lies before each such place: chosen from columns, without reading.

A cut is a place between two entries: the next entry, and the messages and bytes before it in its ledger. Of many
possible ones few are chosen, close together near the start, where small batches end, and evenly spread behind. Pure.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from operator import sub
from typing import NamedTuple

from magnetar.ledger.run import Run


class CutPoints(NamedTuple):
    """By columns, growing: the next entry, and the messages and bytes before it from the beginning of the ledger."""

    entries: list[int]
    messages: list[int]
    bytes: list[int]


class CutRequest(NamedTuple):
    """How far: `messages` and `bytes` from the beginning of the ledger, None without limit. `cuts_max`: how many."""

    messages: int | None
    bytes: int | None
    cuts_max: int


@lru_cache(maxsize=1024)
def chosen(count: int, most: int) -> tuple[int, ...]:
    """The returned ones of `count` possible places, counted from 1: at most about `most`, always with the last."""
    if count <= most:
        return tuple(range(1, count + 1))
    half = max(1, most // 2)
    counts = {count * step // half for step in range(1, half + 1)}
    at, factor = 1.0, count ** (1 / half)
    for _ in range(half):
        counts.add(int(at))
        at = max(at + 1, at * factor)
    return tuple(sorted(place for place in counts if 1 <= place <= count))


def within(
    counts: Sequence[int], sizes: Sequence[int], first: int, before: tuple[int, int], want: CutRequest
) -> CutPoints:
    """Cuts behind each of these entries, the first of which is number `first`, up to the first that reaches a limit."""
    messages = list(accumulate(counts, initial=before[0]))[1:]
    lengths = list(accumulate(sizes, initial=before[1]))[1:]
    count = min(len(messages), *(_reaching(*pair) + 1 for pair in ((messages, want.messages), (lengths, want.bytes))))
    places = [place - 1 for place in chosen(count, want.cuts_max)] if count else []
    return CutPoints(
        [first + place + 1 for place in places],
        [messages[place] for place in places],
        [lengths[place] for place in places],
    )


def of_run(run: Run, before: tuple[int, int], want: CutRequest) -> CutPoints:
    """Cuts behind the entries of a run that was read."""
    return within(run.counts, list(map(sub, run.offsets[1:], run.offsets)), run.first, before, want)


def reached(cuts: CutPoints, want: CutRequest) -> bool:
    """Whether the last one reaches a limit."""
    return (want.messages is not None and cuts.messages[-1] >= want.messages) or (
        want.bytes is not None and cuts.bytes[-1] >= want.bytes
    )


def _reaching(column: list[int], limit: int | None) -> int:
    return len(column) if limit is None else bisect_left(column, limit)
