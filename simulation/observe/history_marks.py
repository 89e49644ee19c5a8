"""Counts rare events that clients and operators caused, from the history of a world.

Brokers mark what happens inside them (`simulation.observe.marks`). Only the client knows whether it moved a queue, or
whether a broker reported a gap to a reader. This module only reads.
"""

from __future__ import annotations

from collections import Counter

from simulation import history as record
from simulation.check.history_index import index_history
from simulation.history import OK, History
from simulation.world.workload import QUEUE


def count_marks(history: History) -> Counter[str]:
    counts: Counter[str] = Counter()
    for subscription in index_history(history).subscriptions.values():
        for line in subscription.lines:
            if line.operation != record.SEEK or line.phase != OK:
                continue
            if line.process == "mover":
                counts["subscription.skipped"] += 1
            elif subscription.type == QUEUE:
                counts["queue.sought"] += 1
            if line.facts.get("by_time"):
                counts["time.sought"] += 1
    counts["gap.told"] = sum(1 for line in history.lines if line.operation == record.GAP)
    counts["topic.migrated"] = sum(1 for line in history.lines if line.operation == record.MIGRATE and line.phase == OK)
    return +counts
