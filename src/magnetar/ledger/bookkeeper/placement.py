"""The choice of bookies for the ensembles of ledgers: over racks where they are known, away from bookies that failed.

A bookie that failed is in quarantine for a time, and is chosen only if the others do not suffice. Every write set
spans as many racks as it can; a rack that is not known counts as a rack of its own bookie. It decides from the lists
that it is given and talks to no bookie.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from magnetar.base.errors import NotEnoughNodes
from magnetar.base.limits import BOOKKEEPER_QUARANTINE_S, BOOKKEEPER_QUARANTINED_MAX
from magnetar.ledger.store import Quorum

Pick: TypeAlias = Callable[[Sequence[str]], str]  # chance: one of several bookies that are equally good


class Quarantine:
    """Bookies that failed lately."""

    def __init__(self, length_s: float = BOOKKEEPER_QUARANTINE_S) -> None:
        self._length_s = length_s
        self._until: dict[str, float] = {}

    def add(self, bookie: str, now: float) -> None:
        self._until.pop(bookie, None)
        self._until[bookie] = now + self._length_s
        while len(self._until) > BOOKKEEPER_QUARANTINED_MAX:
            del self._until[next(iter(self._until))]

    def release(self, bookie: str) -> None:
        """The bookie works again."""
        self._until.pop(bookie, None)

    def members(self, now: float) -> frozenset[str]:
        for bookie in [bookie for bookie, until in self._until.items() if until <= now]:
            del self._until[bookie]
        return frozenset(self._until)


@dataclass(frozen=True, slots=True)
class Candidates:
    """Writable bookies, in any order."""

    bookies: Sequence[str]
    racks: Mapping[str, str] = field(default_factory=dict)
    quarantined: Collection[str] = ()

    def rack(self, bookie: str) -> str:
        return self.racks.get(bookie, f"bookie:{bookie}")


def ensemble(candidates: Candidates, quorum: Quorum, pick: Pick) -> tuple[str, ...]:
    """Different bookies for a new ledger. NotEnoughNodes: the cluster has fewer."""
    chosen: list[str | None] = [None] * quorum.ensemble
    for position in range(quorum.ensemble):
        bookie = _choose(candidates, quorum, chosen, position, pick)
        if bookie is None:
            raise NotEnoughNodes(
                "too few writable bookies for a new ledger: start more bookies or lower the ensemble size",
                bookies=len(set(candidates.bookies)),
                needed=quorum.ensemble,
            )
        chosen[position] = bookie
    return tuple(bookie for bookie in chosen if bookie is not None)


def replacements(
    candidates: Candidates, quorum: Quorum, current: Sequence[str], positions: Iterable[int], pick: Pick
) -> dict[int, str]:
    """Bookies for the failed positions of an ensemble; positions without a candidate are left out. The failed
    bookie itself is a candidate if no other is left and it is not in quarantine."""
    failed = sorted(positions)
    chosen: list[str | None] = [None if position in failed else bookie for position, bookie in enumerate(current)]
    new: dict[int, str] = {}
    others = Candidates(
        [bookie for bookie in candidates.bookies if bookie not in current], candidates.racks, candidates.quarantined
    )
    for position in failed:
        bookie = _choose(others, quorum, chosen, position, pick)
        old = current[position]
        if bookie is None and old in candidates.bookies and old not in candidates.quarantined:
            bookie = old
        if bookie is not None:
            chosen[position] = new[position] = bookie
    return new


def _choose(
    candidates: Candidates, quorum: Quorum, chosen: Sequence[str | None], position: int, pick: Pick
) -> str | None:
    free = sorted({bookie for bookie in candidates.bookies if bookie not in chosen})
    if not free:
        return None
    near = {candidates.rack(bookie) for bookie in _neighbours(quorum, chosen, position)}
    used = {candidates.rack(bookie) for bookie in chosen if bookie is not None}

    def cost(bookie: str) -> tuple[bool, bool, bool]:
        rack = candidates.rack(bookie)
        return bookie in candidates.quarantined, rack in near, rack in used

    least = min(cost(bookie) for bookie in free)
    return pick([bookie for bookie in free if cost(bookie) == least])


def _neighbours(quorum: Quorum, chosen: Sequence[str | None], position: int) -> list[str]:
    """Bookies that share a write set with the position."""
    size = quorum.ensemble
    near = {(position + step) % size for step in range(1 - quorum.write, quorum.write)} - {position}
    return [bookie for other in sorted(near) if (bookie := chosen[other]) is not None]
