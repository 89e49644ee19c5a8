"""All checkers of histories of real clients, in the order in which their findings are best read."""

from __future__ import annotations

from simulation.check import (
    checkpoints,
    child_order,
    cursors,
    dead_letters,
    delayed_delivery,
    drained,
    duplicates,
    error_outcomes,
    holds,
    keyspace,
    layouts,
    limits,
    lost_messages,
    order,
    orphans,
    reshape_order,
    seals,
    segment_ids,
    single_leader,
    single_writer,
    skips,
    unsent,
)
from simulation.check.finding import Finding
from simulation.history import History

PLAIN = (unsent, single_writer, lost_messages, duplicates, order, cursors, delayed_delivery, error_outcomes, limits)
SCALABLE = (
    keyspace,
    single_leader,
    seals,
    segment_ids,
    drained,
    child_order,
    reshape_order,
    checkpoints,
    holds,
    skips,
    orphans,
    layouts,
)
QUEUES = (dead_letters,)
CHECKERS = (*PLAIN, *SCALABLE, *QUEUES)


def check_history(history: History) -> list[Finding]:
    return [finding for checker in CHECKERS for finding in checker.check(history)]
