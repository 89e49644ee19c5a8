"""All checkers of histories of real clients, in the order in which their findings are best read."""

from __future__ import annotations

from simulation.check import (
    advance,
    bounded,
    buried,
    children,
    cover,
    cursors,
    duplicates,
    early,
    generations,
    holds,
    identity,
    invented,
    latched,
    leader,
    lost,
    order,
    orphans,
    replays,
    sealed,
    skipped,
    truth,
    writer,
)
from simulation.check.finding import Finding
from simulation.history import History

PLAIN = (invented, writer, lost, duplicates, order, cursors, early, truth, bounded)
SCALABLE = (cover, leader, sealed, identity, latched, children, generations, replays, holds, skipped, orphans, advance)
QUEUES = (buried,)
CHECKERS = (*PLAIN, *SCALABLE, *QUEUES)


def verdict(history: History) -> list[Finding]:
    return [finding for checker in CHECKERS for finding in checker.check(history)]
