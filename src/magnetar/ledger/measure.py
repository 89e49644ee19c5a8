"""Measures a stretch of a managed ledger: how much lies in it, and where in it a reader may stop.

Answered from the record of each ledger and from the engine's index of it. Only where a limit is reached within a few
records of the index are those read, so that a small batch can end between any two entries. Changes nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple

from magnetar.base.ids import Position
from magnetar.base.limits import PLAN_FINE_BYTES, PLAN_FINE_ENTRIES_MAX, PLAN_FINE_RECORDS_MAX
from magnetar.ledger.chain import LedgerSpan
from magnetar.ledger.cut_points import CutPoints, CutRequest, of_run, reached
from magnetar.ledger.managed import ManagedLedger
from magnetar.ledger.store import Reader


class Limits(NamedTuple):
    """None: without limit. About `marks_max` marks are given."""

    messages: int | None = None
    bytes: int | None = None
    marks_max: int = 1


@dataclass(slots=True)
class Measurement:
    """`messages` and `bytes` of all of it; marks, by columns, up to the first that reaches a limit: the ledger and
    number of the next entry, and the messages and bytes before it."""

    ledgers: list[int] = field(default_factory=list)
    entries: list[int] = field(default_factory=list)  # the next
    before: list[int] = field(default_factory=list)  # messages
    sizes: list[int] = field(default_factory=list)
    messages: int = 0
    bytes: int = 0
    full: bool = False  # a limit is reached: no marks behind it


async def measured(managed: ManagedLedger, start: Position, last: Position, limits: Limits) -> Measurement:
    """Entries from `start` up to and with `last`. NoSuchLedger: trimmed in between."""
    result = Measurement()
    links = [one for one in managed.chain.links if start.ledger <= one.ledger <= last.ledger and one.entries]
    for number, link in enumerate(links):
        low = max(0, start.entry) if link.ledger == start.ledger else 0
        high = min(last.entry, link.entries - 1) if link.ledger == last.ledger else link.entries - 1
        if low > high:
            continue
        share = max(1, (limits.marks_max - len(result.ledgers)) // (len(links) - number))
        await _add(managed, result, link, low, high, limits=limits, share=share)
    return result


async def _add(
    managed: ManagedLedger, result: Measurement, link: LedgerSpan, low: int, high: int, *, limits: Limits, share: int
) -> None:
    """One ledger's part."""
    ends_here = high == link.entries - 1
    total = link.messages, link.bytes  # the present values: they may grow during an await
    if low == 0 and ends_here and (result.full or share == 1):
        if not result.full:
            _mark(result, link.ledger, CutPoints([high + 1], [total[0]], [total[1]]), (0, 0))
            result.full = _full(result, total, limits)
        result.messages += total[0]
        result.bytes += total[1]
        return
    reader = await managed.reader(link, high)
    before = await reader.count(0, low - 1) if low else (0, 0)
    if not result.full:
        left = _plus(limits.messages, before[0] - result.messages), _plus(limits.bytes, before[1] - result.bytes)
        want = CutRequest(*left, share)
        cuts = await _cuts(managed, reader, Position(link.ledger, low), high, before=before, want=want)
        _mark(result, link.ledger, cuts, before)
        result.full = not cuts.entries or reached(cuts, want)
        if cuts.entries and cuts.entries[-1] == high + 1:
            ends_here, total = True, (cuts.messages[-1], cuts.bytes[-1])
    if not ends_here:
        inside = await reader.count(low, high)
        total = before[0] + inside[0], before[1] + inside[1]
    result.messages += total[0] - before[0]
    result.bytes += total[1] - before[1]


async def _cuts(
    managed: ManagedLedger, reader: Reader, first: Position, high: int, *, before: tuple[int, int], want: CutRequest
) -> CutPoints:
    cuts = await reader.cuts(first.entry, high, want)
    count = len(cuts.entries)
    if not count or count > PLAN_FINE_RECORDS_MAX or count == high + 1 - first.entry or not reached(cuts, want):
        return cuts
    entries, size = min(high + 1 - first.entry, PLAN_FINE_ENTRIES_MAX), PLAN_FINE_BYTES
    if want.messages is not None:
        entries = min(entries, want.messages - before[0])  # an entry has one at least
    if want.bytes is not None:
        size = min(size, want.bytes - before[1])
    run = await managed.read(first, size, entries)
    if run is None or (run.ledger, run.first) != first:
        return cuts
    fine = of_run(run, before, want)
    if reached(fine, want):
        return fine
    at = bisect_right(cuts.entries, fine.entries[-1])
    return CutPoints(*(near + far[at:] for near, far in zip(fine, cuts, strict=True)))


def _mark(result: Measurement, ledger: int, cuts: CutPoints, before: tuple[int, int]) -> None:
    messages, size = result.messages - before[0], result.bytes - before[1]
    result.ledgers += [ledger] * len(cuts.entries)
    result.entries += cuts.entries
    result.before += [messages + count for count in cuts.messages] if messages else cuts.messages
    result.sizes += [size + body for body in cuts.bytes] if size else cuts.bytes


def _full(result: Measurement, total: tuple[int, int], limits: Limits) -> bool:
    return (limits.messages is not None and result.messages + total[0] >= limits.messages) or (
        limits.bytes is not None and result.bytes + total[1] >= limits.bytes
    )


def _plus(limit: int | None, more: int) -> int | None:
    return None if limit is None else limit + more
