"""Measures a stretch of a managed ledger: how much lies in it, and where in it a reader may stop.

Answered from the record of each ledger and from the engine's index of it. Only where a limit is reached within a few
records of the index are those read, so that a small batch can end between any two entries. Changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from magnetar.base.ids import Position
from magnetar.base.limits import PLAN_FINE_BYTES, PLAN_FINE_ENTRIES_MAX, PLAN_FINE_RECORDS_MAX
from magnetar.ledger.chain import Link
from magnetar.ledger.cuts import Cut, Want, of_run, reached
from magnetar.ledger.managed import ManagedLedger
from magnetar.ledger.store import Reader


@dataclass(frozen=True, slots=True)
class Limits:
    """None: without limit. About `marks_max` marks are given."""

    messages: int | None = None
    bytes: int | None = None
    marks_max: int = 1


@dataclass(slots=True)
class Measured:
    """`messages` and `bytes` of all of it; `marks` up to the first that reaches a limit: the next position, and the
    messages and bytes before it."""

    marks: list[tuple[Position, int, int]] = field(default_factory=list)
    messages: int = 0
    bytes: int = 0
    full: bool = False  # a limit is reached: no marks behind it


async def measured(managed: ManagedLedger, start: Position, last: Position, limits: Limits) -> Measured:
    """Entries from `start` up to and with `last`. NoSuchLedger: trimmed meanwhile."""
    found = Measured()
    links = [one for one in managed.chain.links if start.ledger <= one.ledger <= last.ledger and one.entries]
    for number, link in enumerate(links):
        low = max(0, start.entry) if link.ledger == start.ledger else 0
        high = min(last.entry, link.entries - 1) if link.ledger == last.ledger else link.entries - 1
        if low > high:
            continue
        share = max(1, (limits.marks_max - len(found.marks)) // (len(links) - number))
        await _add(managed, found, link, low, high, limits=limits, share=share)
    return found


async def _add(
    managed: ManagedLedger, found: Measured, link: Link, low: int, high: int, *, limits: Limits, share: int
) -> None:
    """One ledger's part."""
    ends_here = high == link.entries - 1
    total = link.messages, link.bytes  # of now: it may grow while somebody waits
    if low == 0 and ends_here and (found.full or share == 1):
        if not found.full:
            _mark(found, link.ledger, [Cut(high + 1, *total)], (0, 0))
            found.full = _full(found, total, limits)
        found.messages += total[0]
        found.bytes += total[1]
        return
    reader = await managed.reader(link, high)
    before = await reader.count(0, low - 1) if low else (0, 0)
    if not found.full:
        left = _plus(limits.messages, before[0] - found.messages), _plus(limits.bytes, before[1] - found.bytes)
        want = Want(*left, share)
        cuts = await _cuts(managed, reader, Position(link.ledger, low), high, before=before, want=want)
        _mark(found, link.ledger, cuts, before)
        found.full = not cuts or reached(cuts[-1], want)
        if cuts and cuts[-1].entry == high + 1:
            ends_here, total = True, (cuts[-1].messages, cuts[-1].bytes)
    if not ends_here:
        inside = await reader.count(low, high)
        total = before[0] + inside[0], before[1] + inside[1]
    found.messages += total[0] - before[0]
    found.bytes += total[1] - before[1]


async def _cuts(
    managed: ManagedLedger, reader: Reader, first: Position, high: int, *, before: tuple[int, int], want: Want
) -> list[Cut]:
    cuts = await reader.cuts(first.entry, high, want)
    limited = want.messages is not None or want.bytes is not None
    if not limited or not cuts or len(cuts) > PLAN_FINE_RECORDS_MAX or len(cuts) == high + 1 - first.entry:
        return cuts
    entries = min(high + 1 - first.entry, PLAN_FINE_ENTRIES_MAX)
    run = await managed.read(first, PLAN_FINE_BYTES, entries)
    if run is None or (run.ledger, run.first) != first:
        return cuts
    fine = of_run(run, before, want)
    if reached(fine[-1], want):
        return fine
    return fine + [cut for cut in cuts if cut.entry > fine[-1].entry]


def _mark(found: Measured, ledger: int, cuts: list[Cut], before: tuple[int, int]) -> None:
    messages, size = found.messages - before[0], found.bytes - before[1]
    found.marks += [(Position(ledger, cut.entry), messages + cut.messages, size + cut.bytes) for cut in cuts]


def _full(found: Measured, total: tuple[int, int], limits: Limits) -> bool:
    return (limits.messages is not None and found.messages + total[0] >= limits.messages) or (
        limits.bytes is not None and found.bytes + total[1] >= limits.bytes
    )


def _plus(limit: int | None, more: int) -> int | None:
    return None if limit is None else limit + more
