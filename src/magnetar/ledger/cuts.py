"""Where a reader of entries may stop, and how much lies before each such place: chosen from columns, without reading.

A cut is a place between two entries: the next entry, and the messages and bytes before it in its ledger. Of many
possible ones few are chosen, close together near the start, where small batches end, and evenly spread behind. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from magnetar.ledger.run import Run


class Cut(NamedTuple):
    entry: int  # the next one
    messages: int  # before it, from the beginning of the ledger
    bytes: int


class Want(NamedTuple):
    """How far: `messages` and `bytes` from the beginning of the ledger, None without limit. `cuts_max`: how many."""

    messages: int | None
    bytes: int | None
    cuts_max: int


@lru_cache(maxsize=1024)
def chosen(count: int, most: int) -> tuple[int, ...]:
    """Which of `count` possible places, counted from 1, are told: at most about `most` of them, the last always."""
    if count <= most:
        return tuple(range(1, count + 1))
    half = max(1, most // 2)
    found = {count * step // half for step in range(1, half + 1)}
    at, factor = 1.0, count ** (1 / half)
    for _ in range(half):
        found.add(int(at))
        at = max(at + 1, at * factor)
    return tuple(sorted(place for place in found if 1 <= place <= count))


def within(counts: Sequence[int], sizes: Sequence[int], first: int, before: tuple[int, int], want: Want) -> list[Cut]:
    """Cuts behind each of these entries, the first of which is number `first`, up to the first that reaches a limit."""
    cuts: list[Cut] = []
    messages, size = before
    for index, count in enumerate(counts):
        messages += count
        size += sizes[index]
        cuts.append(Cut(first + index + 1, messages, size))
        if reached(cuts[-1], want):
            break
    return [cuts[place - 1] for place in chosen(len(cuts), want.cuts_max)] if cuts else []


def of_run(run: Run, before: tuple[int, int], want: Want) -> list[Cut]:
    """Cuts behind the entries of a run that was read."""
    offsets = run.offsets
    sizes = [offsets[index + 1] - offsets[index] for index in range(len(run))]
    return within(run.counts, sizes, run.first, before, want)


def reached(cut: Cut, want: Want) -> bool:
    return (want.messages is not None and cut.messages >= want.messages) or (
        want.bytes is not None and cut.bytes >= want.bytes
    )
