"""All checkers of histories of real clients, in the order in which their findings are best read."""

from __future__ import annotations

from simulation.check import bounded, cursors, duplicates, early, invented, lost, order, truth, writer
from simulation.check.finding import Finding
from simulation.history import History

CHECKERS = (invented, writer, lost, duplicates, order, cursors, early, truth, bounded)


def verdict(history: History) -> list[Finding]:
    return [finding for checker in CHECKERS for finding in checker.check(history)]
